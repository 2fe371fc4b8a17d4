package conditions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestTransitionEvents(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "why"}
	}
	no, yes := metav1.ConditionFalse, metav1.ConditionTrue
	for name, test := range map[string]struct {
		before, after []metav1.Condition
		want          []string
	}{
		"degraded": {nil, []metav1.Condition{condition(v1alpha1.ConditionDegraded, yes, "ImagePullBackOff")}, []string{"ImagePullBackOff"}},
		"quota":    {nil, []metav1.Condition{condition(v1alpha1.ConditionQuotaExceeded, yes, "PodsForbidden")}, []string{"PodsForbidden"}},
		"rate limit, then no answer": {
			[]metav1.Condition{condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonRateLimited)},
			[]metav1.Condition{condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonGitHubUnavailable)}, []string{v1alpha1.ReasonGitHubUnavailable}},
		"stuck is told once": {nil, []metav1.Condition{
			condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonRunnerGroupNotFound), condition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonRunnerGroupNotFound),
		}, []string{v1alpha1.ReasonRunnerGroupNotFound}},
		"other conflict": {
			[]metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "RateLimited")},
			[]metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "SessionConflict")}, []string{"SessionConflict"}},
		"first image is wrong": {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "ImagePullBackOff")}, []string{"ImagePullBackOff"}},
		"pod is made":          {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, v1alpha1.ReasonListenerPodStarting)}, nil},
		"starting":             {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, reasonWaitingForScaleSet)}, nil},
		"the same": {
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")},
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")}, nil},
	} {
		got := Transitions(test.before, test.after)
		if len(got) != len(test.want) || len(got) == 1 && got[0].Reason != test.want[0] {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// The reasons while a set starts are no trouble and have no Event; a listener that loses its session has one.
func TestStationsOfTheStartAreNotTold(t *testing.T) {
	listener := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: status, Reason: reason, Message: "because"}}
	}
	starting := listener(metav1.ConditionFalse, "WaitingForListener")
	for _, reason := range []string{v1alpha1.ReasonListenerPodStarting, v1alpha1.ReasonListenerNotListening} {
		if told := Transitions(starting, listener(metav1.ConditionFalse, reason)); len(told) != 0 {
			t.Errorf("told %+v of a set that starts", told)
		}
		if told := Transitions(listener(metav1.ConditionTrue, "Listening"), listener(metav1.ConditionFalse, reason)); len(told) != 1 {
			t.Errorf("told %+v of a set that listened, want that it does no more", told)
		}
	}
	if told := Transitions(starting, listener(metav1.ConditionFalse, "SessionConflict")); len(told) != 1 {
		t.Errorf("told %+v, want the conflict", told)
	}
}
