package ephemeralrunnerset

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/figures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// maxCreatesPerPass is how many runners one pass creates: eight rounds of kube.MaxParallelism requests, a second or two.
	// The next pass continues. So an absurd minRunners costs no memory here, and can be noticed and corrected while the set
	// grows.
	maxCreatesPerPass = 1000
	// completionWindow is how long after its report a completion may still be in the figures twice.
	completionWindow = 10 * time.Second
	// defaultRegistrationTimeout is how long a runner may be up without a job while jobs wait, unless the set says otherwise.
	defaultRegistrationTimeout = 10 * time.Minute
	// defaultFailedHistoryLimit is how many runners that failed without a job are kept for inspection, unless the set says
	// otherwise, and maxFailedHistoryAge is for how long.
	defaultFailedHistoryLimit = 3
	maxFailedHistoryAge       = time.Hour
)

// demand is what the set's spec asks for.
type demand struct {
	replicas, assignedJobs, minRunners, maxRunners int
	failedHistoryLimit                             int
	registrationTimeout                            time.Duration
}

// demandOf returns what the spec asks for, within ceiling, the manager's limit on the runners of each set; 0 means none. The numbers
// are the listener's, but anybody with rights in the namespace may write them: out of range, a sum of them would overflow, and a
// negative count would be a surplus of as many runners.
func demandOf(spec *v1alpha1.EphemeralRunnerSetSpec, ceiling int) demand {
	inRange := func(n int) int { return min(max(n, 0), v1alpha1.MaxRunnersUnlimited) }
	d := demand{
		replicas: inRange(spec.Replicas), assignedJobs: inRange(spec.AssignedJobs),
		maxRunners: v1alpha1.MaxRunnersUnlimited, failedHistoryLimit: defaultFailedHistoryLimit,
		registrationTimeout: defaultRegistrationTimeout,
	}
	if timeout := spec.EphemeralRunnerSpec.RegistrationTimeout; timeout != nil {
		d.registrationTimeout = timeout.Duration
	}
	if spec.MaxRunners != nil {
		d.maxRunners = inRange(*spec.MaxRunners)
	}
	if ceiling > 0 {
		d.maxRunners = min(d.maxRunners, ceiling)
	}
	if spec.FailedHistoryLimit != nil {
		d.failedHistoryLimit = *spec.FailedHistoryLimit
	}
	return d
}

// within returns the demand as far as the AutoscalingRunnerSet allows it: the runner set's own limits may be from before a change, or
// from somebody else.
func (want demand) within(origin *v1alpha1.AutoscalingRunnerSetSpec) demand {
	want.minRunners = min(max(origin.EffectiveMinRunners(), 0), v1alpha1.MaxRunnersUnlimited)
	if most := origin.MaxRunners; most != nil {
		want.maxRunners = min(want.maxRunners, max(*most, 0))
	}
	return want
}

// plan is what one pass has decided to do.
type plan struct {
	// tally counts what the set has.
	tally tally
	// repeat is how many of the unanswered creations to try again, create is how many more runners to create.
	repeat, create int
	// surplus is the new history.surplus: one clock for each surplus runner.
	surplus []time.Time
	// victims are the surplus runners that are removed.
	victims []*roster.Runner
	// jobsWaitSince is the new history.jobsWaitSince, doubt the new history.doubt.
	jobsWaitSince time.Time
	doubt         figures.Doubt
	// wanted is how many runners there are to be, without the surplus ones that are kept because of the doubt.
	wanted, kept int
	// decided holds what to do about runners, and order lists these runners in the order of the decisions.
	decided map[*roster.Runner]action
	order   []*roster.Runner
	// unexplained are the runners that exited with code 0 and about which GitHub has yet to say whether they had a job.
	unexplained []*roster.Runner
	// moved are the runners that leave a node which is about to go away.
	moved []*roster.Runner
	// requeueAt is when to plan again even if nothing changes; zero is never.
	requeueAt time.Time
}

// requeueBy has the set planned again at t at the latest; zero is never.
func (p *plan) requeueBy(t time.Time) { p.requeueAt = kube.EarlierOf(p.requeueAt, t) }

// wantsRunners reports whether there are runners to create, now or when the pause after a failure is over.
func (p *plan) wantsRunners() bool { return p.repeat+p.create > 0 }

// action is what to do about a runner.
type action int

const (
	actionNone action = iota
	// actionDelete: delete it without asking GitHub. GitHub has answered already, there is nothing to ask, or the runner's
	// own finalization asks.
	actionDelete
	// actionDeleteUnregistered: it was not registered when last seen; delete it only if nobody has written to it since.
	actionDeleteUnregistered
	// actionDeregister: ask GitHub to remove it; it is deleted once GitHub has agreed.
	actionDeregister
	// actionLookUp: ask GitHub whether it is registered.
	actionLookUp
	// actionMarkFailed: it exited with code 0 without ever having had a job; set its phase to Failed.
	actionMarkFailed
)

// removes reports whether the action removes the runner.
func (a action) removes() bool {
	return a == actionDelete || a == actionDeleteUnregistered || a == actionDeregister
}

// decide plans one action for a runner. The first decision stands, with one exception: a removal replaces the question
// whether the runner is registered.
func (p *plan) decide(r *roster.Runner, what action) {
	if p.decided == nil {
		p.decided = map[*roster.Runner]action{}
	}
	switch before := p.decided[r]; {
	case before == actionNone:
		p.order = append(p.order, r)
	case before != actionLookUp || !what.removes():
		return
	}
	p.decided[r] = what
}

// with returns the runners for which that action was decided.
func (p *plan) with(what action) (runners []*roster.Runner) {
	for _, r := range p.order {
		if p.decided[r] == what {
			runners = append(runners, r)
		}
	}
	return runners
}

// plan decides what to do.
func (h *history) plan(runners []*roster.Runner, want demand, out creations.Unseen) *plan {
	p := &plan{tally: h.tally(runners)}
	want = h.planDoubt(p, runners, want)
	h.planRelease(p, runners)
	h.planFailedHistory(p, runners, want.failedHistoryLimit)
	h.planLostHistory(p, runners)
	h.planReplacement(p, runners)
	h.planDeparture(p, runners)
	h.planVerification(p, runners, want)
	h.planCreation(p, want, out)
	h.planSurplus(p, runners, out.Expected-out.Uncertain)
	h.planProbe(p, runners, out)
	return p
}

// planCreation fills up to replicas, within maxRunners and what earlier failures allow. It repeats unanswered creations
// first, as far as their runners are still wanted.
func (h *history) planCreation(p *plan, want demand, out creations.Unseen) {
	t := &p.tally
	missing := want.replicas - t.waiting - t.working - t.held - out.Expected
	room := want.maxRunners - t.notEnded - out.Expected - out.Beside
	failures := h.failuresAtWorst(p)
	if room >= 0 { // otherwise there would be too many runners if all that may exist do exist
		p.repeat = p.allowed(failures, h.now, min(out.Uncertain, missing+out.Uncertain), out.Expected-out.Uncertain)
	}
	if p.repeat < out.Uncertain {
		p.requeueBy(h.now.Add(creations.LongestAwayPause)) // by then the others have been seen, or are no longer expected
	}
	p.create = p.allowed(failures, h.now, min(missing, room), out.Expected)
	if most := maxCreatesPerPass - p.repeat; p.create > most {
		p.create = most
		if h.creations.Allowed(h.now) { // otherwise nothing is created now that the next pass could continue
			p.requeueBy(h.now)
		}
	}
	p.requeueBy(h.creations.PausedUntil(h.now))
}

// allowed returns how many of the wanted runners may be created, given the failures of earlier ones. expected is how many are
// under way but not seen yet.
func (p *plan) allowed(failures runnerFailures, now time.Time, wanted, expected int) int {
	t := &p.tally
	unproven := t.starting + t.justUp + t.justExited
	if failures.isOutdated() {
		unproven = t.waiting + t.justExited // a runner is up for seconds before GitHub refuses it
	}
	allowed, due := failures.allows(max(0, wanted), unproven+expected, now)
	p.requeueBy(due)
	if failures.isDegraded() && wanted > allowed {
		p.requeueBy(t.provenAt)
	}
	return allowed
}

// planSurplus picks a victim for each surplus clock that has run out. Expected runners that may not exist don't count, or a
// real one would be removed in their place.
func (h *history) planSurplus(p *plan, runners []*roster.Runner, expected int) {
	t := &p.tally
	p.surplus = surplusClocks(h.surplus, max(0, t.waiting+t.working+expected-p.wanted-len(h.completions)), h.now)
	due := -p.kept
	for _, since := range p.surplus {
		expiry := since.Add(figures.SurplusPatience)
		if h.now.Before(expiry) {
			p.requeueBy(expiry)
		} else if !h.patchSeenAt.Before(expiry) {
			due++
		}
	}
	h.pickVictims(p, runners, due)
}

// surplusClocks returns one clock for each of n surplus runners, oldest first. If more clocks are running, the youngest are
// dropped; if fewer, new ones start now.
func surplusClocks(running []time.Time, n int, now time.Time) []time.Time {
	clocks := slices.Clone(running[:min(n, len(running))]) // a copy, because a plan changes nothing
	for len(clocks) < n {
		clocks = append(clocks, now)
	}
	return clocks
}

// pickVictims removes as many waiting runners as are due. Runners that are removed for another reason count as well, and so
// do runners about which GitHub has yet to say whether it removes them. The best victims come first, the oldest first among
// equals; a runner with a job is never among them.
func (h *history) pickVictims(p *plan, runners []*roster.Runner, due int) {
	if due <= 0 {
		return
	}
	var removable []*roster.Runner
	for _, r := range runners {
		switch {
		case h.slotOf(r) != slotWaiting:
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
func (h *history) planRemoval(p *plan, r *roster.Runner) {
	switch {
	case r.RegistrationID == 0:
		p.decide(r, actionDeleteUnregistered)
	case h.registeredElsewhere(r):
		p.decide(r, actionDelete)
	default:
		h.decideAt(p, r, actionDeregister, h.questionsAllowedAt(r))
	}
}

// planReplacement removes runners of an old template that have no job; runners with a job finish it.
func (h *history) planReplacement(p *plan, runners []*roster.Runner) {
	for _, r := range runners {
		if h.oldTemplate(r) && h.slotOf(r) == slotWaiting {
			h.planRemoval(p, r)
		}
	}
}

// planRelease deletes ended runners whose slot is free, and runners that GitHub has agreed to remove.
func (h *history) planRelease(p *plan, runners []*roster.Runner) {
	for _, r := range runners {
		past := h.historyOf(r)
		switch {
		case r.FailedIdle() || r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.Ended() && h.slotOf(r) == slotHeld:
			h.planHeld(p, r, past) // even if it is being deleted: somebody may keep its pod, and so its slot, for long
		case r.Deleting, r.Lost():
		case r.Alive():
			if past.Unregistered() {
				p.decide(r, actionDelete)
			}
		case r.ExitedIdle() && !past.Busy:
			h.planExited(p, r, past)
		default:
			p.decide(r, actionDelete)
		}
	}
}

// planHeld asks GitHub to remove a runner that failed: it agrees once it has given up the runner's job.
func (h *history) planHeld(p *plan, r *roster.Runner, past *runnerHistory) {
	if r.Completed || r.Phase == v1alpha1.EphemeralRunnerPhaseFailed {
		p.requeueBy(past.endedAt.Add(heldTimeout))
	}
	if r.Phase != v1alpha1.EphemeralRunnerPhaseFailed {
		return // a later patchID releases it
	}
	if past.RemovedAt.IsZero() && h.askable(r) {
		h.ask(p, r, actionDeregister, past.AskedAt, askAgainAfter)
	}
}

// planDeparture removes runners without a job from nodes that are about to go away, so that no job starts there: GitHub is asked first
// about those that are registered. Others take their places, on other nodes.
func (h *history) planDeparture(p *plan, runners []*roster.Runner) {
	if len(h.departing) == 0 {
		return
	}
	for _, r := range runners {
		if departure, leaving := h.departing[r.UID]; leaving && departure.Moves(r) && h.slotOf(r) == slotWaiting {
			h.planRemoval(p, r)
			p.moved = append(p.moved, r)
		}
	}
}

// createLimit returns how many of the planned runners to create now.
func (h *history) createLimit(p *plan) int {
	if !h.creations.Allowed(h.now) {
		return 0
	}
	return p.repeat + p.create
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

// failuresAtWorst returns the failures as if no unexplained runner had had a job. They limit creations: the slot of such a
// runner is free at once, and yet a wrong image creates no more pods than it would if GitHub had already answered.
func (h *history) failuresAtWorst(p *plan) runnerFailures {
	failures := h.failures
	exited := slices.Concat(p.with(actionMarkFailed), p.unexplained)
	slices.SortStableFunc(exited, func(a, b *roster.Runner) int { return h.historyOf(a).exitedAt.Compare(h.historyOf(b).exitedAt) })
	for _, r := range exited {
		failures.failed(r, h.historyOf(r).exitedAt)
	}
	return failures
}
