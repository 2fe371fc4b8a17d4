package conditions_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestSummary(t *testing.T) {
	troubled := func(conditionType string) func(*conditions.Findings) {
		return func(f *conditions.Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue,
				Reason: "Why", Message: "because"}}
		}
	}
	podStatus := func(f *conditions.Findings, status metav1.ConditionStatus, reason string) {
		f.Listeners[0].Status.Conditions[0].Status, f.Listeners[0].Status.Conditions[0].Reason = status, reason
	}
	for name, test := range map[string]struct {
		change  func(*conditions.Findings)
		ready   metav1.ConditionStatus
		reason  string
		stalled bool
		phase   v1alpha1.AutoscalingRunnerSetPhase
	}{
		"healthy":       {func(*conditions.Findings) {}, metav1.ConditionTrue, "Ready", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"new":           {func(f *conditions.Findings) { *f = conditions.Findings{Set: newSet(), Desired: f.Desired} }, metav1.ConditionFalse, "Registering", false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"outdated":      {troubled(v1alpha1.ConditionRunnerOutdated), metav1.ConditionFalse, "Why", true, v1alpha1.AutoscalingRunnerSetPhaseOutdated},
		"doubtful":      {troubled(v1alpha1.ConditionStatisticsDoubtful), metav1.ConditionTrue, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"degraded":      {troubled(v1alpha1.ConditionDegraded), metav1.ConditionFalse, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"no listener":   {func(f *conditions.Findings) { f.Listeners = nil }, metav1.ConditionFalse, "WaitingForScaleSet", false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"listener away": {func(f *conditions.Findings) { podStatus(f, metav1.ConditionFalse, "Evicted") }, metav1.ConditionFalse, "Evicted", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"listener retries": {func(f *conditions.Findings) {
			podStatus(f, metav1.ConditionFalse, "NotListening")
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
				Reason: "RateLimited"}
		}, metav1.ConditionFalse, "RateLimited", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"session conflict": {func(f *conditions.Findings) {
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateConflict}
		}, metav1.ConditionFalse, "SessionConflict", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"request failed":         {func(f *conditions.Findings) { f.Listeners, f.Failure = nil, errors.New("forbidden") }, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"failure while all runs": {func(f *conditions.Findings) { f.Failure = errors.New("timeout") }, metav1.ConditionTrue, "Ready", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted":                {func(f *conditions.Findings) { at := metav1.NewTime(f.ObservedAt); f.Set.DeletionTimestamp = &at }, metav1.ConditionFalse, "StoppingListener", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted, no listener": {func(f *conditions.Findings) {
			at := metav1.NewTime(f.ObservedAt)
			f.Set.DeletionTimestamp, f.Listeners = &at, nil
		}, metav1.ConditionFalse, "DrainingRunners", false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"runner set deleted": {func(f *conditions.Findings) {
			at := metav1.NewTime(f.ObservedAt)
			f.RunnerSets[0].DeletionTimestamp = &at
		}, metav1.ConditionFalse, "WaitingForRunnerSets", false, v1alpha1.AutoscalingRunnerSetPhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(test.change).NextStatus("1.2.3")
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
	failing := func(conditionType string, status metav1.ConditionStatus) func(*conditions.Findings) {
		return func(f *conditions.Findings) {
			f.Listeners[0].Status.Conditions = append(f.Listeners[0].Status.Conditions, metav1.Condition{
				Type: conditionType, Status: status, Reason: v1alpha1.ReasonReconcileFailed,
				Message: "apply Secret: why"})
		}
	}
	unauthorized := func(f *conditions.Findings) {
		f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
			Reason: v1alpha1.ReasonUnauthorized}
	}
	passing := failing(v1alpha1.ConditionProgressing, metav1.ConditionFalse)
	deleted := func(f *conditions.Findings) { f.Set.DeletionTimestamp = &metav1.Time{Time: f.ObservedAt} }
	for name, test := range map[string]struct {
		change []func(*conditions.Findings)
		ready  metav1.ConditionStatus
		reason string
	}{
		"refused":                      {[]func(*conditions.Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue)}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"no longer refused":            {[]func(*conditions.Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionFalse)}, metav1.ConditionTrue, "Ready"},
		"fails":                        {[]func(*conditions.Findings){passing}, metav1.ConditionTrue, "Ready"},
		"fails and has the old token":  {[]func(*conditions.Findings){passing, unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"has a bad token":              {[]func(*conditions.Findings){unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonUnauthorized},
		"can't be stopped":             {[]func(*conditions.Findings){passing, deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"may not be stopped":           {[]func(*conditions.Findings){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue), deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"is stopped":                   {[]func(*conditions.Findings){deleted}, metav1.ConditionFalse, "StoppingListener"},
		"failed, and has been stopped": {[]func(*conditions.Findings){passing, deleted, stopped}, metav1.ConditionFalse, "DrainingRunners"},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(func(f *conditions.Findings) {
				for _, change := range test.change {
					change(f)
				}
			}).NextStatus("1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, test.ready, test.reason)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if test.reason == v1alpha1.ReasonReconcileFailed && ready.Message != "apply Secret: why" {
				t.Errorf("Ready says %q", ready.Message)
			}
		})
	}
}

// stopped changes the listener as its controller does after its pod is gone.
func stopped(f *conditions.Findings) {
	f.Listeners[0].DeletionTimestamp = &metav1.Time{Time: f.ObservedAt}
	f.Listeners[0].Status.Conditions[0].Status, f.Listeners[0].Status.Conditions[0].Reason = metav1.ConditionFalse,
		v1alpha1.ReasonListenerStopped
}

func TestReadySaysWhyThereAreNotMoreRunners(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*conditions.Findings)
		reason string
	}{
		"idle": {func(f *conditions.Findings) { f.RunnerSets[0].Spec.MaxRunners = new(2) }, "Ready"},
		"full": {func(f *conditions.Findings) {
			f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Spec.AssignedJobs = new(2), 2
		}, v1alpha1.ReasonMaxRunnersReached},
		"full of idle runners": {func(f *conditions.Findings) {
			f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Spec.Replicas = new(2), 2
		}, "Ready"},
		"turned off": {func(f *conditions.Findings) {
			f.Set.Spec.MaxRunners, f.RunnerSets[0].Spec.MaxRunners = new(0), new(0)
			f.RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateClosed,
				Reason: v1alpha1.ReasonMaxRunnersZero}
		}, v1alpha1.ReasonMaxRunnersZero},
		"no quota": {func(f *conditions.Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQuotaExceeded,
				Status: metav1.ConditionTrue, Message: "cpu"}}
		}, v1alpha1.ReasonQuotaExceeded},
		"no node": {func(f *conditions.Findings) {
			f.RunnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRunnersPending,
				Status: metav1.ConditionTrue, Reason: "Unschedulable"}}
		}, "Unschedulable"},
	} {
		t.Run(name, func(t *testing.T) {
			status := healthy(test.change).NextStatus("1.2.3")
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
			f := healthyUnder(50, func(f *conditions.Findings) {
				f.Set.Spec.MinRunners, f.Set.Spec.MaxRunners = test.least, test.most
			})
			f.RunnerSets[0].Spec.MaxRunners = f.Numbers.Limit()
			ready := conditionOf(t, f, v1alpha1.ConditionReady)
			if !test.noRunners && (ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, test.told) ||
				(test.told == "") != (ready.Message == "")) {
				t.Errorf("Ready says %+v, want %q", ready, test.told)
			}
			f.RunnerSets[0].Spec.AssignedJobs = 50
			message := conditionOf(t, f, v1alpha1.ConditionReady).Message
			if cut := test.most == nil || *test.most > 50; strings.Contains(message, "flags.maxRunnersPerSet") != cut {
				t.Errorf("at the limit Ready says %q", message)
			}
		})
	}
}

// While runners of a former template are left, the new runner set may have fewer, or none: that is not a set that takes no
// jobs.
func TestRunnersOfAFormerTemplateDontTurnTheSetOff(t *testing.T) {
	ready := conditionOf(t, healthy(func(f *conditions.Findings) {
		f.Set.Spec.MaxRunners = new(3)
		f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Spec.AssignedJobs = new(0), 3
	}), v1alpha1.ConditionReady)
	if ready.Reason != v1alpha1.ReasonMaxRunnersReached {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}
}
