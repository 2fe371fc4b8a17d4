package ephemeralrunner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// keptBy makes the pod fail, with finalizers that keep it from then on.
func (f *fixture) keptBy(finalizers ...string) {
	f.Helper()
	f.settle()
	f.hold(finalizers...)
	f.setPod(evict)
	f.settle()
	f.wantAttempts(1, "Evicted")
}

// Nobody removes the finalizer of a pod that failed: its runner fails too, and says why.
func TestRunnerWhoseFailedPodStaysFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.keptBy("example.com/audit", "example.com/billing")
		requeueAfter := f.reconcile().RequeueAfter
		if requeueAfter <= 0 || requeueAfter > rules.DefaultPendingTimeout {
			t.Fatalf("requeued after %s, want at most %s", requeueAfter, rules.DefaultPendingTimeout)
		}
		f.elapse(rules.DefaultPendingTimeout)
		f.settle()
		status := f.runner().Status
		if status.Phase != v1alpha1.EphemeralRunnerPhaseFailed || status.Reason != v1alpha1.ReasonPodTerminating {
			t.Fatalf("status %+v, want Failed for %s", status, v1alpha1.ReasonPodTerminating)
		}
		for _, words := range []string{name, "example.com/audit, example.com/billing", "remove them"} {
			if !strings.Contains(status.Message, words) {
				t.Errorf("message %q does not say %q", status.Message, words)
			}
		}
		f.wantEvent(v1alpha1.ReasonPodTerminating)
		f.wantCalls("jit", "remove 101") // which was unused
		if f.secret() != nil {
			t.Error("the Secret is left")
		}
	}, newRunner())
}

// It is requeued as often as necessary: no event of the pod or the runner may follow.
func TestRunnerWhosePodStaysComesBackInTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.keptBy("example.com/audit")
		start := time.Now()
		for f.runner().Status.Phase != v1alpha1.EphemeralRunnerPhaseFailed {
			requeueAfter := f.reconcile().RequeueAfter
			if requeueAfter == 0 && f.runner().Status.Phase != v1alpha1.EphemeralRunnerPhaseFailed {
				t.Fatalf("nothing more is planned %s after the failure", time.Since(start))
			}
			f.elapse(requeueAfter)
		}
		if took := time.Since(start); took > rules.DefaultPendingTimeout+podstatus.StuckTimeout {
			t.Errorf("given up after %s, want %s", took, rules.DefaultPendingTimeout)
		}
	}, newRunner())
}

// A finalizer that is removed in time has no consequences.
func TestFailedPodThatDisappearsInTimeIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.keptBy("example.com/audit")
		f.elapse(rules.DefaultPendingTimeout - time.Minute)
		f.settle()
		f.hold()
		f.settle()
		f.wantAttempts(1, "Evicted")
		f.wantPodOf("101")
		f.wantCalls("jit")
	}, newRunner())
}
