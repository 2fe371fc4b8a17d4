package autoscalingrunnerset

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// healthy returns a pass over a set that lacks nothing, after the change.
func healthy(change func(*pass)) *pass {
	set := newSet()
	condition := func(conditionType string) []metav1.Condition {
		return []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue, Reason: "PodReady", ObservedGeneration: set.Generation}}
	}
	set.Status.Conditions = append(condition(v1alpha1.ConditionScaleSetRegistered), condition(v1alpha1.ConditionCredentialsValid)...)
	p := &pass{
		set: set, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		registration: &v1alpha1.ScaleSetRegistration{URL: address, Name: "set", Group: "Default", ID: 1},
		runnerSets: []v1alpha1.EphemeralRunnerSet{{Status: v1alpha1.EphemeralRunnerSetStatus{
			CurrentReplicas: 3, RunningEphemeralRunners: 2, FailedEphemeralRunners: 1,
			Listener: &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening},
		}}},
		listeners: []v1alpha1.AutoscalingListener{{Status: v1alpha1.AutoscalingListenerStatus{Conditions: condition(v1alpha1.ConditionReady)}}},
	}
	p.desired, p.obstacle = desiredOf(set)
	change(p)
	return p
}

func TestSummary(t *testing.T) {
	troubled := func(conditionType string) func(*pass) {
		return func(p *pass) {
			p.runnerSets[0].Status.Conditions = []metav1.Condition{{Type: conditionType, Status: metav1.ConditionTrue, Reason: "Why", Message: "because"}}
		}
	}
	podStatus := func(p *pass, status metav1.ConditionStatus, reason string) {
		p.listeners[0].Status.Conditions[0].Status, p.listeners[0].Status.Conditions[0].Reason = status, reason
	}
	for name, test := range map[string]struct {
		change  func(*pass)
		ready   metav1.ConditionStatus
		reason  string
		stalled bool
		phase   v1alpha1.AutoscalingRunnerSetPhase
	}{
		"healthy":       {func(*pass) {}, metav1.ConditionTrue, reasonReady, false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"new":           {func(p *pass) { *p = pass{set: newSet(), desired: p.desired} }, metav1.ConditionFalse, reasonRegistering, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"outdated":      {troubled(v1alpha1.ConditionRunnerOutdated), metav1.ConditionFalse, "Why", true, v1alpha1.AutoscalingRunnerSetPhaseOutdated},
		"doubtful":      {troubled(v1alpha1.ConditionStatisticsDoubtful), metav1.ConditionTrue, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"degraded":      {troubled(v1alpha1.ConditionDegraded), metav1.ConditionFalse, "Why", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"no listener":   {func(p *pass) { p.listeners = nil }, metav1.ConditionFalse, reasonWaitingForScaleSet, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"listener away": {func(p *pass) { podStatus(p, metav1.ConditionFalse, "Evicted") }, metav1.ConditionFalse, "Evicted", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"listener retries": {func(p *pass) {
			podStatus(p, metav1.ConditionFalse, "NotListening")
			p.runnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: "RateLimited"}
		}, metav1.ConditionFalse, "RateLimited", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"session conflict": {func(p *pass) {
			p.runnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateConflict}
		}, metav1.ConditionFalse, "SessionConflict", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"request failed":         {func(p *pass) { p.listeners, p.failure = nil, errors.New("forbidden") }, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"failure while all runs": {func(p *pass) { p.failure = errors.New("timeout") }, metav1.ConditionTrue, reasonReady, false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted":                {func(p *pass) { at := metav1.NewTime(p.now); p.set.DeletionTimestamp = &at }, metav1.ConditionFalse, "StoppingListener", false, v1alpha1.AutoscalingRunnerSetPhaseRunning},
		"deleted, no listener": {func(p *pass) {
			at := metav1.NewTime(p.now)
			p.set.DeletionTimestamp, p.listeners = &at, nil
		}, metav1.ConditionFalse, "DrainingRunners", false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"runner set deleted": {func(p *pass) {
			at := metav1.NewTime(p.now)
			p.runnerSets[0].DeletionTimestamp = &at
		}, metav1.ConditionFalse, reasonWaitingForRunnerSets, false, v1alpha1.AutoscalingRunnerSetPhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			status := statusOf(healthy(test.change), "1.2.3")
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

// If the API server refuses an object that the listener needs, the set isn't ready, even though the listener keeps running. A failure
// that may pass by itself is reported only if the listener doesn't work.
func TestListenersFailureIsSaid(t *testing.T) {
	failing := func(conditionType string, status metav1.ConditionStatus) func(*pass) {
		return func(p *pass) {
			p.listeners[0].Status.Conditions = append(p.listeners[0].Status.Conditions, metav1.Condition{
				Type: conditionType, Status: status, Reason: v1alpha1.ReasonReconcileFailed, Message: "apply Secret: why"})
		}
	}
	unauthorized := func(p *pass) {
		p.runnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: v1alpha1.ReasonUnauthorized}
	}
	passing := failing(v1alpha1.ConditionProgressing, metav1.ConditionFalse)
	deleted := func(p *pass) { p.set.DeletionTimestamp = &metav1.Time{Time: p.now} }
	for name, test := range map[string]struct {
		change []func(*pass)
		ready  metav1.ConditionStatus
		reason string
	}{
		"refused":                      {[]func(*pass){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue)}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"no longer refused":            {[]func(*pass){failing(v1alpha1.ConditionStalled, metav1.ConditionFalse)}, metav1.ConditionTrue, reasonReady},
		"fails":                        {[]func(*pass){passing}, metav1.ConditionTrue, reasonReady},
		"fails and has the old token":  {[]func(*pass){passing, unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"has a bad token":              {[]func(*pass){unauthorized}, metav1.ConditionFalse, v1alpha1.ReasonUnauthorized},
		"can't be stopped":             {[]func(*pass){passing, deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"may not be stopped":           {[]func(*pass){failing(v1alpha1.ConditionStalled, metav1.ConditionTrue), deleted}, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
		"is stopped":                   {[]func(*pass){deleted}, metav1.ConditionFalse, "StoppingListener"},
		"failed, and has been stopped": {[]func(*pass){passing, deleted, stopped}, metav1.ConditionFalse, "DrainingRunners"},
	} {
		t.Run(name, func(t *testing.T) {
			status := statusOf(healthy(func(p *pass) {
				for _, change := range test.change {
					change(p)
				}
			}), "1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, test.ready, test.reason)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if test.reason == v1alpha1.ReasonReconcileFailed && ready.Message != "apply Secret: why" {
				t.Errorf("Ready says %q", ready.Message)
			}
		})
	}
}

// stopped changes the listener as its controller does once its pod is gone.
func stopped(p *pass) {
	p.listeners[0].DeletionTimestamp = &metav1.Time{Time: p.now}
	p.listeners[0].Status.Conditions[0].Status, p.listeners[0].Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonListenerStopped
}

func TestReadySaysWhyThereAreNotMoreRunners(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*pass)
		reason string
	}{
		"idle": {func(p *pass) { p.runnerSets[0].Spec.MaxRunners = new(2) }, reasonReady},
		"full": {func(p *pass) {
			p.runnerSets[0].Spec.MaxRunners, p.runnerSets[0].Spec.AssignedJobs = new(2), 2
		}, v1alpha1.ReasonMaxRunnersReached},
		"full of idle runners": {func(p *pass) {
			p.runnerSets[0].Spec.MaxRunners, p.runnerSets[0].Spec.Replicas = new(2), 2
		}, reasonReady},
		"turned off": {func(p *pass) {
			p.set.Spec.MaxRunners, p.runnerSets[0].Spec.MaxRunners = new(0), new(0)
			p.runnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateClosed, Reason: v1alpha1.ReasonMaxRunnersZero}
		}, v1alpha1.ReasonMaxRunnersZero},
		"no quota": {func(p *pass) {
			p.runnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQuotaExceeded, Status: metav1.ConditionTrue, Message: "cpu"}}
		}, v1alpha1.ReasonQuotaExceeded},
		"no node": {func(p *pass) {
			p.runnerSets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRunnersPending, Status: metav1.ConditionTrue, Reason: "Unschedulable"}}
		}, "Unschedulable"},
	} {
		t.Run(name, func(t *testing.T) {
			status := statusOf(healthy(test.change), "1.2.3")
			controllertest.WantCondition(t, status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, test.reason)
		})
	}
}

// An EphemeralRunnerSet that somebody deletes while jobs run has a successor only after they have finished, which can take hours:
// the status says what is waited for.
func TestDeletedRunnerSetSaysWhatItWaitsFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.holdDependents()
		deleted := &f.runnerSets()[0]
		deleted.Status.CurrentReplicas, deleted.Status.RunningEphemeralRunners, deleted.Status.BusyRunners = 3, 3, 2
		f.updateStatus(deleted)
		if err := f.client.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		f.settle()
		set := f.set()
		ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message, "EphemeralRunnerSet set was deleted; no runner is created until its 2 busy runners") ||
			set.Status.Phase != v1alpha1.AutoscalingRunnerSetPhasePending {
			t.Errorf("phase %s, Ready %+v", set.Status.Phase, ready)
		}
		f.release(&f.runnerSets()[0])
		f.settle()
		if made := f.runnerSets(); len(made) != 1 || made[0].DeletionTimestamp != nil || f.set().Status.Phase != v1alpha1.AutoscalingRunnerSetPhaseRunning {
			t.Errorf("phase %s with %+v, want a new EphemeralRunnerSet", f.set().Status.Phase, made)
		}
	})
}
