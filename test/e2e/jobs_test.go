package e2e

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestEachJobGetsARunnerOfItsOwnAndNothingStays(t *testing.T) {
	s := install(t, "jobs", 0, 4)
	ids := s.queue(8, 2*time.Second) // twice what may run at a time
	s.awaitSuccess(ids)
	runners := map[string]bool{}
	for _, job := range s.awaitJobs(ids, state.Completed) {
		if runners[job.Runner] {
			t.Errorf("runner %s had more than one job", job.Runner)
		}
		runners[job.Runner] = true
	}
	s.awaitNoRunners()
}

func TestIdleRunnersAreKeptOnTopOfThoseAtWork(t *testing.T) {
	s := install(t, "idle", 2, 5)
	s.awaitIdle(2)
	ids := s.queue(2, 5*time.Second)
	s.awaitJobs(ids, state.Running)
	s.awaitIdle(2)
	s.awaitSuccess(ids)
}
