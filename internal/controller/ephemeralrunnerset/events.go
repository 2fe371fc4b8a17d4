package ephemeralrunnerset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// announce tells of the conditions that changed between two states of a set: what went wrong, and that it is well again.
func (c *Controller) announce(before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionOutdated} {
		was := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch is := now.Status == "True"; {
		case is && !was:
			c.Recorder.Eventf(after, nil, corev1.EventTypeWarning, conditionType, "ScaleRunners", "%s", now.Message)
		case was && !is:
			c.Recorder.Eventf(after, nil, corev1.EventTypeNormal, now.Reason, "ScaleRunners", "%s", now.Message)
		}
	}
}
