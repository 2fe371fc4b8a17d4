package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
)

// receive takes a message as a listener does, and returns what is known of it.
func (q *Messages) receive(message *actions.Message) (underWay, counted bool) {
	if underWay, counted = q.Receive(message); !underWay {
		q.Enqueue(message, 1, errand.New(time.Second, time.Minute))
	}
	return underWay, counted
}

// A message is handled a single time while it is on its way, and counted a single time although it comes again.
func TestWhatIsKnownOfAMessage(t *testing.T) {
	q, first := New(), listenertest.Message(7, 1, "start 1 a")
	again := listenertest.Message(7, 5, "start 1 a") // with the statistics of its own moment
	if underWay, counted := q.receive(first); underWay || counted {
		t.Errorf("a new message: under way %t, counted %t", underWay, counted)
	}
	if underWay, _ := q.receive(again); !underWay || !q.Blocked() {
		t.Errorf("the same again: under way %t, want it, and polls to wait for its deletion: %t", underWay, q.Blocked())
	}
	q.NewSession()
	if underWay, _ := q.receive(again); !underWay || q.Blocked() || q.LastID() != 7 {
		t.Errorf(
			"in a new session: under way %t, blocked %t, after %d; want later ones to be polled for",
			underWay, q.Blocked(), q.LastID(),
		)
	}
	q.Remove(q.Unacked[7], false)
	if underWay, counted := q.receive(again); underWay || !counted {
		t.Errorf(
			"after it could not be deleted: under way %t, counted %t; want it handled again and not counted",
			underWay, counted,
		)
	}
	if underWay, counted := q.receive(listenertest.Message(7, 1, "complete 1 a")); underWay || counted {
		t.Errorf("another message of that ID: under way %t, counted %t", underWay, counted)
	}
	q.Remove(q.Unacked[7], true)
	if _, counted := q.receive(listenertest.Message(7, 1, "complete 1 a")); counted {
		t.Error("a message that was deleted counts as one that comes again")
	}
}

// A message is given up early only while polls wait for room.
func TestWhenAMessageHasWaitedForItsDeletionTooLong(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		messages       int
		reported       time.Duration
		allowed        time.Duration
		blocked, wants bool
	}{
		"just reported":                   {1, 0, 0, false, false},
		"for a minute":                    {1, -DeletionTimeout, 0, false, true},
		"limited for long":                {1, 0, time.Hour, false, false},
		"limited for long, full":          {MaxUnacked, 0, time.Hour, true, true},
		"limited for a short while, full": {MaxUnacked, 0, time.Second, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := New()
			for id := range int64(test.messages) {
				q.receive(listenertest.Message(id+1, 0))
			}
			m := q.Unacked[1]
			m.ReportedAt, q.DeletionsAllowedAt = now.Add(test.reported), now.Add(test.allowed)
			if got := q.Expired(m, now); got != test.wants || q.Blocked() != test.blocked {
				t.Errorf("expired %t, polls blocked %t; want %t, %t", got, q.Blocked(), test.wants, test.blocked)
			}
		})
	}
}

// Of the messages whose offers would be lost, the newest are kept, and only those that nothing else keeps from being
// deleted.
func TestWhichMessagesAreKept(t *testing.T) {
	q := New()
	for id := range int64(2 * maxKept) {
		q.receive(listenertest.Message(id+1, 0))
		q.Unacked[id+1].ReportedAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	}
	q.receive(listenertest.Message(2*maxKept, 0)) // again, so polls wait for it
	q.Unacked[2*maxKept-1].Begin()
	q.Unacked[2*maxKept-2].ReportedAt = time.Time{}
	var want []int64
	for id := int64(maxKept - 3); id < 2*maxKept-3; id++ {
		want = append(want, id)
	}
	kept := q.Kept(func(m *actions.Message) bool { return m.ID != 2*maxKept-3 })
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
