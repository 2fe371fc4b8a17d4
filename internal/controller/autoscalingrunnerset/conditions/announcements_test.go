package conditions_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// trouble is a condition as the metrics show it.
type trouble struct{ condition, reason string }

// troublesOf returns the troubles of a set that the manager's metrics show, with their values.
func troublesOf(t *testing.T, set types.NamespacedName) map[trouble]float64 {
	t.Helper()
	found := map[trouble]float64{}
	for _, series := range seriesOf(t, "gha_controller_scale_set_trouble", set) {
		labels := controllertest.Labels(series)
		found[trouble{labels["condition"], labels["reason"]}] = series.GetGauge().GetValue()
	}
	return found
}

// seriesOf returns what the manager's metrics show of a set.
func seriesOf(t *testing.T, name string, set types.NamespacedName) []*dto.Metric {
	t.Helper()
	return controllertest.Series(t, name, prometheus.Labels{"name": set.Name, "namespace": set.Namespace})
}

// A set has a series for each cause, and none after the cause is over or the set is gone.
func TestTroublesAreShownWhileTheyLast(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
	}
	set, m := types.NamespacedName{Namespace: "team", Name: "linux"}, &conditions.Shown{}
	for _, step := range []struct {
		conditions []metav1.Condition
		want       []trouble
	}{
		{[]metav1.Condition{
			condition(v1alpha1.ConditionCredentialsValid, no, v1alpha1.ReasonUnauthorized),
			condition(v1alpha1.ConditionReady, no, v1alpha1.ReasonUnauthorized),
			condition(v1alpha1.ConditionListenerReady, no, "WaitingForScaleSet"),
			condition(v1alpha1.ConditionDegraded, no, "Fine"),
		}, []trouble{{v1alpha1.ConditionCredentialsValid, v1alpha1.ReasonUnauthorized}}},
		{[]metav1.Condition{
			condition(v1alpha1.ConditionCredentialsValid, yes, "Accepted"),
			condition(v1alpha1.ConditionReady, yes, "Unschedulable"),
			condition(v1alpha1.ConditionRunnersPending, yes, "Unschedulable"),
			condition(v1alpha1.ConditionQuotaExceeded, yes, "PodsForbidden"),
		}, []trouble{{v1alpha1.ConditionRunnersPending, "Unschedulable"},
			{v1alpha1.ConditionQuotaExceeded, "PodsForbidden"}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionRunnersPending, yes, "ImagePullBackOff")}, []trouble{{v1alpha1.ConditionRunnersPending, "ImagePullBackOff"}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionStatisticsDoubtful, yes, v1alpha1.ReasonJobsNotTaken)},
			[]trouble{{v1alpha1.ConditionStatisticsDoubtful, v1alpha1.ReasonJobsNotTaken}}},
		{[]metav1.Condition{condition(v1alpha1.ConditionReady, yes, "Ready")}, nil},
	} {
		m.Show(set, step.conditions, false)
		shown := troublesOf(t, set)
		if len(shown) != len(step.want) {
			t.Errorf("%v are shown, want %v", shown, step.want)
		}
		for _, want := range step.want {
			if shown[want] != 1 {
				t.Errorf("%v is not shown", want)
			}
		}
	}
	ended := map[string]func(){"deleted": func() { m.Show(set, nil, true) }, "gone": func() { conditions.Unpublish(set) }}
	for how, end := range ended {
		m.Show(set, []metav1.Condition{condition(v1alpha1.ConditionDegraded, yes, "OOMKilled")}, false)
		if len(seriesOf(t, "gha_controller_scale_set_ready", set)) != 1 {
			t.Error("a set is not shown")
		}
		end()
		if shown, ready := troublesOf(t, set), seriesOf(t, "gha_controller_scale_set_ready", set); len(shown)+len(ready) > 0 {
			t.Errorf("%v and %v of a set that is %s", shown, ready, how)
		}
	}
}

// Whoever may write the status of runners or runner sets can't create any number of series.
func TestUnknownReasonsShareASeries(t *testing.T) {
	set, m := types.NamespacedName{Namespace: "team", Name: "forged"}, &conditions.Shown{}
	defer conditions.Unpublish(set)
	for i := range 10_000 {
		m.Show(set, []metav1.Condition{
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: fmt.Sprint("Forged", i)},
			{Type: v1alpha1.ConditionRunnersPending, Status: metav1.ConditionTrue, Reason: fmt.Sprint("Forged", i)},
		}, false)
	}
	shown := troublesOf(t, set)
	if len(shown) != 2 {
		t.Errorf("%d series, want 2", len(shown))
	}
	if shown[trouble{v1alpha1.ConditionDegraded, "Other"}] != 1 {
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
		"starting":             {nil, []metav1.Condition{condition(v1alpha1.ConditionListenerReady, no, "WaitingForScaleSet")}, nil},
		"the same": {
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")},
			[]metav1.Condition{condition(v1alpha1.ConditionStalled, yes, "Why")}, nil},
	} {
		got := conditions.Transitions(test.before, test.after)
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
		if told := conditions.Transitions(starting, listener(metav1.ConditionFalse, reason)); len(told) != 0 {
			t.Errorf("told %+v of a set that starts", told)
		}
		if told := conditions.Transitions(listener(metav1.ConditionTrue, "Listening"),
			listener(metav1.ConditionFalse, reason)); len(told) != 1 {
			t.Errorf("told %+v of a set that listened, want that it does no more", told)
		}
	}
	if told := conditions.Transitions(starting, listener(metav1.ConditionFalse, "SessionConflict")); len(told) != 1 {
		t.Errorf("told %+v, want the conflict", told)
	}
}
