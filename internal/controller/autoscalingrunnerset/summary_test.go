package autoscalingrunnerset_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// An EphemeralRunnerSet that somebody deletes while jobs run has a successor only after they have finished, which can
// take hours: the status says what is waited for.
func TestDeletedRunnerSetSaysWhatItWaitsFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.holdDependents()
		deleted := &f.runnerSets()[0]
		deleted.Status.CurrentReplicas, deleted.Status.RunningEphemeralRunners, deleted.Status.BusyRunners = 3, 3, 2
		f.updateStatus(deleted)
		if err := f.client.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		f.settle()
		set := f.set()
		ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message,
			"EphemeralRunnerSet set was deleted; no runner is created until its 2 busy runners") ||
			set.Status.Phase != v1alpha1.AutoscalingRunnerSetPhasePending {
			t.Errorf("phase %s, Ready %+v", set.Status.Phase, ready)
		}
		f.release(&f.runnerSets()[0])
		f.settle()
		if made := f.runnerSets(); len(made) != 1 || made[0].DeletionTimestamp != nil ||
			f.set().Status.Phase != v1alpha1.AutoscalingRunnerSetPhaseRunning {
			t.Errorf("phase %s with %+v, want a new EphemeralRunnerSet", f.set().Status.Phase, made)
		}
	})
}
