package ephemeralrunner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A pod without a node stays, and why it has none is said after half a minute, or its pendingTimeout where that is less.
func TestWhyAPodHasNoNodeIsSaidEarly(t *testing.T) {
	created := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		timeout, after time.Duration
		told           bool // before
		want           decision
	}{
		"at once":           {after: time.Second, want: decision{again: created.Add(explainAfter)}},
		"after a while":     {after: explainAfter, want: decision{step: stepReportPending, reason: "Unschedulable", message: "no node"}},
		"told":              {after: time.Hour, told: true},
		"short timeout":     {timeout: 10 * time.Second, after: time.Second, want: decision{again: created.Add(10 * time.Second)}},
		"short timeout due": {timeout: 10 * time.Second, after: 10 * time.Second, want: decision{step: stepReportPending, reason: "Unschedulable", message: "no node"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &situation{
				runner: &v1alpha1.EphemeralRunner{}, now: created.Add(test.after), started: created,
				pod: outcome{state: podPending, reason: "Unschedulable", message: "no node"},
			}
			if test.timeout > 0 {
				s.runner.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			}
			if test.told {
				s.runner.Status.Reason, s.runner.Status.Message = "Unschedulable", "no node"
			}
			if got := plan(s); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// kubectl wait goes by Ready, and kstatus by Stalled.
func TestReadinessFollowsThePhase(t *testing.T) {
	for phase, want := range map[v1alpha1.EphemeralRunnerPhase]map[string]metav1.ConditionStatus{
		"":                                     {"Ready": metav1.ConditionFalse},
		v1alpha1.EphemeralRunnerPhasePending:   {"Ready": metav1.ConditionFalse},
		v1alpha1.EphemeralRunnerPhaseRunning:   {"Ready": metav1.ConditionTrue},
		v1alpha1.EphemeralRunnerPhaseSucceeded: {"Ready": metav1.ConditionFalse},
		v1alpha1.EphemeralRunnerPhaseFailed:    {"Ready": metav1.ConditionFalse, "Progressing": metav1.ConditionFalse, "Stalled": metav1.ConditionTrue},
		v1alpha1.EphemeralRunnerPhaseOutdated:  {"Ready": metav1.ConditionFalse, "Progressing": metav1.ConditionFalse, "Stalled": metav1.ConditionTrue},
	} {
		got := map[string]metav1.ConditionStatus{}
		for _, c := range readiness(&v1alpha1.EphemeralRunnerStatus{Phase: phase, Ready: phase == v1alpha1.EphemeralRunnerPhaseRunning}) {
			got[c.Type] = c.Status
		}
		if difference := cmp.Diff(want, got); difference != "" {
			t.Errorf("phase %q: %s", phase, difference)
		}
	}
	for _, c := range readiness(&v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseRunning}) {
		if c.Status != metav1.ConditionFalse {
			t.Error("a runner is ready whose pod is not")
		}
	}
}
