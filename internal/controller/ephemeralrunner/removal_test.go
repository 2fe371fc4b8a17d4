package ephemeralrunner

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// What a pod does while GitHub is asked to remove the registration that it has.

// blockedWhileAsked has a pod whose container can't start, and a GitHub that has not answered yet whether it may be given up.
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

// Evicted before it started: its JIT config is unused, and void all the same.
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
		f.elapse(firstRetry)
		f.settle()
		f.wantFailures(1, "Evicted")
		f.wantCalls("jit", "remove 101", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// It had started unseen, has a job, and was evicted: what its pod says last is not true.
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

// It starts while GitHub is asked, and exits because it is removed; what keeps its pod a while longer does not make the next
// attempt a success without a pod.
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
		f.elapse(settle)
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
		f.elapse(2 * settle)
		f.settle()
		if f.pod() != nil {
			t.Error("the pod of a runner that exited waits for GitHub")
		}
		answer()
		f.wantFailures(1, "StartedLate")
		f.wantNewRegistration()
	}, newRunner())
}
