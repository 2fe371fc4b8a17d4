package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// A status names a wrong setting within verdictLimit of the installation, before any job.
const verdictLimit = 30 * time.Second

func TestWrongTokenIsToldBeforeTheFirstJob(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{PATs: []string{"ghp_right"}}), "wrong-token", 0, 1)
	s.values["githubConfigSecret"] = site.Values{"github_token": "ghp_wrong"}
	s.applyWithoutWaiting()
	s.awaitTrouble(v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonUnauthorized)
	// Helm could not wait: nothing of the set's own spec changes, so its status stays "failed" until the Secret is read
	// again.
	s.values["githubConfigSecret"] = site.Values{"github_token": "ghp_right"}
	s.applyWithoutWaiting()
	s.awaitListener()
	s.awaitSuccess(s.queue(1, time.Second))
}

func TestWrongRunnerGroupIsToldBeforeTheFirstJob(t *testing.T) {
	t.Parallel()
	s := prepare(t, serve(t, fakegithub.Options{RunnerGroups: []string{"builders"}}), "wrong-group", 0, 1)
	s.values["runnerGroup"] = "bilders"
	s.applyWithoutWaiting()
	s.awaitTrouble(v1alpha1.ConditionScaleSetRegistered, v1alpha1.ReasonRunnerGroupNotFound)
	s.values["runnerGroup"] = "builders"
	s.install()
	s.awaitSuccess(s.queue(1, time.Second))
}

// The notes that Helm prints name a command that tells whether the set works; it has to end well when it does.
func TestNotesSayHowToWaitForReady(t *testing.T) {
	t.Parallel()
	s := install(t, "notes", 0, 1)
	notes, err := place.Helm(t.Context(), "get", "notes", s.name, "--namespace="+s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(notes) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "kubectl ")
		if !found || !strings.Contains(command, " wait ") {
			continue
		}
		ran++
		if output, err := place.Kubectl(t.Context(), strings.Fields(command)...); err != nil {
			t.Errorf("kubectl %s: %v\n%s", command, err, output)
		}
	}
	if ran == 0 {
		t.Errorf("the notes have no command to wait with:\n%s", notes)
	}
}

// applyWithoutWaiting installs or upgrades to a set that is ready later, or never.
func (s *scaleSet) applyWithoutWaiting() {
	s.t.Helper()
	s.installed = true
	if err := place.Apply(s.t.Context(), s.name, site.ScaleSetChart, s.namespace, s.values); err != nil {
		s.t.Fatal(err)
	}
}

// awaitTrouble waits until the condition is False for the reason, and Ready repeats its message. Both within the limit
// that users are promised.
func (s *scaleSet) awaitTrouble(condition, reason string) {
	s.t.Helper()
	err := place.Await(s.t.Context(), condition+"=False", verdictLimit, func() (string, error) {
		set, err := s.object(s.t.Context())
		if err != nil {
			return "", err
		}
		got := meta.FindStatusCondition(set.Status.Conditions, condition)
		ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
		if got == nil || ready == nil || got.Status != metav1.ConditionFalse || got.Reason != reason {
			return fmt.Sprintf("%s is %+v", condition, got), nil
		}
		if ready.Status != metav1.ConditionFalse || ready.Message != got.Message {
			return fmt.Sprintf("Ready is %+v", ready), nil
		}
		return "", nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
