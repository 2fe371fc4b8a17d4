package listener

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
)

// A message is written as the number of its entries, "h" if the poll was held for it, or "o" if it has an offer. Of what follows
// each, "w" is a wait and "-" is none.
func TestWaitsThatGatherNothingAreLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		messages, want string
	}{
		"a service that gathers":    {"23523452322332", "wwwwwwwwwwwwww"},
		"one now and then":          {"hhhhhhhhhhhhhh", "wwwwwwwwwwwwww"},
		"one by chance":             {"21211h1h211311", "wwwwwwwwwwwwww"},
		"a message for each event":  {"11111111111111", "www-w--w----w-"},
		"no entries are no better":  {"00000000000000", "www-w--w----w-"},
		"until the service gathers": {"11111111211111", "www-w--wwww-w-"},
		"until the queue is empty":  {"11111111h11111", "www-w--wwww-w-"},
		"offers wait for nothing":   {"oooooo", "------"},
		"offers in the queue":       {"1o1o11111", "w-w-w-w--"},
	} {
		t.Run(name, func(t *testing.T) {
			var g gathering
			var got strings.Builder
			for _, kind := range test.messages {
				received := &actions.Message{Entries: 1}
				switch kind {
				case 'h':
				case 'o':
					received.JobsAvailable = make([]actions.JobAvailable, 1)
				default:
					received.Entries = int(kind - '0')
				}
				g.received(received, kind != 'h')
				got.WriteString(map[bool]string{true: "w", false: "-"}[g.waits])
			}
			if got.String() != test.want {
				t.Errorf("%s: %s, want %s", test.messages, got.String(), test.want)
			}
		})
	}
}

func TestAtMost64MessagesAreTakenWithoutAWait(t *testing.T) {
	var g gathering
	most, inARow := 0, 0
	for range 1000 {
		if inARow++; g.waits {
			inARow = 0
		}
		most = max(most, inARow)
		g.received(&actions.Message{Entries: 1}, true)
	}
	if most != 64 {
		t.Errorf("%d messages in a row, want 64", most)
	}
}

// At five messages a second, an offer behind 600 messages would be seen after 2 min, and runners would end before it is known that
// they had a job.
func TestAQueueOfOneEventMessagesIsReadQuickly(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.log = logr.Discard()
		s.start()
		for id := range int64(600) {
			s.github.enqueue(message(id+1, 0, fmt.Sprintf("complete %d runner-%d", id+1, id)))
		}
		s.github.enqueue(message(601, 0, "offer 9000"))
		s.pass(20 * gatherPeriod)
		if got := s.github.waiting(); len(got) != 0 || s.github.noted("acquire [9000]") != 1 {
			t.Errorf("after %s %d messages are left", 20*gatherPeriod, len(got))
		}
	})
}
