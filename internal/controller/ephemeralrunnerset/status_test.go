package ephemeralrunnerset_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

const statusPatches = "patch status *v1alpha1.EphemeralRunnerSet"

// The listener writes the spec several times in a burst. That the set has seen it is told together with the next
// figures, or in a while.
func TestANewGenerationAloneWaits(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		controllertest.Elapse(time.Minute)
		f.reconcile()
		before := f.requests[statusPatches]
		set := f.set()
		set.Generation++
		set.Spec.PatchID++
		if err := f.api.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if again := f.reconcile().RequeueAfter; f.requests[statusPatches] != before || again <= 0 || again > echoPeriod {
			t.Fatalf("%d writes, and the next pass after %s; want none, and one within %s",
				f.requests[statusPatches]-before,
				again, echoPeriod)
		}
		controllertest.Elapse(echoPeriod)
		f.reconcile()
		if got := f.set().Status.ObservedGeneration; got != set.Generation || f.requests[statusPatches] != before+1 {
			t.Errorf("observedGeneration %d after %d writes, want %d after one", got, f.requests[statusPatches]-before,
				set.Generation)
		}
	}, newSet(0))
}

// Figures wait for their turn; that a condition becomes true does not.
func TestAConditionThatTurnsIsWrittenAtOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		before := f.requests[statusPatches]
		for _, r := range f.runners() {
			r.Status.Phase, r.Status.Reason, r.Status.Message = v1alpha1.EphemeralRunnerPhaseFailed, "ErrImagePull",
				"no such image"
			if err := f.api.Status().Update(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		if f.reconcile(); f.requests[statusPatches] != before+1 || !f.event(v1alpha1.ConditionDegraded) {
			t.Errorf("%d writes in the moment after another, want one, and an Event", f.requests[statusPatches]-before)
		}
	}, newSet(3))
}
