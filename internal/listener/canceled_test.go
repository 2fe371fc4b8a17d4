package listener

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// The set learns how many jobs were cancelled before a runner had them, also if as many runners are wanted as before.
// The next listener goes on counting.
func TestCancelledJobsAreCountedSinceTheSetExists(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.Set.CanceledJobs = 5
		s.github.statistics = statistics(2)
		s.start()
		if got := s.cluster.Last().CanceledJobs; got != 5 {
			t.Errorf("%d cancelled jobs at first, want those that the last listener has counted", got)
		}
		canceled := message(1, 2, "complete 1", "complete 2 runner-a")
		for i := range canceled.JobsCompleted {
			canceled.JobsCompleted[i].Result = "canceled"
		}
		s.send(canceled)
		s.pass(serving.PollHold)
		if got := s.cluster.Last().CanceledJobs; got != 6 {
			t.Errorf("%d cancelled jobs, want one more", got)
		}
	})
}
