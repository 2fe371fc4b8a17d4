package autoscalingrunnerset_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// A claim without a volume is said by the scale set itself, by its name and not as a lack of nodes, and in the words of the
// claim; when it has a volume nothing limits the set.
func TestTheStatusSaysThatAClaimHasNoVolume(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.settle()
		runnerSet := f.runnerSets()[0]
		says := func(status metav1.ConditionStatus) {
			meta.SetStatusCondition(&runnerSet.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRunnersPending, Status: status,
				Reason: v1alpha1.ReasonVolumeUnbound, Message: "PersistentVolumeClaim r-work: no storage class is set"})
			f.updateStatus(&runnerSet)
			controllertest.Elapse(time.Minute)
			f.settle()
			runnerSet = f.runnerSets()[0]
		}
		says(metav1.ConditionTrue)
		status := f.set().Status
		pending := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRunnersPending)
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		if by := status.LimitedBy; by == nil || by.Kind != "Claims" || by.Reason != v1alpha1.ReasonVolumeUnbound ||
			!strings.Contains(by.Message, "r-work: no storage class is set") {
			t.Errorf("limited by %+v", by)
		}
		if pending == nil || pending.Reason != v1alpha1.ReasonVolumeUnbound || pending.Status != metav1.ConditionTrue ||
			ready == nil || ready.Reason != v1alpha1.ReasonVolumeUnbound || !strings.Contains(ready.Message, "r-work") {
			t.Errorf("RunnersPending is %+v, and Ready %+v", pending, ready)
		}
		says(metav1.ConditionFalse)
		if by := f.set().Status.LimitedBy; by != nil {
			t.Errorf("limited by %+v, want nothing", by)
		}
	})
}
