package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

func TestJobsSurviveTheDeathOfTheListener(t *testing.T) {
	t.Parallel()
	s := install(t, "listener", 0, 6)
	ids := s.queue(6, 4*time.Second)
	s.awaitJobs(ids[:1], state.Running)
	kill(t, s.listenerPod())
	ids = append(ids, s.queue(4, time.Second)...) // nobody listens when these come
	s.awaitSuccess(ids)
	s.awaitNoRunners()
}

func TestJobsSurviveTheDeathOfTheManager(t *testing.T) {
	s := install(t, "manager", 0, 6)
	ids := s.queue(6, 4*time.Second)
	s.awaitJobs(ids[:1], state.Running)
	kill(t, managers(t, 1)[0])
	ids = append(ids, s.queue(4, time.Second)...)
	s.awaitSuccess(ids)
	s.awaitNoRunners()
}

// A pod that is lost after its runner registered must come back with a new registration: GitHub would see the old JIT
// config used twice, which is an anomaly that ends the test.
func TestLostIdleRunnerIsReplacedUnderANewRegistration(t *testing.T) {
	t.Parallel()
	s := install(t, "lost", 1, 2)
	s.awaitIdle(1)
	before := s.idle()[0]
	i := slices.IndexFunc(s.runnerPods(), func(p corev1.Pod) bool { return p.Name == before.Name })
	if i < 0 {
		t.Fatalf("runner %s has no pod of its name", before.Name)
	}
	kill(t, s.runnerPods()[i])
	s.await(t.Context(), "another runner", func() (string, error) {
		idle := s.idle()
		if len(idle) != 1 || idle[0].ID == before.ID {
			return "GitHub knows the old registration only", nil
		}
		return "", nil
	})
	s.awaitSuccess(s.queue(2, time.Second))
}
