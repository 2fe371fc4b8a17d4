package ephemeralrunner

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// What a pod does while GitHub is asked to remove the registration that it has.

// blockedWhileAsked sets a pod up whose container can't start, and a GitHub that answers a removal when answer is called.
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

func (f *fixture) wantFailures(want int, reason string) {
	f.Helper()
	if status := f.runner().Status; len(status.Failures) != want || status.Reason != reason {
		f.Errorf("status %+v, want %d failed attempts, the last for %s", status, want, reason)
	}
}

// The pod is evicted before its container starts: its JIT config is unused, but its registration is being removed.
func TestJITConfigThatIsBeingRemovedIsNotUsedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.setPod(evict)
		f.settle()
		f.wantFailures(0, "")
		answer()
		f.wantFailures(1, "Evicted")
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// The answer may have been lost on its way back: GitHub is asked again before anything is made of the registration.
func TestJITConfigWhoseRemovalFailedIsNotUsedAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.github.remove = errGitHubAway
		f.setPod(cannotStart("ImagePullBackOff"))
		f.settle()
		f.setPod(evict)
		f.settle()
		f.github.remove = nil
		f.elapse(minRetryAfter)
		f.settle()
		f.wantFailures(1, "Evicted")
		f.wantCalls("jit", "remove 101", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// The container had started unseen, has a job, and its pod was evicted: the pod's last status is wrong.
func TestEvictedPodThatGitHubCallsBusyFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.github.remove = actions.ErrJobStillRunning
		f.setPod(evict)
		answer()
		f.wantEvent("Evicted")
		if !hasJob(&pass{EphemeralRunner: f.runner(), memory: &memory{}}) {
			t.Errorf("status %+v, want a job by GitHub's word", f.runner().Status)
		}
		f.wantCalls("jit", "remove 101")
	}, newRunner())
}

// The container starts while GitHub is asked, and exits because its registration is removed. Its pod stays a while longer:
// the next attempt must not succeed without a pod.
func TestExitOfARemovedRunnerDoesNotEndTheNextAttempt(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.hold("example.com/sidecar")
		f.setPod(exits(0))
		f.settle()
		answer()
		f.wantFailures(1, "StartedLate")
		f.hold()
		f.wantNewRegistration()
		f.elapse(reportGracePeriod)
		f.settle()
		f.wantFailures(1, "StartedLate")
		if t.Failed() {
			return
		}
		f.setPod(runs)
		f.settle()
		f.wantFailures(1, "")
	}, newRunner())
}

// The same, and its pod is gone before GitHub has answered.
func TestExitWhileGitHubIsAskedWaitsForTheAnswer(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := f.blockedWhileAsked()
		f.setPod(exits(0))
		f.settle()
		f.elapse(2 * reportGracePeriod)
		f.settle()
		if f.pod() != nil {
			t.Error("the pod of a runner that exited waits for GitHub")
		}
		answer()
		f.wantFailures(1, "StartedLate")
		f.wantNewRegistration()
	}, newRunner())
}
