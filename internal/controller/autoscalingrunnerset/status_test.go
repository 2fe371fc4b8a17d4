package autoscalingrunnerset_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestStatusIsWrittenOncePerSecond(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.reconcile()
		written := f.set().ResourceVersion
		runnerSet := f.runnerSets()[0]
		runnerSet.Status.CurrentReplicas = 1
		f.updateStatus(&runnerSet)
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter > statusInterval ||
			f.set().ResourceVersion != written {
			t.Errorf("next pass after %s, want within %s; status written twice: %t", requeueAfter, statusInterval,
				f.set().ResourceVersion != written)
		}
		controllertest.Elapse(statusInterval)
		f.reconcile()
		if got := f.set().Status.CurrentRunners; got != 1 {
			t.Errorf("currentRunners = %d a second later, want 1", got)
		}
	})
}

// The count goes on from the highest that any runner set had, also one that is gone before the count could be written.
func TestLostJobsAreThoseOfAllTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		controllertest.Elapse(statusInterval)
		for _, count := range []int{3, 5} { // the second comes within a second of the first
			runnerSet := f.runnerSets()[0]
			runnerSet.Status.LostJobs = count
			f.updateStatus(&runnerSet)
			f.reconcile()
		}
		if got := f.set().Status.LostJobs; got != 3 {
			t.Fatalf("lostJobs = %d at once, want 3", got)
		}
		runnerSet := f.runnerSets()[0]
		runnerSet.Status.LostJobs = 0 // another one
		f.updateStatus(&runnerSet)
		controllertest.Elapse(statusInterval)
		f.reconcile()
		if got := f.set().Status.LostJobs; got != 5 {
			t.Errorf("lostJobs = %d, want 5", got)
		}
	})
}
