package ephemeralrunner_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// What a pod may do while GitHub is asked to remove its registration.

// blockedWhileAsked sets up a pod whose container can't start, and a GitHub that answers a removal when answer is
// called.
func (f *fixture) blockedWhileAsked() (answer func()) {
	f.Helper()
	f.settle()
	asked := make(chan struct{})
	f.github.holdRemove = asked
	f.setPod(cannotStart("ImagePullBackOff"))
	f.settle()
	return func() {
		close(asked)
		f.elapse(time.Millisecond)
		f.settle()
	}
}

// wantAttempts fails unless so many attempts have ended, whoever's fault it was.
func (f *fixture) wantAttempts(want int, reason string) {
	f.Helper()
	if status := f.runner().Status; rules.AttemptsRecorded(&status) != want || status.Reason != reason {
		f.Errorf("status %+v, want %d attempts that have ended, the last for %s", status, want, reason)
	}
}

// The pod is evicted before its container starts: its JIT config is unused, but its registration is being removed.
func TestJITConfigThatIsBeingRemovedIsNotUsedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.setPod(evict)
		f.settle()
		f.wantAttempts(0, "")
		answer()
		f.wantAttempts(1, "Evicted")
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// The answer may have been lost on its way back: GitHub is asked again before the registration is used.
func TestJITConfigWhoseRemovalFailedIsNotUsedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.github.remove = errGitHubAway
		f.setPod(cannotStart("ImagePullBackOff"))
		f.settle()
		f.setPod(evict)
		f.settle()
		f.github.remove = nil
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.wantAttempts(1, "Evicted")
		f.wantCalls("jit", "remove 101", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// The container started unseen, has a job, and its pod was evicted: the pod's last status is wrong.
func TestEvictedPodThatGitHubCallsBusyFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.github.remove = actions.ErrJobStillRunning
		f.setPod(evict)
		answer()
		f.wantEvent("Evicted")
		if !meta.IsStatusConditionTrue(f.runner().Status.Conditions, v1alpha1.ConditionDraining) {
			t.Errorf("status %+v, want a job by GitHub's word", f.runner().Status)
		}
		f.wantCalls("jit", "remove 101")
	}, newRunner())
}

// The container starts while GitHub is asked, and exits because its registration is removed. Its pod stays a while
// longer: the next attempt must not succeed without a pod.
func TestExitOfARemovedRunnerDoesNotEndTheNextAttempt(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.hold("example.com/sidecar")
		f.setPod(exits(0))
		f.settle()
		answer()
		f.wantAttempts(1, "StartedLate")
		f.hold()
		f.wantNewRegistration()
		f.elapse(rules.ReportGrace)
		f.settle()
		f.wantAttempts(1, "StartedLate")
		if t.Failed() {
			return
		}
		f.setPod(runs)
		f.settle()
		f.wantAttempts(1, "")
	}, newRunner())
}

// The same, but the pod is gone before GitHub has answered.
func TestExitWhileGitHubIsAskedWaitsForTheAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.setPod(exits(0))
		f.settle()
		f.elapse(2 * rules.ReportGrace)
		f.settle()
		if f.pod() != nil {
			t.Error("the pod of a runner that exited waits for GitHub")
		}
		answer()
		f.wantAttempts(1, "StartedLate")
		f.wantNewRegistration()
	}, newRunner())
}

// A proxy in front of GitHub answers 404, which must not cost a job. GitHub is asked again, until it answers or the pod
// has ended.
func TestNotFoundIsNotConsentWhileAJobRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.remove = actions.ErrRunnerNotFound
		f.started().setStatus(startJob)
		f.delete()
		f.settle()
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.wantCalls("remove 101", "remove 101")
		f.elapse(2 * rules.SilenceTimeout)
		f.settle()
		if f.pod() == nil || f.runner() == nil {
			t.Fatal("a running job was killed")
		}
		f.wantEvent(v1alpha1.ConditionDraining)
		f.setPod(exits(0))
		f.settle()
		f.wantGone()
	}, newRunner())
}

// The same holds if the job is reported after GitHub was asked.
func TestNotFoundIsJudgedByWhatIsKnownWhenItIsUsed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.github.remove, f.github.holdRemove = actions.ErrRunnerNotFound, make(chan struct{})
		f.delete()
		f.reconcile()
		f.setStatus(startJob)
		close(f.github.holdRemove)
		f.settle()
		if f.pod() == nil {
			t.Error("a running job was killed")
		}
	}, newRunner())
}

// Without a job there is nothing to lose: a missing registration is as good as a removed one.
func TestNotFoundIsConsentWithoutAJob(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.remove = actions.ErrRunnerNotFound
		f.started().setPod(exits(1))
		delete(f.github.registered, name)
		f.settle()
		f.wantAttempts(1, "Error")
		f.wantNewRegistration()
		f.wantCalls("remove 101", "jit")
	}, newRunner())
}

// A registration whose id nobody knows is looked up by name, and the same 404 may answer that.
func TestRunnerThatIsNotFoundByNameKeepsItsJob(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().setStatus(func(r *v1alpha1.EphemeralRunner) { startJob(r); r.Status.RunnerID = 0 })
		pod := f.pod()
		delete(pod.Annotations, v1alpha1.AnnotationRunnerID)
		if err := f.api.WithWatch.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		delete(f.github.registered, name)
		f.restart()
		f.delete()
		f.settle()
		f.wantCalls("find")
		if f.pod() == nil {
			t.Error("a running job was killed")
		}
	}, newRunner())
}

// A name is taken by a registration that is gone according to a 404: asking for a registration again shows whether it
// is.
func TestNotFoundFreesAName(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet}
		f.github.remove = actions.ErrRunnerNotFound
		f.reconcile()
		f.wantCalls("jit", "find", "remove 42", "jit")
	}, newRunner())
}
