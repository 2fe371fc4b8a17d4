package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestEachJobGetsARunnerOfItsOwnAndNothingStays(t *testing.T) {
	t.Parallel()
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

func TestIdleRunnersComeWithTheInstallation(t *testing.T) {
	t.Parallel()
	s := install(t, "start", 3, 5)
	s.awaitIdle(3)
	s.await(t.Context(), "the status to say so", func() (string, error) {
		set, err := s.object(t.Context())
		if err != nil || set.Status.IdleRunners == 3 {
			return "", err
		}
		return fmt.Sprintf("%d runners are idle in the status", set.Status.IdleRunners), nil
	})
}

func TestIdleRunnersAreKeptOnTopOfThoseAtWork(t *testing.T) {
	t.Parallel()
	s := install(t, "idle", 2, 5)
	s.awaitIdle(2)
	ids := s.queue(2, longJob)
	s.awaitJobs(ids, state.Running)
	s.awaitIdle(2)
	s.endJobs()
	s.awaitSuccess(ids)
}
