package conditions

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A set has a series for each cause, and none after the cause is over or the set is gone.
func TestTroublesAreShownWhileTheyLast(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
	}
	set, m := types.NamespacedName{Namespace: "team", Name: "linux"}, &Shown{}
	others, series := testutil.CollectAndCount(troubles), testutil.CollectAndCount(ready) // of other tests
	for _, step := range []struct {
		conditions []metav1.Condition
		want       []trouble
	}{
		{[]metav1.Condition{
			condition(v1alpha1.ConditionCredentialsValid, no, v1alpha1.ReasonUnauthorized),
			condition(v1alpha1.ConditionReady, no, v1alpha1.ReasonUnauthorized),
			condition(v1alpha1.ConditionListenerReady, no, reasonWaitingForScaleSet),
			condition(v1alpha1.ConditionDegraded, no, "Fine"),
		}, []trouble{{v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonUnauthorized}}},
		{[]metav1.Condition{
			condition(v1alpha1.ConditionCredentialsValid, yes, reasonAccepted),
			condition(v1alpha1.ConditionReady, yes, "Unschedulable"),
			condition(v1alpha1.ConditionRunnersPending, yes, "Unschedulable"),
			condition(v1alpha1.ConditionQuotaExceeded, yes, "PodsForbidden"),
		}, []trouble{{v1alpha1.ConditionRunnersPending, "Unschedulable"},
			{v1alpha1.ConditionQuotaExceeded, "PodsForbidden"}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionRunnersPending, yes, "ImagePullBackOff")}, []trouble{{v1alpha1.ConditionRunnersPending, "ImagePullBackOff"}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionStatisticsDoubtful, yes, v1alpha1.ReasonJobsNotTaken)},
			[]trouble{{v1alpha1.ConditionStatisticsDoubtful, v1alpha1.ReasonJobsNotTaken}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionReady, yes, reasonReady)}, nil},
	} {
		m.Show(set, step.conditions, false)
		if count := testutil.CollectAndCount(troubles) - others; count != len(step.want) {
			t.Errorf("%d troubles are shown, want %v", count, step.want)
		}
		for _, want := range step.want {
			if testutil.ToFloat64(troubles.WithLabelValues(set.Name, set.Namespace, want.condition, want.reason)) != 1 {
				t.Errorf("%v is not shown", want)
			}
		}
	}
	ended := map[string]func(){"deleted": func() { m.Show(set, nil, true) }, "gone": func() { Unpublish(set) }}
	for how, end := range ended {
		m.Show(set, []metav1.Condition{condition(v1alpha1.ConditionDegraded, yes, "OOMKilled")}, false)
		end()
		if count := testutil.CollectAndCount(troubles) + testutil.CollectAndCount(ready); count != others+series {
			t.Errorf("%d series of a set that is %s", count-others-series, how)
		}
	}
}

// Whoever may write the status of runners or runner sets can't create any number of series.
func TestUnknownReasonsShareASeries(t *testing.T) {
	set, m := types.NamespacedName{Namespace: "team", Name: "forged"}, &Shown{}
	defer Unpublish(set)
	others := testutil.CollectAndCount(troubles)
	for i := range 10_000 {
		m.Show(set, []metav1.Condition{
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: fmt.Sprint("Forged", i)},
			{Type: v1alpha1.ConditionRunnersPending, Status: metav1.ConditionTrue, Reason: fmt.Sprint("Forged", i)},
		}, false)
	}
	if count := testutil.CollectAndCount(troubles) - others; count != 2 {
		t.Errorf("%d series, want 2", count)
	}
	if testutil.ToFloat64(troubles.WithLabelValues(set.Name, set.Namespace, v1alpha1.ConditionDegraded, "Other")) != 1 {
		t.Error("the trouble is not shown as Other")
	}
}

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
			[]metav1.Condition{condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonGitHubUnavailable)},
			[]string{v1alpha1.ReasonGitHubUnavailable}},
		"stuck is told once": {nil, []metav1.Condition{
			condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonRunnerGroupNotFound),
			condition(v1alpha1.ConditionStalled, yes, v1alpha1.ReasonRunnerGroupNotFound),
		}, []string{v1alpha1.ReasonRunnerGroupNotFound}},
		"other conflict": {
			[]metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "RateLimited")},
			[]metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "SessionConflict")},
			[]string{"SessionConflict"}},
		"first image is wrong": {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "ImagePullBackOff")}, []string{"ImagePullBackOff"}},
		"pod is made":          {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, v1alpha1.ReasonListenerPodStarting)}, nil},
		"starting":             {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, reasonWaitingForScaleSet)}, nil},
		"the same": {
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")},
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")}, nil},
	} {
		got := Transitions(test.before, test.after)
		if len(got) != len(test.want) || (len(got) == 1 && got[0].Reason != test.want[0]) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// The reasons while a set starts are no trouble and have no Event; a listener that loses its session has one.
func TestStationsOfTheStartAreNotTold(t *testing.T) {
	listener := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: status, Reason: reason,
			Message: "because"}}
	}
	starting := listener(metav1.ConditionFalse, "WaitingForListener")
	for _, reason := range []string{v1alpha1.ReasonListenerPodStarting, v1alpha1.ReasonListenerNotListening} {
		if told := Transitions(starting, listener(metav1.ConditionFalse, reason)); len(told) != 0 {
			t.Errorf("told %+v of a set that starts", told)
		}
		if told := Transitions(listener(metav1.ConditionTrue, "Listening"),
			listener(metav1.ConditionFalse, reason)); len(told) != 1 {
			t.Errorf("told %+v of a set that listened, want that it does no more", told)
		}
	}
	if told := Transitions(starting, listener(metav1.ConditionFalse, "SessionConflict")); len(told) != 1 {
		t.Errorf("told %+v, want the conflict", told)
	}
}
