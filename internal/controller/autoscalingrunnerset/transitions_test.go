package autoscalingrunnerset

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// want sets the demand as the listener does that asks for runners for one job each.
func (f *fixture) want(runners int) {
	f.Helper()
	runnerSet := f.runnerSets()[0]
	runnerSet.Spec.Replicas, runnerSet.Spec.AssignedJobs = runners, runners
	if err := f.client.Update(f.Context(), &runnerSet); err != nil {
		f.Fatal(err)
	}
}

// A burst has one Event when it begins and one when a minute is over, with the numbers of that moment.
func TestScalingIsToldWithNumbersOnceAMinute(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		f.events()
		f.want(2)
		f.settle()
		if told := f.events(); len(told) != 1 || !strings.Contains(told[0], "ScaledUp From 0 to 2 runners for 2 assigned jobs") {
			t.Errorf("told %q, want one Event about 0 to 2", told)
		}
		for _, runners := range []int{5, 3, 1} {
			f.want(runners)
			f.settle()
			controllertest.Elapse(10 * time.Second)
		}
		if told := f.events(); len(told) != 0 {
			t.Errorf("told %q within a minute of the last", told)
		}
		controllertest.Elapse(scalingEventPeriod)
		f.settle()
		if told := f.events(); len(told) != 1 || !strings.Contains(told[0], "ScaledDown From 2 to 1 runners") {
			t.Errorf("told %q, want one Event about 2 to 1", told)
		}
	})
}

func TestEventNamesTheLimit(t *testing.T) {
	event := scaledFrom(1, &v1alpha1.EphemeralRunnerSetSpec{Replicas: 4, AssignedJobs: 4, MaxRunners: new(4)})
	if want := "From 1 to 4 runners for 4 assigned jobs; maxRunners of 4 allows no more"; event.Note != want {
		t.Errorf("%q, want %q", event.Note, want)
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
		got := transitionEvents(test.before, test.after)
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
		if told := transitionEvents(starting, listener(metav1.ConditionFalse, reason)); len(told) != 0 {
			t.Errorf("told %+v of a set that starts", told)
		}
		if told := transitionEvents(listener(metav1.ConditionTrue, "Listening"), listener(metav1.ConditionFalse, reason)); len(told) != 1 {
			t.Errorf("told %+v of a set that listened, want that it does no more", told)
		}
	}
	if told := transitionEvents(starting, listener(metav1.ConditionFalse, "SessionConflict")); len(told) != 1 {
		t.Errorf("told %+v, want the conflict", told)
	}
}

func TestTurnsAreToldOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		wantEvent(t, f.events(), reasonReady)
		runnerSet, since := f.runnerSets()[0], metav1.Now()
		runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: "RateLimited", Message: "until noon", Since: &since}
		f.updateStatus(&runnerSet)
		f.settle()
		wantEvent(t, f.events(), "RateLimited")
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" })
		f.settle()
		wantEvent(t, f.events(), v1alpha1.ReasonRunnerGroupNotFound)
		f.settle()
		if told := f.events(); len(told) > 0 {
			t.Errorf("told again: %q", told)
		}
	})
}
