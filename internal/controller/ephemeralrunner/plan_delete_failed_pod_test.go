package ephemeralrunner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/memory"
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
		if took := time.Since(start); took > rules.DefaultPendingTimeout+podstatus.StuckAfter {
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

func TestPodDueAt(t *testing.T) {
	const long = time.Hour
	for title, test := range map[string]struct {
		timeout, grace time.Duration
		deleting       time.Time // zero if it is not being deleted
		noted          time.Time // zero if no failure is noted
		want           time.Time
	}{
		"not being deleted":             {timeout: long},
		"deleted just now":              {timeout: long, grace: time.Minute, deleting: noon, want: noon.Add(long)},
		"longer grace period":           {timeout: time.Minute, grace: long, deleting: noon, want: noon.Add(long + podstatus.StuckAfter)},
		"no timeout":                    {deleting: noon, want: noon.Add(podstatus.StuckAfter)},
		"failure noted before":          {timeout: long, deleting: noon, noted: noon.Add(-time.Minute), want: noon.Add(long - time.Minute)},
		"failure noted long before":     {timeout: time.Minute, deleting: noon, noted: noon.Add(-long), want: noon.Add(podstatus.StuckAfter)},
		"failure noted long after":      {timeout: long, grace: long, deleting: noon.Add(-2 * long), noted: noon, want: noon.Add(long)},
		"failure noted by a fast clock": {timeout: long, deleting: noon.Add(-time.Minute), noted: noon.Add(2 * long), want: noon.Add(long - time.Minute)},
	} {
		t.Run(title, func(t *testing.T) {
			p := &pass{EphemeralRunner: newRunner(), pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}, memory: &remembered{Memory: &memory.Memory{Pod: memory.LastPod{UID: "pod", DeletingAt: test.deleting}}}}
			p.Spec.PendingTimeout = &metav1.Duration{Duration: test.timeout}
			if !test.deleting.IsZero() {
				// By the API server's clock, whose date does not matter.
				p.pod.DeletionTimestamp, p.pod.DeletionGracePeriodSeconds = new(metav1.NewTime(beginning)), new(int64(test.grace.Seconds()))
			}
			if !test.noted.IsZero() {
				p.Status.Failures = map[string]metav1.Time{string(p.pod.UID): metav1.NewTime(test.noted)}
			}
			if got := p.memory.PodDueAt(p.EphemeralRunner, p.pod, noon); !got.Equal(test.want) {
				t.Errorf("podDueAt() = %s, want %s", got, test.want)
			}
		})
	}
}
