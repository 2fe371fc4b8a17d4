package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
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

func TestRunnerPodsKnowNoCredentialsOfTheScaleSet(t *testing.T) {
	s := install(t, "secrets", 1, 1)
	s.awaitIdle(1)
	pods := s.runnerPods()
	if len(pods) != 1 {
		t.Fatalf("%d runner pods, want 1", len(pods))
	}
	content, err := json.Marshal(pods[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"any-token-will-do", "github-secret"} {
		if strings.Contains(string(content), secret) {
			t.Errorf("the runner pod mentions %q", secret)
		}
	}
	output, err := place.Kubectl(t.Context(), "auth", "can-i", "--list", "--namespace="+s.namespace,
		"--as=system:serviceaccount:"+s.namespace+":"+pods[0].Spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"pods", "secrets", v1alpha1.GroupVersion.Group} {
		if strings.Contains(output, resource) {
			t.Errorf("the runner's ServiceAccount has rights on %s:\n%s", resource, output)
		}
	}
}
