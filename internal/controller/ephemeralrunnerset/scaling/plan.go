// Package scaling decides the number of runners of a set, which of them go and what GitHub is asked about them, and
// says why. It is pure: it writes nothing and asks nobody. History is the memory of a set between passes, Plan the
// decisions of one pass.
package scaling

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/figures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// One pass creates at most maxCreatesPerPass runners: eight rounds of kube.MaxParallelism requests, a second or
	// two. The next pass continues. So an absurd minRunners costs no memory here, and can be noticed and corrected
	// while the set grows.
	maxCreatesPerPass = 1000
	// A runner may be up without a job while jobs wait for defaultRegistrationTimeout, unless the set says otherwise.
	defaultRegistrationTimeout = 10 * time.Minute
	// The last defaultFailedHistoryLimit runners that failed without a job are kept for inspection, unless the set says
	// otherwise, for maxFailedHistoryAge at most.
	defaultFailedHistoryLimit = 3
	maxFailedHistoryAge       = time.Hour
)

// Plan has the decisions of one pass.
type Plan struct {
	// Tally counts the set's runners, and asked has the numbers of its spec.
	Tally tally
	asked Demand
	// Repeat counts the unanswered creations to try again, create the other runners to create.
	Repeat, create int
	// surplus is the new history.surplus: one clock for each surplus runner.
	surplus demand.Surplus
	// victims are the surplus runners that are removed.
	victims []*roster.Runner
	// jobsWaitSince is the new history.jobsWaitSince, doubt the new history.doubt.
	jobsWaitSince time.Time
	doubt         figures.Doubt
	// wanted is the number of runners that there are to be. kept is the number of others that stay because of the doubt.
	wanted, kept int
	// decided holds what to do about runners, and order lists these runners in the order of the decisions.
	decided map[*roster.Runner]Action
	order   []*roster.Runner
	// unexplained are the runners that exited with code 0 and about which GitHub has yet to say whether they had a job.
	unexplained []*roster.Runner
	// paced is the limit on new runners in a minute, if it holds some back.
	paced int
	// Moved are the runners that leave nodes that are about to go away.
	Moved []*roster.Runner
	// At RequeueAt the set is planned again even if nothing changes; zero means never.
	RequeueAt time.Time
}

// requeueBy has the set planned again at t at the latest; zero means never.
func (p *Plan) requeueBy(t time.Time) { p.RequeueAt = kube.EarlierOf(p.RequeueAt, t) }

// wantsRunners reports whether there are runners to create, now or when the pause after a failure is over.
func (p *Plan) wantsRunners() bool { return p.Repeat+p.create > 0 }

// Action says what to do about a runner.
type Action int

const (
	None Action = iota
	// Delete: delete it without asking GitHub. GitHub has answered already, there is nothing to ask, or the runner's
	// own finalization asks.
	Delete
	// DeleteUnregistered: it was not registered when last seen; delete it only if nobody has written to it since.
	DeleteUnregistered
	// Deregister: ask GitHub to remove it; it is deleted after GitHub has agreed.
	Deregister
	// LookUp: ask GitHub whether it is registered.
	LookUp
	// MarkFailed: it exited with code 0 without ever having had a job; its own controller is told, and sets its phase
	// to Failed, or to Outdated if GitHub refuses its version.
	MarkFailed
)

// removes reports whether the action removes the runner.
func (a Action) removes() bool {
	return a == Delete || a == DeleteUnregistered || a == Deregister
}

// decide plans one action for a runner. The first decision stands, with one exception: a removal replaces the question
// whether the runner is registered.
func (p *Plan) decide(r *roster.Runner, what Action) {
	if p.decided == nil {
		p.decided = map[*roster.Runner]Action{}
	}
	switch before := p.decided[r]; {
	case before == None:
		p.order = append(p.order, r)
	case before != LookUp || !what.removes():
		return
	}
	p.decided[r] = what
}

// With returns the runners for which that action was decided.
func (p *Plan) With(what Action) (runners []*roster.Runner) {
	for _, r := range p.order {
		if p.decided[r] == what {
			runners = append(runners, r)
		}
	}
	return runners
}

// Plan decides what to do.
func (h *History) Plan(runners []*roster.Runner, want Demand, out creations.Unseen) *Plan {
	p := &Plan{Tally: h.tally(runners)}
	asked := demand.Asked{ // from the jobs, because the listener may not know yet which numbers are in force
		Assigned: want.assignedJobs, Running: p.Tally.working, Min: want.minRunners, Max: want.inForce,
		Headroom: want.headroom,
		Drained:  want.drained, Unserved: want.unserved, Replicas: want.replicas,
	}
	want.replicas, want.minRunners = asked.Wanted(), asked.Idle()
	p.asked = want
	want = h.planDoubt(p, runners, want)
	h.planRelease(p, runners)
	h.planFailedHistory(p, runners, want.failedHistoryLimit)
	h.planLostHistory(p, runners, want.rerunsLost)
	h.planReplacement(p, runners)
	h.planDeparture(p, runners)
	h.planVerification(p, runners, want)
	lacking := h.planCreation(p, want, out)
	h.planPassedOver(p, runners, lacking)
	h.planSurplus(p, runners, out.Expected-out.Uncertain, want.scaleDownDelay)
	h.planAge(p, runners, out, want.maxIdleTime)
	h.planProbe(p, runners, out)
	return p
}

// planCreation fills up to replicas, within maxRunners and what earlier failures allow. It repeats unanswered creations
// first, as far as their runners are still wanted. It returns the number of those for which maxRunners leaves no room.
func (h *History) planCreation(p *Plan, want Demand, out creations.Unseen) (lacking int) {
	t := &p.Tally
	missing := want.replicas - t.waiting - t.working - t.held - out.Expected
	room := want.maxRunners - t.notEnded - out.Expected - out.Beside
	failures := h.failuresAtWorst(p)
	if room >= 0 { // otherwise there would be too many runners if all that may exist do exist
		p.Repeat = p.allowed(failures, h.now, min(out.Uncertain, missing+out.Uncertain), out.Expected-out.Uncertain)
	}
	if p.Repeat < out.Uncertain {
		// by then the others have been seen, or are no longer expected
		p.requeueBy(h.now.Add(creations.LongestAwayBackoff))
	}
	p.create = p.allowed(failures, h.now, min(missing, room), out.Expected)
	if room, more := h.pace.Allowed(want.startsPerMinute, h.now); p.create > room {
		// repeated ones were counted when they were first tried
		p.create, p.paced = room, want.startsPerMinute
		p.requeueBy(more)
	}
	if most := maxCreatesPerPass - p.Repeat; p.create > most {
		p.create = most
		if h.Creations.Allowed(h.now) { // otherwise nothing is created now that the next pass could continue
			p.requeueBy(h.now)
		}
	}
	p.requeueBy(h.Creations.PausedUntil(h.now))
	return missing - max(room, 0)
}

// allowed returns the number of wanted runners that may be created, with the failures of earlier ones. expected counts
// those that are under way but not seen yet.
func (p *Plan) allowed(failures runnerFailures, now time.Time, wanted, expected int) int {
	t := &p.Tally
	unproven := t.Starting + t.justUp + t.justExited
	if failures.isOutdated() {
		unproven = t.waiting + t.justExited // a runner is up for seconds before GitHub refuses it
	}
	if failures.untried > 0 {
		unproven += len(p.unexplained) // the first one is to show whether GitHub takes it
	}
	allowed, due := failures.allows(max(0, wanted), unproven+expected, now)
	p.requeueBy(due)
	if (failures.isDegraded() || failures.untried > 0) && wanted > allowed {
		p.requeueBy(t.provenAt)
	}
	return allowed
}

// planSurplus picks a victim for each surplus clock that has run out. Expected runners that may not exist don't count,
// or a real one would be removed in their place.
func (h *History) planSurplus(p *Plan, runners []*roster.Runner, expected int, delay time.Duration) {
	t := &p.Tally
	surplus := t.waiting + t.working + expected - p.wanted - len(h.completions)
	var due int
	var next time.Time
	p.surplus, due, next = h.surplus.Next(surplus, delay, h.patchSeenAt, h.now)
	p.requeueBy(next)
	h.pickVictims(p, runners, due-p.kept)
}

// pickVictims removes as many waiting runners as are due. Runners that are removed for another reason count as well,
// and so do runners about which GitHub has yet to say whether it removes them. The best victims come first, the oldest
// first among equals; a runner with a job is never among them.
func (h *History) pickVictims(p *Plan, runners []*roster.Runner, due int) {
	if due <= 0 {
		return
	}
	var removable []*roster.Runner
	for _, r := range runners {
		switch {
		case h.slotOf(r) != slotWaiting || r.Standalone:
		case p.decided[r].removes() || h.historyOf(r).Removing:
			due--
		default:
			removable = append(removable, r)
		}
	}
	slices.SortStableFunc(removable, func(a, b *roster.Runner) int { return rank(a) - rank(b) })
	p.victims = removable[:max(0, min(due, len(removable)))]
	for _, r := range p.victims {
		h.planRemoval(p, r)
	}
}

// rank orders the runners that can be removed, best first: not registered yet, registered but not up, idle.
func rank(r *roster.Runner) int {
	switch {
	case r.RegistrationID == 0:
		return 0
	case !r.Up():
		return 1
	default:
		return 2
	}
}

// planRemoval plans to remove a runner without a job: with GitHub's consent if it is registered. If it is registered at
// another address it is deleted, and its own finalization asks there.
func (h *History) planRemoval(p *Plan, r *roster.Runner) {
	switch {
	case r.RegistrationID == 0:
		p.decide(r, DeleteUnregistered)
	case h.registeredElsewhere(r):
		p.decide(r, Delete)
	default:
		h.decideAt(p, r, Deregister, h.questionsAllowedAt(r))
	}
}

// GiveWay removes a runner that can't use its claims or must not, so that another one takes its place. It returns false
// if the runner has a job, or has ended: then it stays.
func (h *History) GiveWay(p *Plan, r *roster.Runner) bool {
	waits := h.slotOf(r) == slotWaiting
	if waits {
		h.planRemoval(p, r)
	}
	return waits
}

// planReplacement removes runners of an old template that have no job; runners with a job finish it.
func (h *History) planReplacement(p *Plan, runners []*roster.Runner) {
	for _, r := range runners {
		if h.oldTemplate(r) && h.slotOf(r) == slotWaiting && !r.Standalone {
			h.planRemoval(p, r)
		}
	}
}

// planRelease deletes ended runners whose slot is free, and runners that GitHub has agreed to remove.
func (h *History) planRelease(p *Plan, runners []*roster.Runner) {
	for _, r := range runners {
		past := h.historyOf(r)
		switch {
		case r.FailedIdle() || r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.Ended() && h.slotOf(r) == slotHeld:
			h.planHeld(p, r, past) // even if it is being deleted: somebody may keep its pod, and so its slot, for long
		case r.Deleting, r.Lost():
		case r.Alive():
			if past.Unregistered() {
				p.decide(r, Delete)
			}
		case r.ExitedIdle() && !past.Busy:
			h.planExited(p, r, past)
		default:
			p.decide(r, Delete)
		}
	}
}

// planHeld asks GitHub to remove a runner that failed: it agrees when it has given up the runner's job.
func (h *History) planHeld(p *Plan, r *roster.Runner, past *runnerHistory) {
	if r.Completed || r.Phase == v1alpha1.EphemeralRunnerPhaseFailed {
		p.requeueBy(past.endedAt.Add(heldTimeout))
	}
	if r.Phase != v1alpha1.EphemeralRunnerPhaseFailed {
		return // a later patchID releases it
	}
	if past.RemovedAt.IsZero() && h.askable(r) {
		h.ask(p, r, Deregister, past.AskedAt, askAgainInterval)
	}
}

// planDeparture removes runners without a job from nodes that are about to go away, so that no job starts there: GitHub
// is asked first about those that are registered. Others take their places, on other nodes.
func (h *History) planDeparture(p *Plan, runners []*roster.Runner) {
	if len(h.departing) == 0 {
		return
	}
	for _, r := range runners {
		if departure, leaving := h.departing[r.UID]; leaving && departure.Moves(r) && h.slotOf(r) == slotWaiting {
			h.planRemoval(p, r)
			p.Moved = append(p.Moved, r)
		}
	}
}

// CreateLimit returns the number of planned runners to create now.
func (h *History) CreateLimit(p *Plan) int {
	if !h.Creations.Allowed(h.now) {
		return 0
	}
	return p.Repeat + p.create
}

// Follow stores the clocks and the doubt that the plan decided on, and counts its victims.
func (h *History) Follow(p *Plan) {
	h.surplus, h.jobsWaitSince, h.doubt = p.surplus, p.jobsWaitSince, p.doubt
	for _, r := range p.victims {
		if past := h.historyOf(r); !past.wasted {
			past.wasted = true
			if !h.excuse(past, time.Time{}, h.now) {
				h.wasted++
			}
		}
	}
}

// failuresAtWorst returns the failures as if no unexplained runner had had a job. They limit creations: the slot of
// such a runner is free immediately, and yet a wrong image creates no more pods than it would if GitHub had already
// answered.
func (h *History) failuresAtWorst(p *Plan) runnerFailures {
	failures, t := h.failures, &p.Tally
	failures.untried = h.versions.Untried(failures.provenAt, t.waiting > t.Starting+t.justUp, h.now)
	exited := slices.Concat(p.With(MarkFailed), p.unexplained)
	slices.SortStableFunc(exited, func(a, b *roster.Runner) int {
		return h.historyOf(a).exitedAt.Compare(h.historyOf(b).exitedAt)
	})
	for _, r := range exited {
		worst := *r
		if h.versions.Refused(r, h.now) && !h.versions.Proven(failures.provenAt, h.now) {
			worst.Phase = v1alpha1.EphemeralRunnerPhaseOutdated
		}
		failures.failed(&worst, h.historyOf(r).exitedAt)
	}
	return failures
}
