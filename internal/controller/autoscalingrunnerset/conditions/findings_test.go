package conditions

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

func TestCountsAreThoseOfAllRunnerSets(t *testing.T) {
	status := healthy(func(f *Findings) {
		f.RunnerSets = append(f.RunnerSets, v1alpha1.EphemeralRunnerSet{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 2, PendingEphemeralRunners: 2}})
	}).Status("1.2.3")
	got := []int{status.CurrentRunners, status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners}
	if want := []int{5, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("current, pending, running, failed = %v, want %v", got, want)
	}
}

func TestStatusCountsJobsAndBusyRunners(t *testing.T) {
	status := healthy(func(f *Findings) {
		f.RunnerSets[0].Spec.AssignedJobs, f.RunnerSets[0].Spec.Replicas, f.RunnerSets[0].Status.BusyRunners = 4, 5, 1
	}).Status("1.2.3")
	if status.AssignedJobs != 4 || status.DesiredRunners != 5 || status.BusyRunners != 1 || status.IdleRunners != 1 {
		t.Errorf("%+v, want 4 jobs, 5 desired, 1 busy, 1 idle", status)
	}
}

// Nothing could be created for such a set, so nothing is created on GitHub either.
func TestANameThatFitsNoLabelIsRefused(t *testing.T) {
	set := newSet()
	set.Name = strings.Repeat("a", 63)
	if _, err := scaleset.DesiredOf(set); err != nil {
		t.Errorf("a name of 63 characters: %v", err)
	}
	set.Name += "a"
	_, err := scaleset.DesiredOf(set)
	condition := registeredCondition(&Findings{Set: set, Obstacle: err})
	if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != v1alpha1.ReasonNameTooLong || !needsUser(condition.Reason) {
		t.Fatalf("a name of 64 characters: %v, %+v", err, condition)
	}
	for _, part := range []string{"64 characters", "at most 63", "create it under a shorter name"} {
		if !strings.Contains(condition.Message, part) {
			t.Errorf("the message %q doesn't say %q", condition.Message, part)
		}
	}
}

// A closed session is what was asked for while maxRunners is 0, and only then.
func TestAListenerWithoutASessionIsReadyWhileMaxRunnersIsZero(t *testing.T) {
	closed := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateClosed, Reason: v1alpha1.ReasonMaxRunnersZero, Message: "closed"}
	podReady := func(f *Findings, ready metav1.ConditionStatus) { f.Listeners[0].Status.Conditions[0].Status = ready }
	for name, test := range map[string]struct {
		change func(*Findings)
		status metav1.ConditionStatus
		reason string
	}{
		"closed": {func(f *Findings) { f.Set.Spec.MaxRunners = new(0) }, metav1.ConditionTrue, v1alpha1.ReasonMaxRunnersZero},
		"its pod fails": {func(f *Findings) { f.Set.Spec.MaxRunners = new(0); podReady(f, metav1.ConditionFalse) },
			metav1.ConditionFalse, "PodReady"},
		"raised, not opened yet": {func(f *Findings) { f.Set.Spec.MaxRunners = new(2) }, metav1.ConditionUnknown, reasonListenerStarting},
		"without a limit":        {func(*Findings) {}, metav1.ConditionUnknown, reasonListenerStarting},
	} {
		condition := listenerCondition(healthy(func(f *Findings) {
			f.RunnerSets[0].Status.Listener = &closed
			test.change(f)
		}))
		if condition.Status != test.status || condition.Reason != test.reason {
			t.Errorf("%s: %s/%s, want %s/%s", name, condition.Status, condition.Reason, test.status, test.reason)
		}
	}
}

// What is said to come from the listener may be from anybody who may write the status of the runner set: its words are ours or Other, its
// text is cut.
func TestForgedReportsOfAListenerAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		said v1alpha1.ListenerStatus
		want string
	}{
		"ours":           {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: v1alpha1.ReasonRateLimited}, v1alpha1.ReasonRateLimited},
		"without reason": {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateConflict}, v1alpha1.ReasonSessionConflict},
		"forged reason":  {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: "Forged1"}, report.ReasonOther},
		"forged state":   {v1alpha1.ListenerStatus{State: "Forged2", Message: strings.Repeat("x", 1<<20)}, report.ReasonOther},
	} {
		condition := listenerCondition(healthy(func(f *Findings) { f.RunnerSets[0].Status.Listener = &test.said }))
		var conditions []metav1.Condition
		report.SetConditions(&conditions, 1, time.Now(), condition)
		if got := conditions[0]; got.Reason != test.want || len(got.Message) > 1024 {
			t.Errorf("%s: reason %s and %d bytes, want %s and at most 1024", name, got.Reason, len(got.Message), test.want)
		}
	}
}

func TestVersionSupported(t *testing.T) {
	for _, test := range []struct {
		chart, manager string
		want           bool
	}{
		{"1.2.3", "1.2.3", true},
		{"1.2.0", "1.2.9", true},
		{"v1.2.0", "1.2.9", true},
		{"1.2", "1.2.9", true},
		{"1.3.0", "1.2.9", false},
		{"2.2.0", "1.2.0", false},
		{"", "1.2.0", false},
		{"01.2.0", "1.2.0", false},
		{"1.2.0-rc1", "1.2.0", false},
		{"main", "main", true},
		{"0.14.2", "dev", true},
		{"", "canary-abc", true},
	} {
		if got := versionSupported(test.chart, test.manager); got != test.want {
			t.Errorf("versionSupported(%q, %q) = %t, want %t", test.chart, test.manager, got, test.want)
		}
	}
}
