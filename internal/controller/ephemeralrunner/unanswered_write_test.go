package ephemeralrunner_test

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// Writes of the status that end in an error although they may have taken effect.

var errNotAnswered = errors.New("the server timed out")

// failsToReconcile runs a pass in which a request to the API server fails.
func (f *fixture) failsToReconcile() {
	f.Helper()
	if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: runnerKey}); err == nil {
		f.Fatal("a request that was not answered is not an error")
	}
}

// losesAnswer runs a pass that writes the status without an answer, and further passes after it. With podGoes the pod
// is gone before those, which are late.
func (f *fixture) losesAnswer(podGoes bool) {
	f.Helper()
	f.api.unanswered = errNotAnswered
	f.failsToReconcile()
	f.api.unanswered = nil
	if podGoes {
		if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
			f.Fatal(err)
		}
		f.elapse(rules.RetryBackoff[0])
		f.reconcile()
		if f.pod() == nil {
			f.Error("the next attempt has not begun though its pause is over")
		}
	}
	f.settle()
}

// The next attempt starts after its back-off, and a failure counts and is reported a single time.
func TestAttemptIsOverThoughItsFailureIsNotedWithoutAnAnswer(t *testing.T) {
	for title, podGoes := range map[string]bool{"the pod is there": false, "the pod is gone by then": true} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(evict)
				f.losesAnswer(podGoes)
				f.elapse(rules.RetryBackoff[0])
				f.settle()
				f.wantAttempts(1, "Evicted")
				f.wantEvent("Evicted")
				f.wantPodOf("101")
				f.wantCalls("jit")
			}, newRunner())
		})
	}
}

// The same after a start: the registration is gone, and nothing is remembered of the start.
func TestStartedAttemptIsOverThoughItsFailureIsNotedWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setPod(exits(1))
		f.reconcile() // GitHub is asked
		f.losesAnswer(false)
		f.wantNewRegistration()
		f.wantAttempts(1, "Error")
		f.wantEvent("Error")
		f.wantCalls("remove 101", "jit")
	}, newRunner())
}

// The failure of an attempt whose pod was never seen has another key.
func TestUnseenAttemptIsOverThoughItsFailureIsNotedWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.elapse(rules.UnseenTimeout)
		f.reconcile() // GitHub is asked
		f.losesAnswer(false)
		f.wantNewRegistration()
		f.wantAttempts(1, v1alpha1.ReasonPodLost)
		f.wantEvent(v1alpha1.ReasonPodLost)
	}, newRunner())
}

func TestStartIsCountedOnceThoughItsReportFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		before := startsCounted(t, "refused-start") // by an earlier run of this test
		f.settle()
		f.setPod(runs)
		f.api.refuse = map[string]error{"patch status EphemeralRunner": errNotAnswered}
		for range 3 {
			f.failsToReconcile()
		}
		if got := startsCounted(t, "refused-start") - before; got != 0 {
			t.Errorf("%g starts counted before one was reported", got)
		}
		f.api.refuse = nil
		f.settle()
		if got := startsCounted(t, "refused-start") - before; got != 1 {
			t.Errorf("%g starts counted, want 1", got)
		}
	}, measured("refused-start"))
}
