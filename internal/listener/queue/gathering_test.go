package queue

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

// A message is written as the number of its entries, "h" if the poll was held for it, or "o" if it has an offer. Of
// what follows each, "w" is a wait and "-" is none.
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
			var g Gathering
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
				g.Received(received, kind != 'h')
				got.WriteString(map[bool]string{true: "w", false: "-"}[g.Waits])
			}
			if got.String() != test.want {
				t.Errorf("%s: %s, want %s", test.messages, got.String(), test.want)
			}
		})
	}
}

func TestAtMost64MessagesAreTakenWithoutAWait(t *testing.T) {
	var g Gathering
	most, inARow := 0, 0
	for range 1000 {
		if inARow++; g.Waits {
			inARow = 0
		}
		most = max(most, inARow)
		g.Received(&actions.Message{Entries: 1}, true)
	}
	if most != 64 {
		t.Errorf("%d messages in a row, want 64", most)
	}
}
