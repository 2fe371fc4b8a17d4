package ephemeralrunnerset

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// slot is what a runner means for the number of runners there should be.
type slot int

const (
	// slotFree: another runner may be made for the job, if there is one.
	slotFree slot = iota
	// slotWaiting: the runner is there for a job that it has not got yet.
	slotWaiting
	// slotWorking: it has a job.
	slotWorking
	// slotHeld: its job may still be counted in replicas, so it is neither missing nor too many.
	slotHeld
)

const (
	// settleAfterEnd is how long GitHub may take to stop counting the job of a runner that has exited. A patchID seen
	// later reflects the end even where its report was lost.
	settleAfterEnd = 3 * time.Second
	// heldAtMost bounds how long a failed runner's job is believed to be assigned still: GitHub gives a job that lost
	// its runner up after ten minutes without a sign of life.
	heldAtMost = 15 * time.Minute
)

// slotOf returns the slot of a runner, as the table in docs/decisions/0007-a-slot-follows-the-job.md has it.
func (m *memory) slotOf(r *runner) slot {
	switch {
	case r.completed:
		return m.completedSlot(r)
	case r.phase == v1alpha1.EphemeralRunnerPhaseOutdated, r.failedIdle():
		return slotFree
	case r.phase == v1alpha1.EphemeralRunnerPhaseFailed:
		return heldUnless(m.elsewhere(r) || m.letGo(m.past(r))) // no figure of the set's GitHub has a job elsewhere in it
	case r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return heldUnless(!m.patchSeen.Before(m.past(r).ended.Add(settleAfterEnd)))
	case r.hasJob || r.draining || m.past(r).busy:
		return slotWorking
	case r.deleting:
		return slotFree
	default:
		return slotWaiting
	}
}

// completedSlot: the listener publishes replicas first and reports the completion after it, with the patchID that has
// the job no longer in it. The two arrive by different watches, so the report may be seen first.
func (m *memory) completedSlot(r *runner) slot {
	switch {
	case m.patchID >= r.jobPatchID:
		return slotFree
	case r.ended():
		return slotHeld
	default:
		return slotWorking
	}
}

// letGo says that GitHub has given up the job of a runner that failed: it agreed to remove the runner, and replicas was
// evaluated since; or so much time has passed that it must have.
func (m *memory) letGo(past *past) bool {
	agreed := !past.removed.IsZero() && m.patchSeen.After(past.removed)
	return agreed || m.now.Sub(past.ended) >= heldAtMost
}

func heldUnless(released bool) slot {
	if released {
		return slotFree
	}
	return slotHeld
}

// tally counts runners by slot.
type tally struct {
	waiting, working, held int
	// starting are those waiting whose pod is not up: nothing shows yet that they can work.
	starting int
	// notEnded counts pods that may still run, whatever their slot: they are what maxRunners limits.
	notEnded int
}

func (m *memory) tally(runners []*runner) tally {
	var t tally
	for _, r := range runners {
		switch m.slotOf(r) {
		case slotWaiting:
			t.waiting++
			if !r.up() {
				t.starting++
			}
		case slotWorking:
			t.working++
		case slotHeld:
			t.held++
		case slotFree:
		}
		if r.alive() {
			t.notEnded++
		}
	}
	return t
}
