package ephemeralrunnerset

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// slot is how a runner counts towards the number of runners that there should be.
type slot int

const (
	// slotFree: another runner may be created for the job, if there is one.
	slotFree slot = iota
	// slotWaiting: the runner is waiting for a job.
	slotWaiting
	// slotWorking: it has a job.
	slotWorking
	// slotHeld: its job may still be counted in replicas, so the runner is neither missing nor surplus.
	slotHeld
)

const (
	// settleAfterEnd is how long GitHub may take to stop counting the job of a runner that has exited. A patchID seen later
	// than that reflects the end even if its report was lost.
	settleAfterEnd = 3 * time.Second
	// heldTimeout is how long the job of a runner that has failed, or was reported completed, is assumed to be still assigned:
	// GitHub gives up a job that has lost its runner after ten minutes without a sign of life.
	heldTimeout = 15 * time.Minute
	// provenAfter is how long a runner must be up, in a set whose runners fail, before another one is tried.
	provenAfter = 10 * time.Second
)

// slotOf returns the slot of a runner, according to the table in docs/decisions/0007-a-slot-follows-the-job.md.
func (h *history) slotOf(r *runnerView) slot {
	switch {
	case r.completed:
		return h.completedSlot(r)
	case r.phase == v1alpha1.EphemeralRunnerPhaseOutdated, r.failedIdle():
		return slotFree
	case r.phase == v1alpha1.EphemeralRunnerPhaseFailed:
		return heldUnless(h.registeredElsewhere(r) || h.jobGivenUp(h.historyOf(r))) // no figure of the set's GitHub counts a job elsewhere
	case r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return heldUnless(!h.patchSeenAt.Before(h.historyOf(r).endedAt.Add(settleAfterEnd)))
	case !r.alive():
		return slotFree
	case r.hadJob || r.draining || h.historyOf(r).busy:
		return slotWorking
	case r.deleting, h.historyOf(r).unregistered():
		return slotFree
	default:
		return slotWaiting
	}
}

// completedSlot returns the slot of a runner whose job is reported completed. The listener first publishes replicas and then
// reports the completion, with the patchID whose replicas no longer count the job. The two arrive on separate watches, so the
// report may be seen first. After a restore of the cluster from a backup, a new listener counts from a patchID that the last one
// has passed long ago, so nothing is held for longer than heldTimeout.
func (h *history) completedSlot(r *runnerView) slot {
	switch {
	case h.patchID >= r.jobPatchID:
		return slotFree
	case r.ended():
		return heldUnless(h.now.Sub(h.historyOf(r).endedAt) >= heldTimeout)
	case !r.alive():
		return slotFree
	default:
		return slotWorking
	}
}

// jobGivenUp reports whether GitHub has given up the job of a runner that failed: it has agreed to remove the runner and
// replicas has been evaluated since, or so much time has passed that it must have.
func (h *history) jobGivenUp(past *runnerHistory) bool {
	agreed := !past.removedAt.IsZero() && h.patchSeenAt.After(past.removedAt)
	return agreed || h.now.Sub(past.endedAt) >= heldTimeout
}

// unregistered reports whether GitHub has removed the runner or doesn't know it: it gets no job any more, and is deleted in this pass.
func (past *runnerHistory) unregistered() bool { return !past.removedAt.IsZero() || past.gone }

func heldUnless(released bool) slot {
	if released {
		return slotFree
	}
	return slotHeld
}

// tally counts runners by slot.
type tally struct {
	waiting, working, held int
	// starting counts the waiting runners whose pod is not up: nothing shows yet that they can work.
	starting int
	// justUp counts the waiting runners that have been up for less than provenAfter. justExited counts the held runners that,
	// as far as is known, had no job: a wrong command exits within seconds, and that is seen seconds later. provenAt is when
	// the first of justUp is proven.
	justUp, justExited int
	provenAt           time.Time
	// notEnded counts the runners that may still run, whatever their slot: maxRunners limits them.
	notEnded int
}

func (h *history) tally(runners []*runnerView) tally {
	var t tally
	for _, r := range runners {
		switch h.slotOf(r) {
		case slotWaiting:
			t.waiting++
			if !r.up() {
				t.starting++
			} else if proven := h.historyOf(r).upAt.Add(provenAfter); h.now.Before(proven) {
				t.justUp++
				t.provenAt = kube.EarlierOf(t.provenAt, proven)
			}
		case slotWorking:
			t.working++
		case slotHeld:
			t.held++
			if r.exitedIdle() {
				t.justExited++
			}
		case slotFree:
		}
		if r.alive() {
			t.notEnded++
		}
	}
	return t
}
