package ephemeralrunnerset_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What happens while the cache shows runners as they were some moments ago.

// surplus gives a set one runner, which as far as is known is not registered, and makes it surplus.
func (f *fixture) surplus() {
	f.Helper()
	f.reconcile()
	f.publish(0)
	f.reconcile()
	controllertest.Elapse(surplusPatience)
	f.publish(0)
}

// It was registered after the cache was last up to date: only GitHub can say whether it has a job.
func TestRunnerThatHasChangedSinceItWasSeenIsNotDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.surplus()
		f.late = true
		f.bringUp()
		f.reconcile()
		if f.requests["delete"] != 1 || f.runners()[0].DeletionTimestamp != nil {
			t.Errorf("%d deletions, runner %+v; want one that is refused", f.requests["delete"],
				f.runners()[0].ObjectMeta)
		}
		f.late = false
		f.reconcile()
		if f.asked != 1 {
			t.Errorf("GitHub was asked %d times, want once", f.asked)
		}
	}, newSet(1))
}

func TestRunnerIsNotDeletedAgainWhileTheCacheIsLate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.surplus()
		f.late = true
		for range 3 {
			f.reconcile()
		}
		if f.requests["delete"] != 1 {
			t.Errorf("%d deletions, want 1", f.requests["delete"])
		}
		if got := f.runners()[0]; got.DeletionTimestamp == nil {
			t.Error("the surplus runner was not deleted")
		}
	}, newSet(1))
}
