package ephemeralrunnerset

import (
	"cmp"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// idlePatience is how long a runner may be up without a job while the listener's figure says that jobs are waiting.
	idlePatience = 30 * time.Second
	// askAgainAfter is the shortest pause between two questions about the same runner. askMissingAgainAfter is the pause after the
	// first answer that it is not registered: the service takes some seconds to show a new registration everywhere.
	askAgainAfter        = time.Minute
	askMissingAgainAfter = 15 * time.Second
	// askWorkingPeriod is how often to ask about a runner with a job, in case it has ended and the report was lost.
	askWorkingPeriod = 10 * time.Minute
	// askIdlePeriod is how often to ask about a runner without one, in case its registration is gone: 50 times a minute for 500
	// idle runners.
	askIdlePeriod = 10 * time.Minute
	// newRegistrationAge is the age up to which a registration needs no question.
	newRegistrationAge = time.Minute
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
		case r.up():
			h.verifyIdle(p, r)
		}
	}
}

// whenJobsBeganToWait returns since when the listener's figure, without doubted jobs, has had more assigned jobs than runners are
// known to have one, by a report or by GitHub's answer. It returns zero if no job is waiting.
func (h *history) whenJobsBeganToWait(p *plan, want demand) time.Time {
	if want.assignedJobs-p.doubt.jobs <= p.tally.working {
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

// verifyIdle asks about a runner that is up without a job: in its turn, or while jobs wait after idlePatience and then in pauses that
// double. What counts is how long both have been true: a minRunners runner that was idle for hours gets the first job that comes,
// and must not be asked about because of its age.
func (h *history) verifyIdle(p *plan, r *runnerView) {
	past := h.historyOf(r)
	if !past.missingSince.IsZero() {
		h.ask(p, r, actionLookUp, past.askedAt, askMissingAgainAfter)
		return
	}
	due := h.idleTurn(r)
	if !p.jobsWaitSince.IsZero() {
		passedOverSince := kube.LaterOf(past.upAt, p.jobsWaitSince)
		pause := min(max(past.askedAt.Sub(passedOverSince), askAgainAfter), askIdlePeriod)
		due = kube.EarlierOf(due, kube.LaterOf(passedOverSince.Add(idlePatience), past.askedAt.Add(pause)))
	}
	h.ask(p, r, actionLookUp, due, 0)
}

// idleTurn returns when to ask about an idle runner although no job waits: one askIdlePeriod after the last question, or at the
// runner's own moment within that period. These moments are spread evenly, whenever runners came up or the manager was restarted.
// Questions that GitHub's limit holds up are not all asked when it ends.
func (h *history) idleTurn(r *runnerView) time.Time {
	past := h.historyOf(r)
	due := past.askedAt.Add(askIdlePeriod)
	if past.askedAt.IsZero() {
		due = nextTurn(r.uid, kube.LaterOf(past.upAt, past.registeredSince.Add(newRegistrationAge)))
	}
	if due.Before(h.limitedUntil) {
		return nextTurn(r.uid, h.limitedUntil)
	}
	return due
}

// nextTurn returns the runner's next moment after t.
func nextTurn(uid types.UID, t time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	turn := t.Truncate(askIdlePeriod).Add(time.Duration(hash.Sum64() % uint64(askIdlePeriod)))
	if !turn.After(t) {
		turn = turn.Add(askIdlePeriod)
	}
	return turn
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
	h.decideAt(p, r, question, kube.LaterOf(last.Add(pause), h.questionsAllowedAt(r)))
}

// questionsAllowedAt returns until when nothing may be asked about the runner, because the last question about it got no answer or
// GitHub limits all of them.
func (h *history) questionsAllowedAt(r *runnerView) time.Time {
	return kube.LaterOf(h.historyOf(r).retryAt, h.limitedUntil)
}

// decideAt decides on an action if it is due; otherwise it has the set planned again when it is.
func (h *history) decideAt(p *plan, r *runnerView, what action, due time.Time) {
	if h.now.Before(due) {
		p.requeueBy(due)
		return
	}
	p.decide(r, what)
}
