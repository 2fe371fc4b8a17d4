package ephemeralrunner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// A pod without a node stays. Why it has none is reported after half a minute, or after its pendingTimeout if that is less.
func TestWhyAPodHasNoNodeIsReportedEarly(t *testing.T) {
	created := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		timeout, after time.Duration
		reported       bool // already
		want           decision
	}{
		"at once":           {after: time.Second, want: decision{requeueAt: created.Add(explainAfter)}},
		"after a while":     {after: explainAfter, want: decision{step: stepReportPending, reason: "Unschedulable", message: "no node"}},
		"reported":          {after: time.Hour, reported: true},
		"short timeout":     {timeout: 10 * time.Second, after: time.Second, want: decision{requeueAt: created.Add(10 * time.Second)}},
		"short timeout due": {timeout: 10 * time.Second, after: 10 * time.Second, want: decision{step: stepReportPending, reason: "Unschedulable", message: "no node"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observation{
				runner: &v1alpha1.EphemeralRunner{}, now: created.Add(test.after), startableAt: created,
				pod: outcome{State: podstatus.State{Phase: podstatus.Pending, Reason: "Unschedulable", Message: "no node"}},
			}
			if test.timeout > 0 {
				o.runner.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			}
			if test.reported {
				o.runner.Status.Reason, o.runner.Status.Message = "Unschedulable", "no node"
			}
			if got := plan(o); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
