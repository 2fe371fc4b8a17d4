package conditions

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
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
func healthy(change func(*Findings)) *Findings { return healthyUnder(0, change) }

// healthyUnder is healthy with a manager that allows a set that many runners, 0 for any.
func healthyUnder(ceiling int, change func(*Findings)) *Findings {
	set := newSet()
	condition := func(conditionType string) []metav1.Condition {
		return []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue, Reason: "PodReady",
			ObservedGeneration: set.Generation}}
	}
	set.Status.Conditions = append(condition(v1alpha1.ConditionScaleSetRegistered),
		condition(v1alpha1.ConditionCredentialsValid)...)
	f := &Findings{
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

func TestSummary(t *testing.T) {
	troubled := func(conditionType string) func(*Findings) {
		return func(f *Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue,
				Reason: "Why", Message: "because"}}
		}
	}
	podStatus := func(f *Findings, status metav1.ConditionStatus, reason string) {
		f.Listeners[0].Status.Conditions[0].Status, f.Listeners[0].Status.Conditions[0].Reason = status, reason
	}
	for name, test := range map[string]struct {
		change  func(*Findings)
		ready   metav1.ConditionStatus
		reason  string
		stalled bool
		phase   v1alpha1.AutoscalingRunnerSetPhase
	}{
		"healthy":       {func(*Findings) {}, metav1.ConditionTrue, reasonReady, false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"new":           {func(f *Findings) { *f = Findings{Set: newSet(), Desired: f.Desired} }, metav1.ConditionFalse, reasonRegistering, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"outdated":      {troubled(v1alpha1.ConditionRunnerOutdated), metav1.ConditionFalse, "Why", true, v1alpha1.AutoscalingRunnerSetPhaseOutdated},
		"doubtful":      {troubled(v1alpha1.ConditionStatisticsDoubtful), metav1.ConditionTrue, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"degraded":      {troubled(v1alpha1.ConditionDegraded), metav1.ConditionFalse, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"no listener":   {func(f *Findings) { f.Listeners = nil }, metav1.ConditionFalse, reasonWaitingForScaleSet, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"listener away": {func(f *Findings) { podStatus(f, metav1.ConditionFalse, "Evicted") }, metav1.ConditionFalse, "Evicted", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"listener retries": {func(f *Findings) {
			podStatus(f, metav1.ConditionFalse, "NotListening")
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
				Reason: "RateLimited"}
		}, metav1.ConditionFalse, "RateLimited", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"session conflict": {func(f *Findings) {
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateConflict}
		}, metav1.ConditionFalse, "SessionConflict", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"request failed":         {func(f *Findings) { f.Listeners, f.Failure = nil, errors.New("forbidden") }, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"failure while all runs": {func(f *Findings) { f.Failure = errors.New("timeout") }, metav1.ConditionTrue, reasonReady, false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted":                {func(f *Findings) { at := metav1.NewTime(f.ObservedAt); f.Set.DeletionTimestamp = &at }, metav1.ConditionFalse, "StoppingListener", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted, no listener": {func(f *Findings) {
			at := metav1.NewTime(f.ObservedAt)
			f.Set.DeletionTimestamp, f.Listeners = &at, nil
		}, metav1.ConditionFalse, "DrainingRunners", false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"runner set deleted": {func(f *Findings) {
			at := metav1.NewTime(f.ObservedAt)
			f.RunnerSets[0].DeletionTimestamp = &at
		}, metav1.ConditionFalse, reasonWaitingForRunnerSets, false, v1alpha1.AutoscalingRunnerSetPhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(test.change).Status("1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, test.ready, test.reason)
			stalled := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
			progressing := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionProgressing)
			if stalled != test.stalled || progressing != (test.ready == metav1.ConditionFalse && !test.stalled) {
				t.Errorf("Stalled %t, Progressing %t; want Stalled %t", stalled, progressing, test.stalled)
			}
			if status.Phase != test.phase {
				t.Errorf("phase = %s, want %s", status.Phase, test.phase)
			}
		})
	}
}

// If the API server refuses an object that the listener needs, the set isn't ready, even though the listener keeps
// running. A failure that may pass by itself is reported only if the listener doesn't work.
func TestListenersFailureIsSaid(t *testing.T) {
	failing := func(conditionType string, status metav1.ConditionStatus) func(*Findings) {
		return func(f *Findings) {
			f.Listeners[0].Status.Conditions = append(f.Listeners[0].Status.Conditions, metav1.Condition{
				Type: conditionType, Status: status, Reason: v1alpha1.ReasonReconcileFailed,
				Message: "apply Secret: why"})
		}
	}
	unauthorized := func(f *Findings) {
		f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
			Reason: v1alpha1.ReasonUnauthorized}
	}
	passing := failing(v1alpha1.ConditionProgressing, metav1.ConditionFalse)
	deleted := func(f *Findings) { f.Set.DeletionTimestamp = &metav1.Time{Time: f.ObservedAt} }
	for name, test := range map[string]struct {
		change []func(*Findings)
		ready  metav1.ConditionStatus
		reason string
	}{
		"refused":                      {[]func(*Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue)}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"no longer refused":            {[]func(*Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionFalse)}, metav1.ConditionTrue, reasonReady},
		"fails":                        {[]func(*Findings){passing}, metav1.ConditionTrue, reasonReady},
		"fails and has the old token":  {[]func(*Findings){passing, unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"has a bad token":              {[]func(*Findings){unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonUnauthorized},
		"can't be stopped":             {[]func(*Findings){passing, deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"may not be stopped":           {[]func(*Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue), deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"is stopped":                   {[]func(*Findings){deleted}, metav1.ConditionFalse, "StoppingListener"},
		"failed, and has been stopped": {[]func(*Findings){passing, deleted, stopped}, metav1.ConditionFalse, "DrainingRunners"},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(func(f *Findings) {
				for _, change := range test.change {
					change(f)
				}
			}).Status("1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, test.ready, test.reason)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if test.reason == v1alpha1.ReasonReconcileFailed && ready.Message != "apply Secret: why" {
				t.Errorf("Ready says %q", ready.Message)
			}
		})
	}
}

// stopped changes the listener as its controller does after its pod is gone.
func stopped(f *Findings) {
	f.Listeners[0].DeletionTimestamp = &metav1.Time{Time: f.ObservedAt}
	f.Listeners[0].Status.Conditions[0].Status, f.Listeners[0].Status.Conditions[0].Reason = metav1.ConditionFalse,
		v1alpha1.ReasonListenerStopped
}

func TestReadySaysWhyThereAreNotMoreRunners(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Findings)
		reason string
	}{
		"idle": {func(f *Findings) { f.RunnerSets[0].Spec.MaxRunners = new(2) }, reasonReady},
		"full": {func(f *Findings) {
			f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Spec.AssignedJobs = new(2), 2
		}, v1alpha1.ReasonMaxRunnersReached},
		"full of idle runners": {func(f *Findings) {
			f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Spec.Replicas = new(2), 2
		}, reasonReady},
		"turned off": {func(f *Findings) {
			f.Set.Spec.MaxRunners, f.RunnerSets[0].Spec.MaxRunners = new(0), new(0)
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateClosed,
				Reason: v1alpha1.ReasonMaxRunnersZero}
		}, v1alpha1.ReasonMaxRunnersZero},
		"no quota": {func(f *Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQuotaExceeded,
				Status: metav1.ConditionTrue, Message: "cpu"}}
		}, v1alpha1.ReasonQuotaExceeded},
		"no node": {func(f *Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRunnersPending,
				Status: metav1.ConditionTrue, Reason: "Unschedulable"}}
		}, "Unschedulable"},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(test.change).Status("1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue,
				test.reason)
		})
	}
}

// The user is told who decides the manager's limit, as far as it cuts anything.
func TestWhoLimitsEachSetIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		least, most *int
		noRunners   bool
		// told is part of Ready's message, empty if nothing was cut.
		told string
	}{
		"nothing set":    {nil, nil, false, ""},
		"below":          {new(1), new(2), false, ""},
		"equal":          {new(50), new(50), false, ""},
		"above":          {new(1), new(51), false, "maxRunners of 51 is cut to 50"},
		"absurd minimum": {new(math.MaxInt32), nil, false, "minRunners of 2147483647 is cut to 50"},
		"no runners":     {nil, new(0), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthyUnder(50, func(f *Findings) {
				f.Set.Spec.MinRunners, f.Set.Spec.MaxRunners = test.least, test.most
			})
			f.RunnerSets[0].Spec.MaxRunners = f.Numbers.Limit()
			if _, message := f.readyReason(nil); !test.noRunners &&
				(!strings.Contains(message, test.told) || (test.told == "") != (message == "")) {
				t.Errorf("Ready says %q, want %q", message, test.told)
			}
			f.RunnerSets[0].Spec.AssignedJobs = 50
			_, message := f.readyReason(nil)
			if cut := test.most == nil || *test.most > 50; strings.Contains(message, "flags.maxRunnersPerSet") != cut {
				t.Errorf("at the limit Ready says %q", message)
			}
		})
	}
}
