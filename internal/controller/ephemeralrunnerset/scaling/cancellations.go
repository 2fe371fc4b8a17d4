package scaling

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A job that is cancelled before a runner has taken it leaves one without a job. That runner is too many, exits with
// code 0 because the job that it was given is gone, or hangs with it. This is nobody's fault, of as many runners as
// there were such jobs, and of those only that existed then. Which runner a job was meant for, nobody says. The count
// of jobs is the listener's, from GitHub's messages. Whoever may write it in the set's spec excuses his own runners.
//
// Whether a runner hangs is only seen when jobs wait: GitHub gives them to those that listen within moments. What is
// then left idle counts no longer: others are created beside it, and GitHub is asked to remove it.
const (
	// The end of a runner may be seen up to cancellationLag before the cancellation: reports of both come within a
	// second or two, and wait only while the listener does not listen.
	cancellationLag = 30 * time.Second
	// A runner ends or hangs because of a cancellation within cancellationEffect: as long as GitHub counts on a runner
	// without a sign of life.
	cancellationEffect = 10 * time.Minute
	// Within passedOverGrace GitHub has given the jobs that wait to the runners that listen.
	passedOverGrace = 2 * time.Second
	// At most cancellationsKept cancellations are remembered, for cancellationMemory: a runner that is too many may be
	// kept for hours. Those that are seen within completionWindow are one.
	cancellationsKept  = 32
	cancellationMemory = 24 * time.Hour
)

// cancellations are those that have not been set against a runner yet. The zero value counts all jobs that were ever
// cancelled as cancelled when the manager starts: the runners that it finds may be theirs.
type cancellations struct {
	total  int
	recent []cancellation // oldest first
}

type cancellation struct {
	at   time.Time
	jobs int // for which no runner has been excused
}

// note takes in the number of jobs that were ever cancelled. It is less than before if the listener or somebody else
// begins anew.
func (c *cancellations) note(total int, now time.Time) {
	more := total - c.total
	c.total = total
	c.recent = slices.DeleteFunc(c.recent, func(one cancellation) bool {
		return one.jobs == 0 || now.Sub(one.at) >= cancellationMemory
	})
	if more <= 0 {
		return
	}
	if n := len(c.recent); n > 0 && now.Sub(c.recent[n-1].at) < completionWindow {
		c.recent[n-1] = cancellation{now, c.recent[n-1].jobs + more}
		return
	}
	c.recent = append(c.recent, cancellation{now, more})
	c.recent = c.recent[max(0, len(c.recent)-cancellationsKept):]
}

// takeBetween sets a job that was cancelled between two moments against a runner. It returns false if there is none.
func (c *cancellations) takeBetween(from, to time.Time) bool {
	for i := range c.recent {
		if one := &c.recent[i]; one.jobs > 0 && !one.at.Before(from) && !one.at.After(to) {
			one.jobs--
			return true
		}
	}
	return false
}

// excuse reports whether it is nobody's fault that a runner has no job, because one was cancelled between two moments
// at which there was the runner.
func (h *History) excuse(past *runnerHistory, from, to time.Time) bool {
	if !past.excused {
		past.excused = h.cancellations.takeBetween(kube.LaterOf(past.seenAt, from), to)
	}
	return past.excused
}

// excuseExit excuses a runner that exited with code 0 and without a known job. Its slot is free at once: the figure that
// comes with the cancellation doesn't count the job.
func (h *History) excuseExit(past *runnerHistory) {
	h.excuse(past, past.endedAt.Add(-cancellationEffect), past.endedAt.Add(cancellationLag))
}

// rememberPassedOver remembers that a runner which was up when a job was cancelled has stayed idle while jobs wait, or
// that none waits any more.
func (h *History) rememberPassedOver(r *roster.Runner, past *runnerHistory) {
	switch {
	case h.jobsWaitSince.IsZero() || r.HadJob || !r.Up():
		past.passedOverAt = time.Time{}
	case !past.passedOverAt.IsZero() || h.slotOf(r) != slotWaiting:
	case h.now.Before(h.passedOverDue(h.jobsWaitSince)):
	case h.excuse(past, kube.LaterOf(past.upAt, h.now.Add(-cancellationEffect)), h.now):
		past.passedOverAt = h.now
	}
}

// passedOverDue returns the time at which it is known which of the idle runners hang, zero if none is suspected to.
func (h *History) passedOverDue(jobsWaitSince time.Time) time.Time {
	n := len(h.cancellations.recent)
	if n == 0 || jobsWaitSince.IsZero() {
		return time.Time{}
	}
	return kube.LaterOf(jobsWaitSince, h.cancellations.recent[n-1].at).Add(passedOverGrace)
}

// planPassedOver asks GitHub to remove runners that hang: as soon as others need their room, else after idleGrace. So
// many more runners are wanted than there is room for as lacking says.
func (h *History) planPassedOver(p *Plan, runners []*roster.Runner, lacking int) {
	if due := h.passedOverDue(p.jobsWaitSince); h.now.Before(due) {
		p.requeueBy(due)
	}
	for _, r := range runners {
		past := h.historyOf(r)
		if past.passedOverAt.IsZero() || r.Deleting || !h.askable(r) || past.Busy || past.Unregistered() {
			continue
		}
		due := past.passedOverAt.Add(idleGrace)
		if lacking > 0 {
			lacking, due = lacking-1, past.upAt.Add(provenGrace)
		}
		h.decideAt(p, r, Deregister, kube.LaterOf(due, h.questionsAllowedAt(r)))
	}
}
