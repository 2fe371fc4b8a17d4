package ephemeralrunnerset

import (
	"slices"
	"time"
)

const (
	// removalLag is how long GitHub may take to remove the record of a runner that had a job, which it does within tens of
	// seconds. One that is there still belongs to a runner that never got a job.
	removalLag = time.Minute
	// askExitedAgainAfter is the pause between two questions about such a runner: the third one decides.
	askExitedAgainAfter = removalLag / 2
	// explanationTimeout is how long GitHub's answer is waited for before the runner is taken for one without a job. A set
	// whose image is wrong has to say so even where GitHub can never be asked about a runner.
	explanationTimeout = 15 * time.Minute
)

// planExited finds out whether a runner that exited with code 0 had a job that nobody has reported, because the report is late
// or GitHub tells figures only: GitHub removes the record of a runner after its job, and keeps that of one without.
func (h *history) planExited(p *plan, r *runnerView, past *runnerHistory) {
	timeout := past.exitedAt.Add(explanationTimeout)
	switch {
	case past.recordRemoved(), !past.removedAt.IsZero(), h.superseded(r):
		p.decide(r, actionDelete)
	case !h.askable(r), past.recordKept(), !h.now.Before(timeout):
		p.decide(r, actionCallFailed)
	default:
		p.unexplained = append(p.unexplained, r)
		p.requeueBy(timeout)
		h.ask(p, r, actionLookUp, past.exitAskedAt(), askExitedAgainAfter)
	}
}

// exitAskedAt returns when GitHub was last asked about a runner since it exited, zero for never.
func (past *runnerHistory) exitAskedAt() time.Time {
	if past.askedAt.Before(past.exitedAt) {
		return time.Time{}
	}
	return past.askedAt
}

// recordRemoved reports whether GitHub has the runner's record no more, and was not asked to remove it.
func (past *runnerHistory) recordRemoved() bool {
	return (past.missingByName || past.gone) && past.removedAt.IsZero()
}

// recordKept reports whether GitHub has the runner's record so long after its exit that it did not have a job.
func (past *runnerHistory) recordKept() bool {
	return !past.registeredAt.Before(past.exitedAt.Add(removalLag))
}

// failedAt returns when a runner that is now known to have failed did so.
func (past *runnerHistory) failedAt(now time.Time) time.Time {
	if past.exitedAt.IsZero() {
		return now
	}
	return past.exitedAt
}

// failuresAtWorst returns the failures as they are if no runner that is unexplained had a job. The number of creations follows
// from them: the place of such a runner is free at once, and yet a wrong image makes no more pods than it does once GitHub has
// answered.
func (h *history) failuresAtWorst(p *plan) runnerFailures {
	failures := h.failures
	exited := slices.Concat(p.those(actionCallFailed), p.unexplained)
	slices.SortStableFunc(exited, func(a, b *runnerView) int { return h.historyOf(a).exitedAt.Compare(h.historyOf(b).exitedAt) })
	for _, r := range exited {
		failures.failed(r, h.historyOf(r).exitedAt)
	}
	return failures
}
