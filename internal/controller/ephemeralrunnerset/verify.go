package ephemeralrunnerset

import (
	"cmp"
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// idlePatience is how long a runner may be up without a job while the listener's figure says that jobs are waiting.
	idlePatience = 30 * time.Second
	// askAgainAfter is the pause between two questions about the same runner. askMissingAgainAfter is the pause after the
	// first answer that it is not registered: the service takes some seconds to show a new registration everywhere.
	askAgainAfter        = time.Minute
	askMissingAgainAfter = 15 * time.Second
	// askWorkingPeriod is how often to ask about a runner with a job, in case it has ended and the report was lost.
	askWorkingPeriod = 10 * time.Minute
	// lingerPatience is how long a pod may live on after its job was reported completed.
	lingerPatience = time.Minute
)

// planVerification plans questions to GitHub about runners whose reports, which can get lost, contradict or may contradict
// what is seen.
func (h *history) planVerification(p *plan, runners []*runnerView, want demand) {
	p.jobsWaitSince = h.whenJobsBeganToWait(p, want)
	for _, r := range runners {
		past := h.historyOf(r)
		if r.deleting || r.ended() || past.gone || !past.removedAt.IsZero() {
			continue // nothing more to find out
		}
		switch {
		case !h.askable(r):
			h.removeUnaskable(p, r)
		case r.completed:
			h.ask(p, r, actionDeregister, kube.LaterOf(past.completedAt, past.askedAt), lingerPatience)
		case h.slotOf(r) == slotWorking:
			h.ask(p, r, actionLookUp, kube.LaterOf(past.upAt, past.askedAt), h.pauseAfter(past, askWorkingPeriod))
		case !p.jobsWaitSince.IsZero() && r.up():
			h.verifyIdle(p, r, want)
		}
	}
}

// whenJobsBeganToWait returns since when the listener's figure has had more assigned jobs than runners are known to have one,
// by a report or by GitHub's answer. It returns zero if no job is waiting.
func (h *history) whenJobsBeganToWait(p *plan, want demand) time.Time {
	if want.assignedJobs <= p.tally.working {
		return time.Time{}
	}
	return cmp.Or(h.jobsWaitSince, h.now)
}

// askable reports whether the set's GitHub can be asked about the runner.
func (h *history) askable(r *runnerView) bool {
	return r.registrationID != 0 && !h.registeredElsewhere(r)
}

// removeUnaskable deletes a runner whose pod lives on after its job was reported completed, or one that has worked for long
// at another address, from which reports no longer come. Its own finalization asks at the right address, and waits if the
// runner does have a job.
func (h *history) removeUnaskable(p *plan, r *runnerView) {
	switch past := h.historyOf(r); {
	case r.completed:
		h.decideAt(p, r, actionDelete, past.completedAt.Add(lingerPatience))
	case h.registeredElsewhere(r) && h.slotOf(r) == slotWorking:
		h.decideAt(p, r, actionDelete, past.upAt.Add(askWorkingPeriod))
	}
}

// verifyIdle asks about a runner that is up without a job while jobs wait. What counts is how long both have been true: a
// minRunners runner that was idle for hours gets the first job that comes, and must not be asked about because of its age.
func (h *history) verifyIdle(p *plan, r *runnerView, want demand) {
	past := h.historyOf(r)
	passedOverSince := kube.LaterOf(past.upAt, p.jobsWaitSince)
	if !h.now.Before(passedOverSince.Add(want.registrationTimeout)) {
		// So long without a job means that it never listened for one, whatever its registration says.
		h.ask(p, r, actionDeregister, past.askedAt, askAgainAfter)
		return
	}
	due := kube.LaterOf(passedOverSince.Add(idlePatience), past.askedAt.Add(h.pauseAfter(past, askAgainAfter)))
	h.ask(p, r, actionLookUp, due, 0)
}

// pauseAfter returns how long to wait after the last question: the usual pause, or a short one if the answer was that the
// runner is not registered.
func (h *history) pauseAfter(past *runnerHistory, usual time.Duration) time.Duration {
	if !past.missingSince.IsZero() {
		return askMissingAgainAfter
	}
	return usual
}

// ask decides on a question once the pause since the last one is over, and the pause that GitHub asked for.
func (h *history) ask(p *plan, r *runnerView, question action, last time.Time, pause time.Duration) {
	h.decideAt(p, r, question, kube.LaterOf(last.Add(pause), h.historyOf(r).retryAt))
}

// decideAt decides on an action if it is due; otherwise it has the set planned again when it is.
func (h *history) decideAt(p *plan, r *runnerView, what action, due time.Time) {
	if h.now.Before(due) {
		p.requeueBy(due)
		return
	}
	p.decide(r, what)
}
