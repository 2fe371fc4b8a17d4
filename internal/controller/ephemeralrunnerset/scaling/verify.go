package scaling

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/figures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
)

const (
	// A runner may be up without a job for idleGrace while the listener's figure says that jobs are waiting.
	idleGrace = 30 * time.Second
	// askAgainInterval is the shortest pause between two questions about the same runner, but for
	// registrations.MissingGrace.
	askAgainInterval = time.Minute
	// A runner with a job is asked about every askWorkingInterval, in case it has ended and the report was lost.
	askWorkingInterval = 10 * time.Minute
	// A runner without a job is asked about every askIdleInterval, in case its registration is gone: 50 times a minute
	// for 500 idle runners.
	askIdleInterval = 10 * time.Minute
	// newRegistrationAge is the age up to which a registration needs no question.
	newRegistrationAge = time.Minute
	// A pod may live on for lingerGrace after its job was reported completed.
	lingerGrace = time.Minute
	// askExitedInterval is the pause between two questions about a runner that exited without a known job: the third
	// one decides.
	askExitedInterval = removalLag / 2
	// If GitHub has not answered within explanationTimeout, the runner counts as one without a job. A set with a wrong
	// image must say so even if GitHub can never be asked about a runner.
	explanationTimeout = 15 * time.Minute
)

// planVerification plans questions to GitHub about runners whose reports contradict the observed state, or may. Reports
// can get lost.
func (h *History) planVerification(p *Plan, runners []*roster.Runner, want Demand) {
	// The listener's figure, without doubted jobs, has more assigned jobs than there are runners known to have one, by a
	// report or GitHub's answer.
	if want.assignedJobs-p.doubt.Jobs > p.Tally.working {
		p.jobsWaitSince = cmp.Or(h.jobsWaitSince, h.now)
	}
	for _, r := range runners {
		past := h.historyOf(r)
		if r.Deleting || r.Ended() || past.Gone || !past.RemovedAt.IsZero() {
			continue // nothing more to find out
		}
		switch {
		case !h.askable(r):
			h.removeUnaskable(p, r)
		case r.Completed:
			h.ask(p, r, Deregister, kube.LaterOf(past.completedAt, past.AskedAt), lingerGrace)
		case past.Busy && past.excused && !r.HadJob: // GitHub still counts on the job that was cancelled
			h.ask(p, r, Deregister, past.AskedAt, askAgainInterval)
		case h.slotOf(r) == slotWorking:
			pause := askWorkingInterval
			if !past.MissingSince.IsZero() {
				pause = registrations.MissingGrace
			}
			h.ask(p, r, LookUp, kube.LaterOf(past.upAt, past.AskedAt), pause)
		case r.Up():
			h.verifyIdle(p, r)
		}
	}
}

// Subject describes the runner to whoever asks GitHub about it.
func (h *History) Subject(r *roster.Runner) registrations.Subject {
	return registrations.Subject{
		Question:     h.historyOf(r).question,
		Registration: registrations.Registration{Runner: r.UID, ID: r.RegistrationID}, Name: r.Name,
		HasJob: !r.Completed && (h.slotOf(r) == slotWorking || h.historyOf(r).Busy), Ended: r.Ended(), Own: r.Arrival != 0,
	}
}

// RememberAsked remembers that GitHub has been asked about the runner, perhaps to remove it.
func (h *History) RememberAsked(r *roster.Runner, removal bool) {
	past := h.historyOf(r)
	past.AskedAt, past.Removing = h.now, past.Removing || removal
}

// askable reports whether the set's GitHub can be asked about the runner.
func (h *History) askable(r *roster.Runner) bool {
	return r.RegistrationID != 0 && !h.registeredElsewhere(r)
}

// removeUnaskable deletes a runner whose pod lives on after its job was reported completed. It also deletes one that
// has worked for long at another address, from which reports no longer come. Its own finalization asks at the right
// address, and waits if the runner does have a job.
func (h *History) removeUnaskable(p *Plan, r *roster.Runner) {
	switch past := h.historyOf(r); {
	case r.Completed:
		h.decideAt(p, r, Delete, past.completedAt.Add(lingerGrace))
	case h.registeredElsewhere(r) && h.slotOf(r) == slotWorking:
		h.decideAt(p, r, Delete, past.upAt.Add(askWorkingInterval))
	}
}

// verifyIdle asks about a runner that is up without a job: in its turn, or while jobs wait after idleGrace and then in
// intervals that double. Only the time counts during which both have been true: a minRunners runner that was idle for
// hours gets the first job that comes, and must not be asked about because of its age.
func (h *History) verifyIdle(p *Plan, r *roster.Runner) {
	past := h.historyOf(r)
	if !past.MissingSince.IsZero() {
		h.ask(p, r, LookUp, past.AskedAt, registrations.MissingGrace)
		return
	}
	due := h.idleTurn(r)
	if !p.jobsWaitSince.IsZero() {
		passedOverSince := kube.LaterOf(past.upAt, p.jobsWaitSince)
		pause := min(max(past.AskedAt.Sub(passedOverSince), askAgainInterval), askIdleInterval)
		due = kube.EarlierOf(due, kube.LaterOf(passedOverSince.Add(idleGrace), past.AskedAt.Add(pause)))
	}
	h.ask(p, r, LookUp, due, 0)
}

// idleTurn returns the time to ask about an idle runner although no job waits: one askIdleInterval after the last
// question, or at the runner's own moment within that period. These moments are spread evenly, whenever runners came up
// or the manager was restarted. Questions that GitHub's limit holds up are not all asked when it ends.
func (h *History) idleTurn(r *roster.Runner) time.Time {
	past := h.historyOf(r)
	due := past.AskedAt.Add(askIdleInterval)
	if past.AskedAt.IsZero() {
		due = nextTurn(r.UID, kube.LaterOf(past.upAt, past.registeredSince.Add(newRegistrationAge)))
	}
	if due.Before(h.limitedUntil) {
		return nextTurn(r.UID, h.limitedUntil)
	}
	return due
}

// nextTurn returns the runner's next moment after t.
func nextTurn(uid types.UID, t time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	turn := t.Truncate(askIdleInterval).Add(time.Duration(hash.Sum64() % uint64(askIdleInterval)))
	if !turn.After(t) {
		turn = turn.Add(askIdleInterval)
	}
	return turn
}

// ask decides on a question when the pause since the last one is over, and the pause that GitHub asked for.
func (h *History) ask(p *Plan, r *roster.Runner, question Action, last time.Time, pause time.Duration) {
	h.decideAt(p, r, question, kube.LaterOf(last.Add(pause), h.questionsAllowedAt(r)))
}

// questionsAllowedAt returns the time before which nothing may be asked about the runner, because the last question
// about it got no answer or GitHub limits all of them.
func (h *History) questionsAllowedAt(r *roster.Runner) time.Time {
	return kube.LaterOf(h.historyOf(r).RetryAt, h.limitedUntil)
}

// decideAt decides on an action if it is due; otherwise it has the set planned again when it is.
func (h *History) decideAt(p *Plan, r *roster.Runner, what Action, due time.Time) {
	if h.now.Before(due) {
		p.requeueBy(due)
		return
	}
	p.decide(r, what)
}

// A job is doubted after it has waited beside an idle runner for doubtGrace.
func (want Demand) doubtGrace() time.Duration { return max(want.registrationTimeout, idleGrace) }

// planDoubt judges the figures, and lowers the demand by the jobs that are doubted.
func (h *History) planDoubt(p *Plan, runners []*roster.Runner, want Demand) Demand {
	t, grace := &p.Tally, want.doubtGrace()
	seen := figures.Evidence{
		Waiting: max(0, want.assignedJobs-t.working-t.held), Starting: len(h.starts), Started: h.started,
		Wasted: h.wasted,
		Limits: figures.Limits{MinRunners: want.minRunners, MaxRunners: want.maxRunners},
	}
	for _, r := range runners {
		if !h.waitsHealthily(r) {
			continue
		}
		if proven := h.historyOf(r).upAt.Add(idleGrace); !h.now.Before(proven) {
			seen.Idle++
		} else if seen.Waiting > 0 {
			p.requeueBy(proven)
		}
	}
	var due time.Time
	p.doubt, due = h.doubt.Next(seen, grace, h.now)
	p.requeueBy(due)
	if len(h.starts) > 0 && seen.Waiting > 0 {
		p.requeueBy(h.starts[0].Add(completionWindow))
	}
	if known := t.working + t.held; want.minRunners == 0 && known < want.maxRunners &&
		(p.doubt.Jobs > 0 || p.doubt.KeepsOne(grace, h.now)) {
		p.kept = 1
	}
	p.wanted = want.replicas
	if p.doubt.Jobs == 0 {
		return want
	}
	// The jobs that are believed are left to the idle runners of minRunners as far as these suffice. If such jobs have
	// come to nothing again and again, runners are created for them only when none is idle any more.
	known, believed := t.working+t.held, max(0, seen.Waiting-p.doubt.Jobs)
	if p.doubt.Again(h.started) && seen.Idle > 0 {
		believed = min(believed, seen.Idle)
	}
	p.wanted = min(want.replicas, known+max(want.minRunners, believed))
	want.replicas = min(want.replicas, max(p.wanted, known+p.kept))
	return want
}

// waitsHealthily reports whether a runner is up and could take a job, as far as is known.
func (h *History) waitsHealthily(r *roster.Runner) bool {
	past := h.historyOf(r)
	return r.Up() && h.slotOf(r) == slotWaiting && !r.Deleting && h.askable(r) &&
		past.MissingSince.IsZero() && past.RemovedAt.IsZero() && !past.Gone && !past.Removing
}

// planProbe replaces one of the idle runners, with GitHub's consent, unless one is new enough: doubted jobs may be real
// and the runners hang. GitHub may also answer that a runner has a job, whose report was lost.
func (h *History) planProbe(p *Plan, runners []*roster.Runner, out creations.Unseen) {
	if p.doubt.Jobs == 0 || p.wantsRunners() || out.Expected > 0 || len(p.surplus) > p.kept {
		return
	}
	isNew := func(r *roster.Runner) bool {
		past := h.historyOf(r)
		return h.slotOf(r) == slotWaiting &&
			(!r.Up() || !past.upAt.Before(p.doubt.ProbeSince) || past.Removing || p.decided[r].removes())
	}
	if slices.ContainsFunc(runners, isNew) {
		return
	}
	if i := slices.IndexFunc(runners, h.waitsHealthily); i >= 0 {
		h.decideAt(p, runners[i], Deregister, h.questionsAllowedAt(runners[i]))
	}
}

// planExited finds out whether a runner that exited with code 0 had a job that nobody has reported, because the report
// is late or GitHub sends only figures. GitHub removes the record of a runner after its job, and keeps the record of a
// runner that had none.
func (h *History) planExited(p *Plan, r *roster.Runner, past *runnerHistory) {
	timeout := past.exitedAt.Add(explanationTimeout)
	// a version that can't have had a job needs no pause beyond what GitHub may take for its record
	refused := !past.RegisteredAt.Before(past.endedAt.Add(removalLag)) && h.versions.Refused(r, h.now)
	switch {
	case past.exitedAt.IsZero(): // a job of it may be reported yet; a newer figure shows that none will be
	case past.RecordRemoved(), !past.RemovedAt.IsZero(), h.superseded(r), past.excused:
		p.decide(r, Delete)
	case !h.askable(r), past.recordKept(), refused, !h.now.Before(timeout):
		p.decide(r, MarkFailed)
	default:
		p.unexplained = append(p.unexplained, r)
		p.requeueBy(timeout)
		asked := past.AskedAt
		if asked.Before(past.exitedAt) {
			asked = time.Time{} // not yet about its exit
		}
		h.ask(p, r, LookUp, asked, askExitedInterval)
	}
}

// ExitedIdleVerdict says what is known of the job of a runner that is marked as failed.
func (h *History) ExitedIdleVerdict(r *roster.Runner) registrations.Answer {
	switch {
	case h.versions.Refused(r, h.now):
		return registrations.VersionRefused
	case h.historyOf(r).recordKept():
		return registrations.NoJob
	}
	return registrations.NoKnownJob
}

// A runner that has been starting for longer than startsLate says nothing about the others: it waits for something of its
// own, such as its volume's zone.
const startsLate = v1alpha1.DefaultPendingTimeout

// planAge replaces the idle runner that has been idle for longest, if that is too long, with GitHub's consent. Only
// when nothing else is going on, so that they go one by one.
func (h *History) planAge(p *Plan, runners []*roster.Runner, out creations.Unseen, most time.Duration) {
	if most <= 0 {
		return
	}
	settled := !p.wantsRunners() && out.Expected == 0 && len(p.surplus) <= p.kept && h.onlyLateStarts(p, runners) &&
		p.doubt.Jobs == 0
	var idle []*roster.Runner
	var since []time.Time
	for _, r := range runners {
		if h.slotOf(r) == slotWaiting && (h.historyOf(r).Removing || p.decided[r].removes()) {
			settled = false // one is on its way already
		}
		if h.waitsHealthily(r) && !r.Standalone {
			idle, since = append(idle, r), append(since, h.idleSince(r))
		}
	}
	index, found, next := demand.TooOld(since, settled, most, h.now)
	p.requeueBy(next)
	if found {
		h.planRemoval(p, idle[index])
	}
}

// onlyLateStarts reports whether no runner is starting but those that a later one has overtaken, and one that is late: a
// second one would be the place of a replaced runner, which may not start either.
func (h *History) onlyLateStarts(p *Plan, runners []*roster.Runner) bool {
	if p.Tally.Starting == 0 {
		return true
	}
	var youngestUp time.Time
	for _, r := range runners {
		if r.Up() {
			youngestUp = kube.LaterOf(youngestUp, r.CreatedAt)
		}
	}
	late := 0
	for _, r := range runners {
		if h.slotOf(r) != slotWaiting || r.Up() || r.CreatedAt.Before(youngestUp) {
			continue
		}
		if due := r.CreatedAt.Add(startsLate); h.now.Before(due) {
			p.requeueBy(due)
			return false
		}
		late++
	}
	return late <= 1
}

// idleSince returns the time since which a runner without a job has been up, or its creation if it was up before this
// manager began.
func (h *History) idleSince(r *roster.Runner) time.Time {
	past := h.historyOf(r)
	return cmp.Or(past.upBefore, past.upAt)
}

// planPassedOver asks GitHub to remove runners that hang: as soon as others need their room, else after idleGrace. So
// many more runners are wanted than there is room for as lacking says.
func (h *History) planPassedOver(p *Plan, runners []*roster.Runner, lacking int) {
	if due := h.passedOverDue(p.jobsWaitSince); !due.IsZero() {
		if h.now.Before(due) {
			p.requeueBy(due)
		}
		p.requeueBy(p.Tally.provenAt)
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
