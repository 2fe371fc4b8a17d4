package rules

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// A pod without a node stays. Why it has none is reported after half a minute, or after its PendingTimeout if that is
// less.
func TestWhyAPodHasNoNodeIsReportedEarly(t *testing.T) {
	created := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		timeout, after time.Duration
		reported       bool // already
		want           Decision
	}{
		"at once":           {after: time.Second, want: Decision{RequeueAt: created.Add(ExplainGrace)}},
		"after a while":     {after: ExplainGrace, want: Decision{Step: ReportPending, Reason: "Unschedulable", Message: "no node"}},
		"reported":          {after: time.Hour, reported: true},
		"short timeout":     {timeout: 10 * time.Second, after: time.Second, want: Decision{RequeueAt: created.Add(10 * time.Second)}},
		"short timeout due": {timeout: 10 * time.Second, after: 10 * time.Second, want: Decision{Step: ReportPending, Reason: "Unschedulable", Message: "no node"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &World{
				Runner: &v1alpha1.EphemeralRunner{}, Now: created.Add(test.after), StartableAt: created,
				Pod: Outcome{State: podstatus.State{Phase: podstatus.Pending, Reason: "Unschedulable",
					Message: "no node"}},
			}
			if test.timeout > 0 {
				o.Runner.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			}
			if test.reported {
				o.Runner.Status.Reason, o.Runner.Status.Message = "Unschedulable", "no node"
			}
			if got := Plan(o); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// While others wait to be created, the report that a runner runs is deferred. Soon after its job its pod will end, too.
const resultAfter = 5 * time.Second // how long a pod is expected to outlive its job

func TestRunningIsReportedLateWhileOthersWait(t *testing.T) {
	deferred := func(o *World) { o.DeferredUntil = o.Now.Add(time.Second) }
	completedFor := func(d time.Duration) func(*World) {
		return func(o *World) {
			completed(o)
			o.Runner.Status.FinishedAt = &metav1.Time{Time: noon.Add(-d)}
			o.EndDueAt = noon.Add(resultAfter - d)
		}
	}
	runPlanCases(t, map[string]planCase{
		"others wait":       {given(podstatus.Running, deferred), Wait, time.Second},
		"nobody waits":      {given(podstatus.Running), ReportRunning, 0},
		"completed by now":  {given(podstatus.Missing, deferred, completed), DeleteRunner, 0},
		"about to end":      {given(podstatus.Running, completedFor(time.Second)), Wait, resultAfter - time.Second},
		"should have ended": {given(podstatus.Running, completedFor(resultAfter)), ReportRunning, 0},
	})
}
