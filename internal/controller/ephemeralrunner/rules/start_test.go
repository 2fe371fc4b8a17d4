package rules_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// A pod without a node stays. Why it has none is reported after half a minute, or after its PendingTimeout if that is
// less.
func TestWhyAPodHasNoNodeIsReportedEarly(t *testing.T) {
	created := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		timeout, after time.Duration
		reported       bool // already
		want           rules.Decision
	}{
		"at once":           {after: time.Second, want: rules.Decision{RequeueAt: created.Add(rules.ExplainGrace)}},
		"after a while":     {after: rules.ExplainGrace, want: rules.Decision{Step: rules.ReportPending, Reason: "Unschedulable", Message: "no node"}},
		"reported":          {after: time.Hour, reported: true},
		"short timeout":     {timeout: 10 * time.Second, after: time.Second, want: rules.Decision{RequeueAt: created.Add(10 * time.Second)}},
		"short timeout due": {timeout: 10 * time.Second, after: 10 * time.Second, want: rules.Decision{Step: rules.ReportPending, Reason: "Unschedulable", Message: "no node"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &rules.World{
				Runner: &v1alpha1.EphemeralRunner{}, Now: created.Add(test.after), StartableAt: created,
				Pod: rules.Outcome{State: podstatus.State{Phase: podstatus.Pending, Reason: "Unschedulable",
					Message: "no node"}},
			}
			if test.timeout > 0 {
				o.Runner.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			}
			if test.reported {
				o.Runner.Status.Reason, o.Runner.Status.Message = "Unschedulable", "no node"
			}
			if got := rules.Plan(o); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// While others wait to be created, the report that a runner runs is deferred. Soon after its job its pod will end, too.
const resultAfter = 5 * time.Second // how long a pod is expected to outlive its job

func TestRunningIsReportedLateWhileOthersWait(t *testing.T) {
	deferred := func(o *rules.World) { o.DeferredUntil = o.Now.Add(time.Second) }
	completedFor := func(d time.Duration) func(*rules.World) {
		return func(o *rules.World) {
			completed(o)
			o.Runner.Status.FinishedAt = &metav1.Time{Time: noon.Add(-d)}
			o.EndDueAt = noon.Add(resultAfter - d)
		}
	}
	runPlanCases(t, map[string]planCase{
		"others wait":       {given(podstatus.Running, deferred), rules.Wait, time.Second},
		"nobody waits":      {given(podstatus.Running), rules.ReportRunning, 0},
		"completed by now":  {given(podstatus.Missing, deferred, completed), rules.DeleteRunner, 0},
		"about to end":      {given(podstatus.Running, completedFor(time.Second)), rules.Wait, resultAfter - time.Second},
		"should have ended": {given(podstatus.Running, completedFor(resultAfter)), rules.ReportRunning, 0},
	})
}
