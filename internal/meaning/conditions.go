package meaning

import (
	"cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const describeListener = "run kubectl describe on the AutoscalingListener and its pod in the manager's namespace"

// ofConditions is the advice about conditions with a reason of which nothing is to be said, by their type.
var ofConditions = map[string]string{
	v1alpha1.ConditionCredentialsValid:     correctSecret,
	v1alpha1.ConditionListenerReady:        describeListener,
	v1alpha1.ConditionRunnerOutdated:       newerImage,
	v1alpha1.ConditionRunnerVersionExpires: keepImageNew,
	v1alpha1.ConditionScaleSetRegistered:   "wait: GitHub is asked again at least once a minute",
	v1alpha1.ConditionDegraded: "correct the template; run kubectl describe on one of the failed " +
		"EphemeralRunners",
	v1alpha1.ConditionRunnersUnprotected: protect,
	v1alpha1.ConditionCapacityLimited:    moreRoom,
	v1alpha1.ConditionVersionSupported:   "upgrade the charts of controller and scale set to the same version",
}

// OfCondition returns what to do about a condition with a reason, "" if nothing is known.
func OfCondition(conditionType, reason string) string {
	row := For(reason)
	if conditionType == v1alpha1.ConditionListenerReady && row.OfPods {
		return cmp.Or(row.OfListener, ofConditions[conditionType])
	}
	return cmp.Or(row.Advice, ofConditions[conditionType])
}

// OfRunner returns what to do about a runner, or a pod, that waits or has failed for a reason.
func OfRunner(reason string) string {
	return cmp.Or(For(reason).Advice, "run kubectl describe on the EphemeralRunner and its pod")
}
