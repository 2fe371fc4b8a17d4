package listener_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/reports"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
)

// fullMessage returns a full message, one half about jobs that were assigned, the other about jobs that were completed.
func fullMessage() *actions.Message {
	message := &actions.Message{ID: 1, Statistics: listenertest.Statistics(queue.MaxEntries), Entries: queue.MaxEntries}
	for i := range queue.MaxEntries / 2 {
		message.JobsAssigned = append(message.JobsAssigned, actions.JobAssigned{JobMessageBase: listenertest.Job(int64(i))})
		message.JobsCompleted = append(message.JobsCompleted, actions.JobCompleted{
			JobMessageBase: listenertest.Job(int64(1000 + i)), RunnerName: fmt.Sprintf("runner-%d", i), Result: "succeeded",
		})
	}
	return message
}

// handle does the work for a message that comes before anything is written.
func handle(s *scaling.Scaler, message *actions.Message, now time.Time) []reports.Report {
	s.Remember(message, now)
	s.Observe(message.Statistics, now)
	return reports.Of(message, s.Desired.PatchID, now)
}

func BenchmarkMessage(b *testing.B) {
	s, message, now := scaling.New(0, 1000, 0), fullMessage(), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		handle(s, message, now)
	}
}

// Four allocations per entry are allowed: its report's time, its repository's name, and the growth of lists.
func TestAllocationsOfAMessage(t *testing.T) {
	s, message, now := scaling.New(0, 1000, 0), fullMessage(), time.Now()
	if got := testing.AllocsPerRun(100, func() { handle(s, message, now) }); got > 4*queue.MaxEntries {
		t.Errorf("a message of %d entries allocates %.0f times", queue.MaxEntries, got)
	}
}
