package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// Somebody deletes each pod before a pass has seen it, as a policy agent may: that is retried as often as anything
// else.
func TestPodsThatAreNeverSeenAreTriedSixTimes(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletePodsUnseen(30 * time.Minute)
		status := f.runner().Status
		if status.Phase != v1alpha1.EphemeralRunnerPhaseFailed || status.Reason != v1alpha1.ReasonPodLost ||
			len(status.Failures) != len(rules.RetryBackoff) {
			t.Errorf("status %+v, want Failed for %s after six attempts", status, v1alpha1.ReasonPodLost)
		}
	}, newRunner())
}

// An attempt whose pod was seen counts too, under the pod's UID.
func TestPodsThatAreNeverSeenCountAfterOneThatWas(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" })
		f.settle()
		if pods := f.deletePodsUnseen(30 * time.Minute); pods != len(rules.RetryBackoff) {
			t.Errorf("%d more pods, want %d", pods, len(rules.RetryBackoff))
		}
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			len(status.Failures) != len(rules.RetryBackoff) {
			t.Errorf("status %+v, want Failed after six attempts", status)
		}
	}, newRunner())
}

// deletePodsUnseen deletes, for that long, each pod between the pass that created it and the next. It returns their
// number.
func (f *fixture) deletePodsUnseen(long time.Duration) (pods int) {
	f.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); f.elapse(2 * time.Second) {
		f.reconcile()
		if pod := f.pod(); pod != nil {
			pods++
			if err := f.api.WithWatch.Delete(f.Context(), pod); err != nil {
				f.Fatal(err)
			}
		}
	}
	return pods
}
