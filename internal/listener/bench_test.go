package listener

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// fullMessage returns a full message, one half about jobs that were assigned, the other about jobs that were completed.
func fullMessage() *actions.Message {
	message := &actions.Message{ID: 1, Statistics: statistics(maxMessageEntries), Entries: maxMessageEntries}
	for i := range maxMessageEntries / 2 {
		message.JobsAssigned = append(message.JobsAssigned, actions.JobAssigned{JobMessageBase: job(int64(i))})
		message.JobsCompleted = append(message.JobsCompleted, actions.JobCompleted{
			JobMessageBase: job(int64(1000 + i)), RunnerName: fmt.Sprintf("runner-%d", i), Result: "succeeded",
		})
	}
	return message
}

// handle does the work for a message that comes before anything is written.
func handle(s *scaler, message *actions.Message, now time.Time) []jobReport {
	s.remember(message, now)
	s.observe(message.Statistics, now)
	return reportsOf(message, s.desired.PatchID, now)
}

func BenchmarkMessage(b *testing.B) {
	s, message, now := newScaler(0, 1000, 0), fullMessage(), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		handle(s, message, now)
	}
}

// Four allocations per entry are allowed: its report's time, its repository's name, and the growth of lists.
func TestAllocationsOfAMessage(t *testing.T) {
	s, message, now := newScaler(0, 1000, 0), fullMessage(), time.Now()
	if got := testing.AllocsPerRun(100, func() { handle(s, message, now) }); got > 4*maxMessageEntries {
		t.Errorf("a message of %d entries allocates %.0f times", maxMessageEntries, got)
	}
}
