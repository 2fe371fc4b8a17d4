package ephemeralrunnerset

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// recordEvents records an Event for each condition that became true or false between two states of a set.
func (c *Controller) recordEvents(ctx context.Context, before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionRunnerOutdated} {
		was := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch is := now != nil && now.Status == metav1.ConditionTrue; {
		case is && !was:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Warning(conditionType, "ScaleRunners", now.Message))
		case was && !is:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Normal(now.Reason, "ScaleRunners", now.Message))
		}
	}
}
