package ephemeralrunnerset

import (
	"slices"
	"time"
)

const (
	// removalLag is how long GitHub may take to remove the record of a runner that had a job; usually it takes tens of
	// seconds. A record that still exists then belongs to a runner that never got a job.
	removalLag = time.Minute
	// askExitedAgainAfter is the pause between two questions about such a runner: the third one decides.
	askExitedAgainAfter = removalLag / 2
	// explanationTimeout is how long to wait for GitHub's answer before the runner counts as one without a job. A set with a
	// wrong image must say so even if GitHub can never be asked about a runner.
	explanationTimeout = 15 * time.Minute
)

// planExited finds out whether a runner that exited with code 0 had a job that nobody has reported, because the report is
// late or GitHub sends only figures. GitHub removes the record of a runner after its job, and keeps the record of a runner
// that had none.
func (h *history) planExited(p *plan, r *runnerView, past *runnerHistory) {
	timeout := past.exitedAt.Add(explanationTimeout)
	switch {
	case past.recordRemoved(), !past.removedAt.IsZero(), h.superseded(r):
		p.decide(r, actionDelete)
	case !h.askable(r), past.recordKept(), !h.now.Before(timeout):
		p.decide(r, actionMarkFailed)
	default:
		p.unexplained = append(p.unexplained, r)
		p.requeueBy(timeout)
		h.ask(p, r, actionLookUp, past.exitAskedAt(), askExitedAgainAfter)
	}
}

// exitAskedAt returns when GitHub was last asked about a runner after it exited, zero if it was not.
func (past *runnerHistory) exitAskedAt() time.Time {
	if past.askedAt.Before(past.exitedAt) {
		return time.Time{}
	}
	return past.askedAt
}

// recordRemoved reports whether GitHub no longer has the runner's record although nobody asked to remove it.
func (past *runnerHistory) recordRemoved() bool {
	return (past.missingByName || past.gone) && past.removedAt.IsZero()
}

// recordKept reports whether GitHub still had the runner's record so long after its exit that the runner can't have had a
// job.
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

// failuresAtWorst returns the failures as if no unexplained runner had had a job. They limit creations: the slot of such a
// runner is free at once, and yet a wrong image creates no more pods than it would if GitHub had already answered.
func (h *history) failuresAtWorst(p *plan) runnerFailures {
	failures := h.failures
	exited := slices.Concat(p.with(actionMarkFailed), p.unexplained)
	slices.SortStableFunc(exited, func(a, b *runnerView) int { return h.historyOf(a).exitedAt.Compare(h.historyOf(b).exitedAt) })
	for _, r := range exited {
		failures.failed(r, h.historyOf(r).exitedAt)
	}
	return failures
}
