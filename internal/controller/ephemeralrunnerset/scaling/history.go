package scaling

import (
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/cancellations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/figures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/versions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

const (
	// Within completionWindow after its report a completion may still be in the figures twice.
	completionWindow = 10 * time.Second
	// GitHub may take removalLag to remove the record of a runner that had a job; usually it takes tens of seconds. A
	// record that still exists then belongs to a runner that never got a job.
	removalLag = time.Minute
	// The cache may take deletionSeenTimeout to show that a runner was deleted.
	deletionSeenTimeout = 30 * time.Second
	// The end of a runner may be seen up to cancellationLag before the cancellation of its job: reports of both come
	// within a second or two, and wait only while the listener does not listen.
	cancellationLag = 30 * time.Second
	// A runner ends or hangs because of a cancellation within cancellationEffect: as long as GitHub counts on a runner
	// without a sign of life.
	cancellationEffect = 10 * time.Minute
	// Within passedOverGrace GitHub has given the jobs that wait to the runners that listen: the others hang.
	passedOverGrace = 2 * time.Second
)

// History has the facts of the past that one set's plan needs and no object records: when things were first seen, and
// GitHub's answers. Only the set's own reconcile uses it, one pass at a time.
type History struct {
	// now is the time of the pass, and passes is its number.
	now    time.Time
	passes int

	// configURL, patchID, departing and jobWaits are those of the latest pass; at patchSeenAt the patchID was first
	// seen.
	configURL   roster.ConfigURL
	patchID     int
	patchSeenAt time.Time
	departing   map[types.UID]departures.Departure
	jobWaits    []jobpods.Wait
	unbound     map[string]string

	runners map[types.UID]*runnerHistory
	// deleted holds the deletion times of runners that a stale cache may still show as live.
	deleted map[types.UID]time.Time

	// Since surplus[i] there have been more than i surplus runners.
	surplus demand.Surplus
	// pace counts the runners that were started of late.
	pace demand.Pace
	// Since jobsWaitSince there have been more assigned jobs than runners with a job, zero if there are not.
	jobsWaitSince time.Time
	// completions are the times within the last completionWindow at which a completion was first seen.
	completions []time.Time
	// starts are the times within it at which a job was first seen to run. started counts all of them, and wasted the
	// runners that were surplus before they had a job.
	starts          []time.Time
	started, wasted int
	doubt           figures.Doubt
	// cancellations are of jobs that no runner had.
	cancellations cancellations.Memory
	// Until limitedUntil GitHub limits the questions.
	limitedUntil time.Time

	versions versions.Seen
	failures runnerFailures
	// Creations are the runners that were requested and are not seen yet.
	Creations *creations.Memory
}

// Seen is what a pass sees of a set.
type Seen struct {
	Now time.Time
	// Runners are those that the watch shows, oldest first.
	Runners []*roster.Runner
	PatchID int
	// CanceledJobs counts the jobs that were ever cancelled before a runner had them.
	CanceledJobs int
	// Template is the hash of the template from which runners are created.
	Template string
	// ConfigURL is the address at which the set registers runners. Runners created before it changed are registered
	// elsewhere.
	ConfigURL roster.ConfigURL
	// Departing has the runners on nodes that are about to go away.
	Departing map[types.UID]departures.Departure
	// JobWaits are the pods of the runners' jobs that have been unable to run for a while.
	JobWaits []jobpods.Wait
	// Unbound has what Events say about the claims of runners whose pods wait for volumes, by the runners' names.
	Unbound  map[string]string
	Versions versions.Seen
	// Proven is the proof that a template works, as the set's status has it; nil if there is none.
	Proven *v1alpha1.ProvenTemplate
}

// runnerHistory is the memory of one runner.
type runnerHistory struct {
	seenAt      time.Time // first seen
	upAt        time.Time // first seen running in its present pod
	upBefore    time.Time // its creation, if it was up when it was first seen
	endedAt     time.Time // first seen ended; when it failed, if another manager saw that
	exitedAt    time.Time // first seen exited with code 0 without a known job, and with its slot free
	startedAt   time.Time // its job first seen reported as started or completed
	completedAt time.Time // its job first seen reported as completed
	// At registeredSince its present registration was first seen or, if the runner had one when it was first seen, the
	// runner was created.
	registeredSince time.Time

	// The question and the answers are about this registration. They are dropped when another one replaces it.
	registrationID int
	question       *pool.Last[registrations.Answer]
	registrations.Answers

	// At passedOverAt it was seen to hang: jobs wait, and it doesn't get one.
	passedOverAt time.Time

	wasted     bool // it was surplus before it had a job
	excused    bool // the job that it may have been meant for was cancelled
	counted    bool // its failure has been counted
	worked     bool // its job has been seen; the report may come after the runner was counted as a failure
	seenInPass int  // number of the last pass that saw it
}

// New returns the history of a set of which nothing is known yet, with the account of its requested runners.
func New(c *creations.Memory) *History {
	return &History{runners: map[types.UID]*runnerHistory{}, deleted: map[types.UID]time.Time{}, Creations: c}
}

// historyOf returns the record of the runner, an empty one if Remember has not seen it.
func (h *History) historyOf(r *roster.Runner) *runnerHistory {
	if past, known := h.runners[r.UID]; known {
		return past
	}
	return &runnerHistory{}
}

// recordKept reports whether GitHub still had the runner's record so long after its exit that the runner can't have had
// a job.
func (past *runnerHistory) recordKept() bool {
	return !past.RegisteredAt.Before(past.exitedAt.Add(removalLag))
}

// failedAt returns the time at which a runner that is now known to have failed did so.
func (past *runnerHistory) failedAt(now time.Time) time.Time {
	if past.exitedAt.IsZero() {
		return now
	}
	return past.exitedAt
}

// believe takes a proof that the template works from the set's status, unless it is of another template, or of a time to
// come: whoever may write the status may deceive the set alone, but not for ever.
func (f *runnerFailures) believe(proof *v1alpha1.ProvenTemplate, now time.Time) {
	if proof != nil && proof.Hash == f.template && !proof.At.After(now) {
		f.provenAt = kube.LaterOf(f.provenAt, proof.At.Time)
	}
}

// Remember adds what this pass sees for the first time, and forgets the runners that are gone.
func (h *History) Remember(s Seen) {
	now, runners := s.Now, s.Runners
	if h.patchSeenAt.IsZero() || s.PatchID != h.patchID {
		h.patchSeenAt = now
	}
	h.unbound = s.Unbound
	h.now, h.patchID, h.configURL, h.departing, h.jobWaits = now, s.PatchID, s.ConfigURL, s.Departing, s.JobWaits
	h.versions = s.Versions
	h.passes++
	h.cancellations.Note(s.CanceledJobs, now)
	if h.failures.template != s.Template { // the cause of the failures may be gone
		h.failures = runnerFailures{template: s.Template, lastWorkerCreatedAt: h.failures.lastWorkerCreatedAt}
	}
	h.failures.believe(s.Proven, now)
	for _, r := range runners {
		past, known := h.runners[r.UID]
		if !known {
			past = &runnerHistory{
				seenAt:          now,
				registrationID:  r.RegistrationID,
				registeredSince: r.CreatedAt,
				question:        &pool.Last[registrations.Answer]{},
			}
			if r.FailedAt.Before(now) {
				// before this manager began; one that is kept as evidence must not hold a slot again
				past.endedAt = r.FailedAt
			}
			if r.Up() {
				past.upBefore = r.CreatedAt
			}
			if r.Arrival == 0 { // of an earlier manager, which counted it, or somebody else's
				h.pace.Start(1, r.CreatedAt, now)
			}
			h.runners[r.UID] = past
		}
		past.seenInPass = h.passes
		if past.registrationID != r.RegistrationID {
			past.registrationID, past.registeredSince = r.RegistrationID, now
			past.question, past.Answers = &pool.Last[registrations.Answer]{}, registrations.Answers{}
		}
		h.rememberRunner(r, past)
	}
	for uid, past := range h.runners {
		if len(h.runners) == len(runners) {
			break // nobody is gone, or the last one has been found
		}
		if past.seenInPass != h.passes {
			delete(h.runners, uid)
		}
	}
	old := func(t time.Time) bool { return now.Sub(t) >= completionWindow }
	h.completions, h.starts = slices.DeleteFunc(h.completions, old), slices.DeleteFunc(h.starts, old)
}

func (h *History) rememberRunner(r *roster.Runner, past *runnerHistory) {
	switch {
	case r.Up():
		kube.SetIfZero(&past.upAt, h.now)
	case r.Ended():
		kube.SetIfZero(&past.endedAt, h.now)
	default:
		past.upAt, past.upBefore = time.Time{}, time.Time{}
	}
	if r.HadJob && kube.SetIfZero(&past.startedAt, h.now) {
		h.starts, h.started = append(h.starts, h.now), h.started+1
	}
	if r.Completed && kube.SetIfZero(&past.completedAt, h.now) {
		h.completions = append(h.completions, h.now)
	}
	if r.ExitedIdle() {
		// its slot is free at once: the figure that comes with a cancellation doesn't count the job
		h.excuse(past, past.endedAt.Add(-cancellationEffect), past.endedAt.Add(cancellationLag))
		if h.endCounted(past) {
			kube.SetIfZero(&past.exitedAt, h.now)
		}
	}
	h.rememberPassedOver(r, past)
	h.countOutcome(r, past)
}

// rememberPassedOver remembers that a runner hangs with a job that was cancelled. That is only seen when jobs wait: it
// gets none, and a job was cancelled since it has been up or, when it has been up for provenGrace, since it has existed.
// It may have been up with the job before that was seen; and by then a job that it did get would have been reported. One
// that was surplus goes as such.
func (h *History) rememberPassedOver(r *roster.Runner, past *runnerHistory) {
	switch {
	case r.HadJob || !r.Up():
		past.passedOverAt = time.Time{}
	case !past.passedOverAt.IsZero() || past.wasted || h.slotOf(r) != slotWaiting:
	case h.jobsWaitSince.IsZero() || h.now.Before(h.passedOverDue(h.jobsWaitSince)):
	case h.excuse(past, kube.LaterOf(h.upSince(past), h.now.Add(-cancellationEffect)), h.now):
		past.passedOverAt = h.now
	}
}

// upSince returns the time since which a runner that is up may have had a job, zero for all its time.
func (h *History) upSince(past *runnerHistory) time.Time {
	if h.now.Before(past.upAt.Add(provenGrace)) {
		return past.upAt
	}
	return time.Time{}
}

// excuse reports whether it is nobody's fault that a runner has no job, because one was cancelled between two moments
// at which there was the runner.
func (h *History) excuse(past *runnerHistory, from, to time.Time) bool {
	if !past.excused {
		past.excused = h.cancellations.Take(kube.LaterOf(past.seenAt, from), to)
	}
	return past.excused
}

// passedOverDue returns the time at which it is known which of the idle runners hang, zero if none is suspected to.
func (h *History) passedOverDue(jobsWaitSince time.Time) time.Time {
	latest := h.cancellations.Latest()
	if latest.IsZero() || jobsWaitSince.IsZero() {
		return time.Time{}
	}
	return kube.LaterOf(jobsWaitSince, latest).Add(passedOverGrace)
}

// RememberAnswers records what GitHub has answered since the last pass. It returns the number of questions that got no
// answer, and why the last one did not.
func (h *History) RememberAnswers(runners []*roster.Runner) (failed int, cause error) {
	for _, r := range runners {
		past := h.historyOf(r)
		if past.AskedAt.IsZero() {
			continue
		}
		call, answered := past.question.Take()
		if !answered {
			continue
		}
		h.rememberAnswer(r, call)
		if call.Err != nil {
			failed, cause = failed+1, call.Err
		}
	}
	return failed, cause
}

// rememberAnswer records GitHub's answer about a runner, which may be that it had a job, or the error of the question.
func (h *History) rememberAnswer(r *roster.Runner, call pool.Call[registrations.Answer]) {
	past := h.historyOf(r)
	past.Remember(call, h.now)
	if limited, ok := errors.AsType[*actions.RateLimitedError](call.Err); ok {
		h.limitedUntil = kube.LaterOf(h.limitedUntil, limited.Until)
	}
	h.rememberPassedOver(r, past) // the answer may have changed its slot
	h.countOutcome(r, past)
}

// countOutcome counts, a single time for each runner, that it failed without a job, is outdated, or got a job. A
// failure of a runner that is already being deleted does not count: it was not wanted, and says nothing about the
// runners that replace it.
func (h *History) countOutcome(r *roster.Runner, past *runnerHistory) {
	switch {
	case past.worked || h.oldTemplate(r):
	case r.HadJob, r.ExitedIdle() && past.RecordRemoved():
		past.worked = true
		f := &h.failures
		*f = runnerFailures{template: f.template, provenAt: kube.LaterOf(f.provenAt, r.CreatedAt),
			lastWorkerCreatedAt: kube.LaterOf(f.lastWorkerCreatedAt, r.CreatedAt)}
	case past.counted, r.FailedIdle() && r.Deleting:
	case r.FailedIdle(), r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		past.counted = true
		h.failures.failed(r, past.failedAt(h.now))
	}
}

// oldTemplate reports whether the runner was created from another template than the present one. A runner that ARC
// created does not show its template and counts as current, unless it is registered elsewhere: taking over from ARC
// removes no runner.
func (h *History) oldTemplate(r *roster.Runner) bool {
	return h.registeredElsewhere(r) || (r.Template != "" && r.Template != h.failures.template)
}

// registeredElsewhere reports whether the set's GitHub does not know the runner, because the set's address has changed
// since it was created.
func (h *History) registeredElsewhere(r *roster.Runner) bool { return r.ConfigURL != h.configURL }

// superseded reports whether it no longer matters how the runner ended: its template is an old one, or a later runner
// took a job.
func (h *History) superseded(r *roster.Runner) bool {
	return h.oldTemplate(r) || r.CreatedAt.Before(h.failures.lastWorkerCreatedAt)
}

// RememberDeleted remembers that a runner was deleted just now.
func (h *History) RememberDeleted(runner types.UID, now time.Time) { h.deleted[runner] = now }

// WithoutRecentlyDeleted leaves out the runners whose deletion the cache may not show yet.
func (h *History) WithoutRecentlyDeleted(runners []*roster.Runner, now time.Time) []*roster.Runner {
	maps.DeleteFunc(h.deleted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= deletionSeenTimeout })
	var remaining []*roster.Runner
	for _, r := range runners {
		if _, deleted := h.deleted[r.UID]; !deleted {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// CountStarts counts new runners that are being created, beside the repeated ones.
func (h *History) CountStarts(n int) { h.pace.Start(max(0, n), h.now, h.now) }
