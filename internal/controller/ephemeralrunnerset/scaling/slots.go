package scaling

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
)

// slot says how a runner counts towards the number of runners that there should be.
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
	// GitHub may take settleGrace to stop counting the job of a runner that has exited. A patchID seen later than that
	// reflects the end even if its report was lost.
	settleGrace = 3 * time.Second
	// The job of a runner that has failed, or was reported completed, is assumed to be still assigned for heldTimeout:
	// GitHub gives up a job that has lost its runner after ten minutes without a sign of life.
	heldTimeout = 15 * time.Minute
	// In a set whose runners fail, another runner is tried after one has been up for provenGrace.
	provenGrace = 10 * time.Second
)

// slotOf returns the slot of a runner, according to the table in docs/decisions/0007-a-slot-follows-the-job.md.
func (h *History) slotOf(r *roster.Runner) slot {
	switch {
	case r.Completed:
		return h.completedSlot(r)
	case r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated, r.FailedIdle():
		return slotFree
	case r.Phase == v1alpha1.EphemeralRunnerPhaseFailed:
		// no figure of the set's GitHub counts a job elsewhere
		return heldUnless(h.registeredElsewhere(r) || h.jobGivenUp(h.historyOf(r)))
	case r.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		past := h.historyOf(r)
		return heldUnless(h.endCounted(past) || (past.excused && r.ExitedIdle()))
	case !r.Alive():
		return slotFree
	case r.HadJob || r.Draining || (h.historyOf(r).Busy && !h.historyOf(r).excused):
		return slotWorking
	case r.Deleting, h.historyOf(r).Unregistered():
		return slotFree
	case !h.historyOf(r).passedOverAt.IsZero(), h.historyOf(r).Busy: // it hangs with a job that was cancelled
		return slotFree
	default:
		return slotWaiting
	}
}

// endCounted reports whether the figure of a runner that has exited is so new that it no longer counts a job of it.
func (h *History) endCounted(past *runnerHistory) bool {
	return !h.patchSeenAt.Before(past.endedAt.Add(settleGrace))
}

// completedSlot returns the slot of a runner whose job is reported completed. The listener first publishes replicas and
// then reports the completion, with the patchID whose replicas no longer count the job. The two arrive on separate
// watches, so the report may be seen first. After a restore of the cluster from a backup, a new listener counts from a
// patchID that the last one has passed long ago, so nothing is held for longer than heldTimeout.
func (h *History) completedSlot(r *roster.Runner) slot {
	switch {
	case h.patchID >= r.JobPatchID:
		return slotFree
	case r.Ended():
		return heldUnless(h.now.Sub(h.historyOf(r).endedAt) >= heldTimeout)
	case !r.Alive():
		return slotFree
	default:
		return slotWorking
	}
}

// jobGivenUp reports whether GitHub has given up the job of a runner that failed: it has agreed to remove the runner
// and replicas has been evaluated since, or so much time has passed that it must have.
func (h *History) jobGivenUp(past *runnerHistory) bool {
	agreed := !past.RemovedAt.IsZero() && h.patchSeenAt.After(past.RemovedAt)
	return agreed || h.now.Sub(past.endedAt) >= heldTimeout
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
	// Starting counts the waiting runners whose pod is not up: nothing shows yet that they can work.
	Starting int
	// justUp counts the waiting runners that have been up for less than provenGrace. justExited counts the held runners
	// that, as far as is known, had no job: a wrong command exits within seconds, and that is seen seconds later. At
	// provenAt the first of justUp is proven.
	justUp, justExited int
	provenAt           time.Time
	// notEnded counts the runners that may still run, whatever their slot: maxRunners limits them.
	notEnded int
}

func (h *History) tally(runners []*roster.Runner) tally {
	var t tally
	for _, r := range runners {
		switch h.slotOf(r) {
		case slotWaiting:
			t.waiting++
			if !r.Up() {
				t.Starting++
			} else if proven := h.historyOf(r).upAt.Add(provenGrace); h.now.Before(proven) {
				t.justUp++
				t.provenAt = kube.EarlierOf(t.provenAt, proven)
			}
		case slotWorking:
			t.working++
		case slotHeld:
			t.held++
			if r.ExitedIdle() {
				t.justExited++
			}
		case slotFree:
		}
		if r.Alive() {
			t.notEnded++
		}
	}
	return t
}

// lostHistoryLimit and maxFailedHistoryAge limit the runners with a lost job that are kept as evidence.
const lostHistoryLimit = 100

// planFailedHistory keeps the newest runners that failed without a job, until a later runner takes a job or they are
// too old. It also keeps the newest outdated runner, which shows after a restart that the set is outdated.
func (h *History) planFailedHistory(p *Plan, runners []*roster.Runner, limit int) {
	room := map[v1alpha1.EphemeralRunnerPhase]int{
		v1alpha1.EphemeralRunnerPhaseFailed: limit, v1alpha1.EphemeralRunnerPhaseOutdated: 1,
	}
	for _, r := range slices.Backward(runners) {
		if r.Deleting || (!r.FailedIdle() && r.Phase != v1alpha1.EphemeralRunnerPhaseOutdated) {
			continue
		}
		if room[r.Phase] == 0 || h.obsolete(p, r) {
			p.decide(r, Delete)
			continue
		}
		room[r.Phase]--
	}
}

// obsolete reports whether a failed or outdated runner is no longer worth keeping for inspection.
func (h *History) obsolete(p *Plan, r *roster.Runner) bool {
	if h.superseded(r) {
		return true
	}
	if r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated {
		return false
	}
	expiry := h.historyOf(r).endedAt.Add(maxFailedHistoryAge)
	if !h.now.Before(expiry) {
		return true
	}
	p.requeueBy(expiry)
	return false
}

// planLostHistory keeps the newest runners with a lost job as evidence, whatever became of later runners, for as long
// as those that failed without a job. Runners whose jobs GitHub still counts stay until it doesn't. With reruns, all
// runners of a workflow run stay while one of its jobs is undecided. planFailedHistory decides about outdated ones.
func (h *History) planLostHistory(p *Plan, runners []*roster.Runner, reruns bool) {
	undecided := sets.New[feedback.Run]()
	for _, r := range runners {
		if reruns && r.Lost() && r.LostJob.Undecided() {
			undecided.Insert(r.LostJob.Run)
		}
	}
	room := lostHistoryLimit
	for _, r := range slices.Backward(runners) {
		if !r.Lost() || r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated || r.Deleting || h.slotOf(r) == slotHeld {
			continue
		}
		if undecided.Has(r.LostJob.Run) {
			room = max(0, room-1)
			continue
		}
		expiry := h.historyOf(r).endedAt.Add(maxFailedHistoryAge)
		if room == 0 || !h.now.Before(expiry) {
			p.decide(r, Delete)
			continue
		}
		room--
		p.requeueBy(expiry)
	}
}
