package listener

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// How many jobs GitHub keeps because the set has no room stands in the status, once it is at its maximum, and a change
// of the number costs a write a minute at most.
func TestJobsThatGitHubKeepsStandInTheStatus(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 3
		s.github.statistics = statistics(2)
		s.github.statistics.TotalAvailableJobs = 4 // for a moment, while there is room
		s.start()
		if got := s.cluster.Status().AvailableJobs; got != 0 {
			t.Errorf("%d jobs are kept, while there is room", got)
		}
		full := message(1, 3)
		full.Statistics.TotalAvailableJobs = 6
		s.send(full)
		s.pass(serving.PollHold)
		if got := s.cluster.Status().AvailableJobs; got != 6 {
			t.Errorf("%d jobs are kept, want 6", got)
		}
		before := s.cluster.StatusWrites()
		for i := range 5 {
			more := message(int64(2+i), 3)
			more.Statistics.TotalAvailableJobs = 7 + i
			s.send(more)
			s.pass(10 * time.Second)
		}
		if writes := s.cluster.StatusWrites() - before; writes > 1 {
			t.Errorf("%d writes in 50 s", writes)
		}
		s.pass(2 * time.Minute)
		if got := s.cluster.Status().AvailableJobs; got != 11 {
			t.Errorf("%d jobs are kept, want 11", got)
		}
	})
}

// A job that has waited for five seconds stands in the status, until a runner has it; where jobs come and go all the time,
// that costs a write in half a minute.
func TestJobsThatWaitStandInTheStatus(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(2)
		s.start()
		s.pass(time.Minute)
		s.send(message(1, 2, "assign 1"))
		s.pass(4 * time.Second)
		if got := s.cluster.Status().Waiting; len(got) != 0 {
			t.Errorf("after 4 s %+v wait", got)
		}
		s.pass(2 * time.Second)
		if got := s.cluster.Status().Waiting; len(got) != 1 {
			t.Errorf("after 6 s %+v wait, want one", got)
		}
		before := s.cluster.StatusWrites()
		for i := range 60 {
			s.send(message(int64(2+i), 2, fmt.Sprint("assign ", 2+i), fmt.Sprintf("start %d runner-%d", 1+i, i)))
			s.pass(5 * time.Second)
		}
		if writes := s.cluster.StatusWrites() - before; writes > 10 {
			t.Errorf("%d writes in 300 s", writes)
		}
		s.send(message(70, 2, "start 61 runner-61"))
		s.pass(30 * time.Second)
		if got := s.cluster.Status().Waiting; len(got) != 0 {
			t.Errorf("with a runner each %+v wait", got)
		}
	})
}

// A job that is cancelled before it has a runner is told, with its times; one that GitHub assigns again is not, and
// nothing stays for ever.
func TestJobsThatGiveUpStandInTheStatus(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(2)
		s.start()
		over := message(1, 2, "complete 1", "complete 2", "complete 3 runner-a")
		for i := range over.JobsCompleted {
			over.JobsCompleted[i].Result = "canceled"
		}
		s.send(over)
		s.pass(30 * time.Second)
		if got := s.cluster.Status().GaveUp; len(got) != 2 {
			t.Fatalf("%+v gave up, want two", got)
		}
		s.send(message(2, 2, "assign 2"))
		s.pass(30 * time.Second)
		if got := s.cluster.Status().GaveUp; len(got) != 1 || got[0].FinishedAt.IsZero() {
			t.Errorf("%+v gave up, want one", got)
		}
		s.pass(10 * time.Minute)
		if got := s.cluster.Status().GaveUp; len(got) != 0 {
			t.Errorf("%+v stay", got)
		}
	})
}
