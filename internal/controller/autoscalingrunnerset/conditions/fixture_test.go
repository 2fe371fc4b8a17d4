package conditions_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
)

const address = "https://github.com/my-org"

// newSet returns an AutoscalingRunnerSet as the chart would create it.
func newSet() *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set", UID: "set-uid", Generation: 1},
		Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: address, GitHubConfigSecret: "github"},
	}
}

// healthy returns the findings about a set that lacks nothing, after the change.
func healthy(change func(*conditions.Findings)) *conditions.Findings { return healthyUnder(0, change) }

// healthyUnder is healthy with a manager that allows a set that many runners, 0 for any.
func healthyUnder(ceiling int, change func(*conditions.Findings)) *conditions.Findings {
	set := newSet()
	condition := func(conditionType string) []metav1.Condition {
		return []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue, Reason: "PodReady",
			ObservedGeneration: set.Generation}}
	}
	set.Status.Conditions = append(condition(v1alpha1.ConditionScaleSetRegistered),
		condition(v1alpha1.ConditionCredentialsValid)...)
	f := &conditions.Findings{
		Set: set, ObservedAt: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		Registration: &v1alpha1.ScaleSetRegistration{URL: address, Name: "set", Group: "Default", ID: 1},
		Found: children.Found{RunnerSets: []v1alpha1.EphemeralRunnerSet{{Status: v1alpha1.EphemeralRunnerSetStatus{
			CurrentReplicas: 3, RunningEphemeralRunners: 2, FailedEphemeralRunners: 1,
			Listener: &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening},
		}}}, Listeners: []v1alpha1.AutoscalingListener{
			{Status: v1alpha1.AutoscalingListenerStatus{Conditions: condition(v1alpha1.ConditionReady)}}}},
	}
	f.Desired, f.Cause = scaleset.DesiredOf(set)
	change(f)
	f.Numbers = (&effective.Plan{}).At(f.Set, ceiling, f.ObservedAt)
	return f
}

// conditionOf returns what the status says with these findings; nothing in it is set if the status has no such
// condition.
func conditionOf(t *testing.T, f *conditions.Findings, about string) metav1.Condition {
	t.Helper()
	if c := meta.FindStatusCondition(f.NextStatus("1.2.3").Conditions, about); c != nil {
		return *c
	}
	return metav1.Condition{}
}
