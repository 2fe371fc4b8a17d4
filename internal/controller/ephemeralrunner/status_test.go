package ephemeralrunner

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A status that could not be written is written again; what there is to tell is told once.
func TestEventsComeAfterTheStatusTheyAreAbout(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted" })
		f.api.refuse = map[string]error{"patch status EphemeralRunner": errors.New("the API server is away")}
		for range 3 {
			if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: runnerKey}); err == nil {
				t.Fatal("a status that was not written is no error")
			}
		}
		if told := len(f.recorder.Events); told != 0 {
			t.Errorf("%d Events before the status was written", told)
		}
		f.api.refuse = nil
		f.reconcile()
		f.wantEvent("Evicted")
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhasePending || len(status.Failures) != 1 {
			t.Errorf("status %+v", status)
		}
	}, newRunner())
}
