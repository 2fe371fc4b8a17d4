package ephemeralrunnerset

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// history is what one set's plan needs to know of the past and no object records: when things were first seen, and what
// GitHub answered. Only the set's own reconcile uses it, one pass at a time.
type history struct {
	// now is the time of the pass, and passes is its number.
	now    time.Time
	passes int

	// configURL is where the set registers runners. Runners created before it changed are registered elsewhere.
	configURL configURL

	// patchID is the newest one seen and patchSeenAt when it was first seen.
	patchID     int
	patchSeenAt time.Time

	runners map[types.UID]*runnerHistory

	// jobWaits are the pods of the runners' jobs that have been unable to run for a while.
	jobWaits []jobWait

	// surplus[i] is when there began to be more than i surplus runners.
	surplus []time.Time
	// jobsWaitSince is since when there have been more assigned jobs than runners with a job, zero if there are not.
	jobsWaitSince time.Time
	// completions are the times within the last completionWindow at which a completion was first seen.
	completions []time.Time
	// starts are the times within it at which a job was first seen to run. started counts all of them, and wasted the runners that
	// were surplus before they had a job.
	starts          []time.Time
	started, wasted int
	doubt           doubt
	// limitedUntil is until when GitHub limits how often it is asked.
	limitedUntil time.Time

	failures  runnerFailures
	creations creations

	// departing has the runners on nodes that are about to go away.
	departing map[types.UID]departure
}

// runnerHistory is what the controller remembers of one runner.
type runnerHistory struct {
	upAt        time.Time // first seen running in its present pod
	endedAt     time.Time // first seen ended; when it failed, if another manager saw that
	exitedAt    time.Time // first seen exited with code 0 without a known job, and with its slot free
	startedAt   time.Time // its job first seen reported as started or completed
	completedAt time.Time // its job first seen reported as completed
	// registeredSince is when its present registration was first seen or, if the runner had one when it was first seen, when the
	// runner was created.
	registeredSince time.Time

	// The answers are about this registration. They are dropped when another one replaces it.
	registrationID int
	answers

	wasted     bool // it was surplus before it had a job
	counted    bool // its failure has been counted
	worked     bool // its job has been noted; the report may come after the runner was counted as a failure
	seenInPass int  // number of the last pass that saw it
}

// answers are what GitHub has answered about a registration, and when it was asked.
type answers struct {
	busy      bool      // GitHub refused to remove it because it has a job
	removedAt time.Time // when GitHub first said that it has removed the runner or knows no such runner

	removing      bool      // GitHub was asked to remove it, and has not answered yet
	askedAt       time.Time // when GitHub was last asked about it
	retryAt       time.Time // when to ask again after a question that got no answer
	failures      int       // questions in a row that got no answer
	missingSince  time.Time // when the first of an unbroken row of "not registered" answers came
	missingByName bool      // GitHub itself said so, by the name of its exception
	gone          bool      // two answers, far enough apart, said that it is not registered
	// registeredAt is when the latest question was asked that GitHub answered with "registered".
	registeredAt time.Time
}

// registration identifies one registration of a runner on GitHub. A runner that loses its pod before it had a job gets
// another one.
type registration struct {
	runner types.UID
	id     int
}

func newHistory(c creations) *history {
	return &history{runners: map[types.UID]*runnerHistory{}, creations: c}
}

// historyOf returns what is remembered of the runner, an empty record if note has not seen it.
func (h *history) historyOf(r *runnerView) *runnerHistory {
	if past, known := h.runners[r.uid]; known {
		return past
	}
	return &runnerHistory{}
}

// follow stores the clocks and the doubt that the plan decided on, and counts its victims.
func (h *history) follow(p *plan) {
	h.surplus, h.jobsWaitSince, h.doubt = p.surplus, p.jobsWaitSince, p.doubt
	for _, r := range p.victims {
		if past := h.historyOf(r); !past.wasted {
			past.wasted = true
			h.wasted++
		}
	}
}

// note adds what this pass sees for the first time, and forgets the runners that are gone. It returns the registrations that
// are over: their runners are gone or have another one.
func (h *history) note(runners []*runnerView, patchID int, specHash string, now time.Time) (over []registration) {
	if h.patchSeenAt.IsZero() || patchID != h.patchID {
		h.patchSeenAt = now
	}
	h.now, h.patchID = now, patchID
	h.failures.forTemplate(specHash)
	h.passes++
	for _, r := range runners {
		past, known := h.runners[r.uid]
		if !known {
			past = &runnerHistory{registrationID: r.registrationID, registeredSince: r.createdAt}
			if r.failedAt.Before(now) {
				past.endedAt = r.failedAt // before this manager began; one that is kept as evidence must not hold a slot again
			}
			h.runners[r.uid] = past
		}
		past.seenInPass = h.passes
		if past.registrationID != r.registrationID {
			over = append(over, registration{r.uid, past.registrationID})
			past.registrationID, past.registeredSince, past.answers = r.registrationID, now, answers{}
		}
		h.noteRunner(r, past)
	}
	for uid, past := range h.runners {
		if len(h.runners) == len(runners) {
			break // nobody is gone, or the last one has been found
		}
		if past.seenInPass != h.passes {
			over = append(over, registration{uid, past.registrationID})
			delete(h.runners, uid)
		}
	}
	old := func(t time.Time) bool { return now.Sub(t) >= completionWindow }
	h.completions, h.starts = slices.DeleteFunc(h.completions, old), slices.DeleteFunc(h.starts, old)
	return over
}

func (h *history) noteRunner(r *runnerView, past *runnerHistory) {
	switch {
	case r.up():
		kube.SetIfZero(&past.upAt, h.now)
	case r.ended():
		kube.SetIfZero(&past.endedAt, h.now)
	default:
		past.upAt = time.Time{}
	}
	if r.hadJob && kube.SetIfZero(&past.startedAt, h.now) {
		h.starts, h.started = append(h.starts, h.now), h.started+1
	}
	if r.completed && kube.SetIfZero(&past.completedAt, h.now) {
		h.completions = append(h.completions, h.now)
	}
	if r.exitedIdle() && h.slotOf(r) == slotFree {
		kube.SetIfZero(&past.exitedAt, h.now)
	}
	h.noteOutcome(r, past)
}

// noteAnswer records GitHub's answer about a runner, which may be that it had a job, or the error of the question.
func (h *history) noteAnswer(r *runnerView, call pool.Call[answer]) {
	past := h.historyOf(r)
	past.note(call, h.now)
	if limited, is := errors.AsType[*actions.RateLimitedError](call.Err); is {
		h.limitedUntil = kube.LaterOf(h.limitedUntil, limited.Until)
	}
	h.noteOutcome(r, past)
}

// noteOutcome counts, once for each runner, that it failed without a job, is outdated, or got a job. A failure of a runner
// that is already being deleted does not count: it was not wanted, and says nothing about the runners that replace it.
func (h *history) noteOutcome(r *runnerView, past *runnerHistory) {
	switch {
	case past.worked || h.oldTemplate(r):
	case r.hadJob, r.exitedIdle() && past.recordRemoved():
		past.worked = true
		h.failures.tookJob(r)
	case past.counted, r.failedIdle() && r.deleting:
	case r.failedIdle():
		past.counted = true
		h.failures.failed(r, past.failedAt(h.now))
	case r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		past.counted = true
		h.failures.outdated(r, h.now)
	}
}

// oldTemplate reports whether the runner was created from another template than the present one. A runner that ARC created
// does not show its template and counts as current, unless it is registered elsewhere: taking over from ARC removes no
// runner.
func (h *history) oldTemplate(r *runnerView) bool {
	return h.registeredElsewhere(r) || r.template != "" && r.template != h.failures.template
}

// registeredElsewhere reports whether the set's GitHub does not know the runner, because the set's address has changed since
// it was created.
func (h *history) registeredElsewhere(r *runnerView) bool { return r.configURL != h.configURL }
