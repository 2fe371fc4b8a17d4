package autoscalingrunnerset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// healthy returns a pass over a set that lacks nothing, changed.
func healthy(change func(*pass)) *pass {
	set := newSet()
	condition := func(about string) []metav1.Condition {
		return []metav1.Condition{{Type: about, Status: metav1.ConditionTrue, Reason: "PodReady"}}
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
	p.wish, p.obstacle = wishOf(set)
	change(p)
	return p
}

func TestSummary(t *testing.T) {
	troubled := func(about string) func(*pass) {
		return func(p *pass) {
			p.runnerSets[0].Status.Conditions = []metav1.Condition{{Type: about, Status: metav1.ConditionTrue, Reason: "Why", Message: "because"}}
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
		"new":           {func(p *pass) { *p = pass{set: newSet(), wish: p.wish} }, metav1.ConditionFalse, reasonRegistering, false, v1alpha1.AutoscalingRunnerSetPhasePending},
		"outdated":      {troubled(v1alpha1.ConditionRunnerOutdated), metav1.ConditionFalse, "Why", true, v1alpha1.AutoscalingRunnerSetPhaseOutdated},
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

func TestCountsAreThoseOfAllRunnerSets(t *testing.T) {
	status := statusOf(healthy(func(p *pass) {
		p.runnerSets = append(p.runnerSets, v1alpha1.EphemeralRunnerSet{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 2, PendingEphemeralRunners: 2}})
	}), "1.2.3")
	got := []int{status.CurrentRunners, status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners}
	if want := []int{5, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("current, pending, running, failed = %v, want %v", got, want)
	}
}

func TestRoomForRunners(t *testing.T) {
	limit := 5
	sets := []v1alpha1.EphemeralRunnerSet{{}, {Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 3}}, {Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 4}}}
	if got := roomForRunners(nil, sets); got != nil {
		t.Errorf("without a limit: %d", *got)
	}
	for n, want := range map[int]int{1: 5, 2: 2, 3: 0} {
		if got := roomForRunners(&limit, sets[:n]); *got != want {
			t.Errorf("beside %d older sets: %d, want %d", n-1, *got, want)
		}
	}
}

func TestStatusIsWrittenOncePerSecond(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.reconcile()
		written := f.set().ResourceVersion
		runnerSet := f.runnerSets()[0]
		runnerSet.Status.CurrentReplicas = 1
		f.updateStatus(&runnerSet)
		if again := f.reconcile().RequeueAfter; again > statusPause || f.set().ResourceVersion != written {
			t.Errorf("next pass after %s, want within %s; status written twice: %t", again, statusPause, f.set().ResourceVersion != written)
		}
		controllertest.Elapse(statusPause)
		f.reconcile()
		if got := f.set().Status.CurrentRunners; got != 1 {
			t.Errorf("currentRunners = %d a second later, want 1", got)
		}
	})
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

// Asking GitHub again is no news: while it is asked, and when it says the same, the refusal stands.
func TestARefusalStandsWhileGitHubIsAskedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" }))
		f.settle()
		for range 20 {
			f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionFalse, v1alpha1.ReasonRunnerGroupNotFound)
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRunnerGroupNotFound)
			controllertest.Elapse(retryMost)
			f.reconcile()
		}
		if told := f.events(); len(told) != 1 {
			t.Errorf("told %q, want one Event", told)
		}
	})
}

// Where the chart's Role is missing, the first thing refused is the Secret: that is said, with what to do.
func TestSecretThatMayNotBeReadIsSaid(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.reconcile() // sets the finalizer
		f.github.unresolved = apierrors.NewForbidden(corev1.Resource("secrets"), "github", errors.New("no Role says so"))
		controllertest.Elapse(time.Minute)
		if _, err := f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: setKey}); err == nil {
			t.Error("the refusal is not tried again")
		}
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed)
		if message := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(message, "RoleBinding") {
			t.Errorf("message %q", message)
		}
	})
}
