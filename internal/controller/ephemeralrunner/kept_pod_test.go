package ephemeralrunner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// What happens when somebody's finalizers keep a pod whose runner is deleted.

const keeper = "kueue.x-k8s.io/managed"

// deletedWith makes a foreign finalizer keep the runner's pod, changes the pod's status, and deletes the runner.
func (f *fixture) deletedWith(status func(*corev1.Pod)) {
	f.Helper()
	f.started()
	f.hold(keeper)
	f.setPod(status)
	f.delete()
	f.settle()
}

// comesBack runs passes only when the controller has asked for them, until that much time has passed.
func (f *fixture) comesBack(long time.Duration) {
	f.Helper()
	for left := long; ; {
		wait := f.reconcile().RequeueAfter
		if wait == 0 || wait > left {
			return
		}
		f.elapse(wait)
		left -= wait
	}
}

// Its job is over, its pod is not gone, and nobody takes care of the finalizer: the runner ends, and says why it still
// exists.
func TestRunnerEndsThoughItsPodIsKept(t *testing.T) {
	for title, test := range map[string]struct {
		ended func(*corev1.Pod)
		want  v1alpha1.EphemeralRunnerPhase
		calls []string
	}{
		"exit 0": {exits(0), v1alpha1.EphemeralRunnerPhaseSucceeded, nil},
		"exit 1": {exits(1), v1alpha1.EphemeralRunnerPhaseFailed, []string{"remove 101"}},
		"exit 7": {exits(rules.ExitCodeOutdated), v1alpha1.EphemeralRunnerPhaseFailed, []string{"remove 101"}},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started()
				f.hold(keeper)
				f.setStatus(jobDone)
				f.setPod(test.ended)
				f.settle() // the runner is deleted, too
				if status := f.runner().Status; status.Done() || f.runner().DeletionTimestamp.IsZero() {
					t.Fatalf("status %+v before anybody had time", status)
				}
				f.comesBack(rules.DefaultPendingTimeout)
				status := f.runner().Status
				if status.Phase != test.want || status.Reason != v1alpha1.ReasonPodTerminating ||
					!strings.Contains(status.Message, keeper) {
					t.Fatalf("status %+v, want %s, %s, and who keeps the pod", status, test.want,
						v1alpha1.ReasonPodTerminating)
				}
				f.wantCalls(test.calls...)
				f.api.sent()
				f.watch(time.Hour)
				f.restart()
				f.watch(time.Hour)
				if got := f.api.sent(); strings.Contains(got, "patch status") {
					t.Errorf("the same is written again: %s", got)
				}
				f.wantEvent(v1alpha1.ReasonPodTerminating)
				if !slices.Equal(f.pod().Finalizers, []string{keeper}) {
					t.Errorf("finalizers of the pod %v, want the foreign one", f.pod().Finalizers)
				}
				f.hold()
				f.settle()
				f.wantGone()
			}, newRunner())
		})
	}
}

// Deleted while idle, it ends just like a runner whose job is over.
func TestIdleRunnerEndsThoughItsPodIsKept(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletedWith(exits(0))
		f.comesBack(rules.DefaultPendingTimeout)
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseSucceeded {
			t.Errorf("status %+v, want Succeeded", status)
		}
	}, newRunner())
}

// The controller deletes the pod without a grace period, but the pod is not gone.
func TestRunnerIsNotFinalizedBeforeItsKeptPodIsGone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.hold(keeper)
		f.setStatus(jobDone)
		f.setPod(exits(0))
		f.settle()
		if f.runner() == nil || len(f.runner().Finalizers) == 0 {
			t.Error("the runner is finalized before its pod is gone")
		}
	}, newRunner())
}

// It had failed before it was deleted: its phase stays, and it reports what it is waiting for now.
func TestFailedRunnerSaysThatItsPodIsKept(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.hold(keeper)
		f.setStatus(hasReportedJob)
		f.setPod(exits(1))
		f.settle()
		f.delete()
		f.settle()
		f.comesBack(rules.DefaultPendingTimeout)
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			status.Reason != v1alpha1.ReasonPodTerminating {
			t.Errorf("status %+v, want Failed for %s", status, v1alpha1.ReasonPodTerminating)
		}
		f.wantEvent(v1alpha1.ReasonPodTerminating)
	}, newRunner())
}

// A job that is given an hour to end is not over, however long its pod is being deleted.
func TestRunnerWhosePodIsAtWorkDoesNotEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setStatus(hasReportedJob)
		f.github.remove = actions.ErrJobStillRunning
		f.dies(time.Hour)
		f.delete()
		f.watch(time.Hour)
		if status := f.runner().Status; status.Done() || status.Reason != "" {
			t.Errorf("status %+v, want it at work", status)
		}
		f.setPod(exits(0))
		f.watch(podstatus.StuckTimeout - time.Second)
		if status := f.runner().Status; status.Done() {
			t.Errorf("status %+v as soon as its job has ended: its kubelet has just begun to remove the pod", status)
		}
	}, newRunner())
}

// A pod disappears in time: nothing is written.
func TestRunnerWhosePodDisappearsInTimeIsNotReported(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletedWith(exits(0))
		f.api.sent()
		f.watch(rules.DefaultPendingTimeout - time.Minute)
		f.hold()
		f.settle()
		f.wantGone()
		if got := f.api.sent(); strings.Contains(got, "patch status") {
			t.Errorf("requests %s", got)
		}
	}, newRunner())
}
