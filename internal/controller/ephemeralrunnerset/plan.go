package ephemeralrunnerset

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// surplusPatience is how long there has to be a runner too many before one is removed. Job assignment and figures travel
	// by different ways and differ for seconds; a runner that is removed too early is a job that waits for a new pod.
	surplusPatience = 30 * time.Second
	// maxCreatesPerPass is how many runners one pass creates: eight rounds of kube.MaxParallelism requests, a second or two.
	// The next pass goes on, so that an absurd minRunners costs no memory here, and is seen, and corrected, while the set
	// grows.
	maxCreatesPerPass = 1000
	// completionWindow: a completion that was reported this recently may be in the figures twice.
	completionWindow = 10 * time.Second
	// defaultRegistrationTimeout is how long a runner may be up without a job while jobs wait, unless the set says otherwise.
	defaultRegistrationTimeout = 10 * time.Minute
	// defaultFailedHistoryLimit is how many runners that failed without a job are kept to look at, unless the set says
	// otherwise, and maxFailedHistoryAge for how long.
	defaultFailedHistoryLimit = 3
	maxFailedHistoryAge       = time.Hour
)

// demand is what the set's spec asks for.
type demand struct {
	replicas, assignedJobs, maxRunners int
	failedHistoryLimit                 int
	registrationTimeout                time.Duration
}

func demandOf(spec *v1alpha1.EphemeralRunnerSetSpec) demand {
	d := demand{
		replicas: spec.Replicas, assignedJobs: spec.AssignedJobs,
		maxRunners: v1alpha1.MaxRunnersUnlimited, failedHistoryLimit: defaultFailedHistoryLimit,
		registrationTimeout: defaultRegistrationTimeout,
	}
	if timeout := spec.EphemeralRunnerSpec.RegistrationTimeout; timeout != nil {
		d.registrationTimeout = timeout.Duration
	}
	if spec.MaxRunners != nil {
		d.maxRunners = *spec.MaxRunners
	}
	if spec.FailedHistoryLimit != nil {
		d.failedHistoryLimit = *spec.FailedHistoryLimit
	}
	return d
}

// plan is what one pass has decided to do.
type plan struct {
	// tally is what the set has.
	tally tally
	// repeat is how many of the creations without an answer to try again, create is how many more runners to create.
	repeat, create int
	// surplus are the clocks of the runners that are too many, as history.surplus is to have them.
	surplus []time.Time
	// jobsWaitSince is what history.jobsWaitSince is to be.
	jobsWaitSince time.Time
	// decided is what is to be done about runners, and order has these runners in the order of the decisions.
	decided map[*runnerView]action
	order   []*runnerView
	// unexplained are the runners that exited with code 0 of which GitHub has still to say whether they had a job.
	unexplained []*runnerView
	// requeueAt is when to plan anew even if nothing changes; zero means never.
	requeueAt time.Time
}

// requeueBy has the set planned anew at t at the latest; zero is never.
func (p *plan) requeueBy(t time.Time) { p.requeueAt = kube.EarlierOf(p.requeueAt, t) }

// wantsRunners reports whether runners are to be created, now or when the pause after a failure is over.
func (p *plan) wantsRunners() bool { return p.repeat+p.create > 0 }

// action is what is to be done about a runner.
type action int

const (
	actionNone action = iota
	// actionDelete: delete it without asking GitHub: it has answered, there is nothing to ask, or the runner's own finalization asks.
	actionDelete
	// actionDeleteUnregistered: it was not registered when it was seen; delete it only if nobody has written to it since.
	actionDeleteUnregistered
	// actionDeregister: ask GitHub to remove it; it is deleted when GitHub has agreed.
	actionDeregister
	// actionLookUp: ask GitHub whether it is registered.
	actionLookUp
	// actionCallFailed: it exited with code 0 without ever having had a job.
	actionCallFailed
)

// removes reports whether the runner is to go.
func (a action) removes() bool {
	return a == actionDelete || a == actionDeleteUnregistered || a == actionDeregister
}

// decide has something done about a runner. One thing is done in a pass: what was decided first stands, but whether a runner is
// registered need not be asked where it is to be removed.
func (p *plan) decide(r *runnerView, what action) {
	if p.decided == nil {
		p.decided = map[*runnerView]action{}
	}
	switch before := p.decided[r]; {
	case before == actionNone:
		p.order = append(p.order, r)
	case before != actionLookUp || !what.removes():
		return
	}
	p.decided[r] = what
}

// those returns the runners with which that is to be done.
func (p *plan) those(what action) (runners []*runnerView) {
	for _, r := range p.order {
		if p.decided[r] == what {
			runners = append(runners, r)
		}
	}
	return runners
}

// plan decides what to do.
func (h *history) plan(runners []*runnerView, want demand, out unseen) *plan {
	p := &plan{tally: h.tally(runners)}
	h.planRelease(p, runners)
	h.planFailedHistory(p, runners, want.failedHistoryLimit)
	h.planReplacement(p, runners)
	h.planVerification(p, runners, want)
	h.planCreation(p, want, out)
	h.planSurplus(p, runners, want, out.expected-out.uncertain)
	return p
}

// planCreation fills up to replicas, within maxRunners and what earlier failures allow. Creations without an answer are
// repeated first, as far as their runners are wanted still.
func (h *history) planCreation(p *plan, want demand, out unseen) {
	t := &p.tally
	missing := want.replicas - t.waiting - t.working - t.held - out.expected
	room := want.maxRunners - t.notEnded - out.expected
	failures := h.failuresAtWorst(p)
	if room >= 0 { // otherwise there would be too many runners if all that may exist do
		p.repeat = p.allowed(failures, h.now, min(out.uncertain, missing+out.uncertain), out.expected-out.uncertain)
	}
	if p.repeat < out.uncertain {
		p.requeueBy(h.now.Add(longestAwayPause)) // to see whether the others are there, or are not expected any more
	}
	p.create = p.allowed(failures, h.now, min(missing, room), out.expected)
	if most := maxCreatesPerPass - p.repeat; p.create > most {
		p.create = most
		if h.creations.allowed(h.now) { // otherwise nothing is created now that the next pass could go on with
			p.requeueBy(h.now)
		}
	}
	p.requeueBy(h.creations.pausedUntil(h.now))
}

// allowed returns how many of the wanted runners may be created after the failures of earlier ones. expected is how many are
// under way that nobody sees yet.
func (p *plan) allowed(failures runnerFailures, now time.Time, wanted, expected int) int {
	t := &p.tally
	unproven := t.starting + t.justUp + t.justExited
	if failures.isOutdated() {
		unproven = t.waiting + t.justExited // it is up for seconds before GitHub refuses it
	}
	allowed, due := failures.allows(max(0, wanted), unproven+expected, now)
	p.requeueBy(due)
	if failures.isDegraded() && wanted > allowed {
		p.requeueBy(t.provenAt)
	}
	return allowed
}

// planSurplus picks a victim for each clock of surplus that has run out. Expected runners that may not exist don't count, or a real
// one would be removed for them.
func (h *history) planSurplus(p *plan, runners []*runnerView, want demand, expected int) {
	t := &p.tally
	p.surplus = surplusClocks(h.surplus, max(0, t.waiting+t.working+expected-want.replicas-len(h.completions)), h.now)
	due := 0
	for _, since := range p.surplus {
		expiry := since.Add(surplusPatience)
		if h.now.Before(expiry) {
			p.requeueBy(expiry)
		} else if !h.patchSeenAt.Before(expiry) {
			due++
		}
	}
	h.pickVictims(p, runners, due)
}

// surplusClocks returns one clock for each of n runners that are too many, oldest first. Where more clocks are running those
// that started last are dropped, and where fewer are the new ones start now.
func surplusClocks(running []time.Time, n int, now time.Time) []time.Time {
	clocks := slices.Clone(running[:min(n, len(running))]) // a copy, because a plan changes nothing
	for len(clocks) < n {
		clocks = append(clocks, now)
	}
	return clocks
}

// pickVictims has as many waiting runners removed as are due, including those that are removed for another reason, and those of
// which GitHub has still to say whether it removes them. The best go first, of these the oldest; one with a job is never among them.
func (h *history) pickVictims(p *plan, runners []*runnerView, due int) {
	if due == 0 {
		return
	}
	var removable []*runnerView
	for _, r := range runners {
		switch {
		case h.slotOf(r) != slotWaiting:
		case p.decided[r].removes() || h.historyOf(r).removing:
			due--
		default:
			removable = append(removable, r)
		}
	}
	slices.SortStableFunc(removable, func(a, b *runnerView) int { return rank(a) - rank(b) })
	for _, r := range removable[:max(0, min(due, len(removable)))] {
		h.planRemoval(p, r)
	}
}

// rank orders the runners that can be removed, best first: not registered yet, registered but not up, idle.
func rank(r *runnerView) int {
	switch {
	case r.registrationID == 0:
		return 0
	case !r.up():
		return 1
	default:
		return 2
	}
}

// planRemoval plans to remove a runner without a job: with GitHub's consent where it is registered; one registered at another
// address is deleted, and its own finalization asks there.
func (h *history) planRemoval(p *plan, r *runnerView) {
	switch {
	case r.registrationID == 0:
		p.decide(r, actionDeleteUnregistered)
	case h.registeredElsewhere(r):
		p.decide(r, actionDelete)
	default:
		h.decideAt(p, r, actionDeregister, h.historyOf(r).retryAt)
	}
}

// planReplacement removes runners of an old template that have no job; those with one finish it.
func (h *history) planReplacement(p *plan, runners []*runnerView) {
	for _, r := range runners {
		if h.oldTemplate(r) && h.slotOf(r) == slotWaiting {
			h.planRemoval(p, r)
		}
	}
}

// planRelease deletes runners that ended and whose slot is free, and those GitHub has agreed to remove.
func (h *history) planRelease(p *plan, runners []*runnerView) {
	for _, r := range runners {
		past := h.historyOf(r)
		switch {
		case r.failedIdle() || r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.ended() && h.slotOf(r) == slotHeld:
			h.planHeld(p, r, past) // though it is being deleted, for its pod, and with it its slot, may be kept for long
		case r.deleting:
		case r.alive():
			if !past.removedAt.IsZero() || past.gone {
				p.decide(r, actionDelete)
			}
		case r.exitedIdle() && !past.busy:
			h.planExited(p, r, past)
		default:
			p.decide(r, actionDelete)
		}
	}
}

// planHeld finds out whether GitHub has given up the job of a runner that failed: then it agrees to remove the runner.
func (h *history) planHeld(p *plan, r *runnerView, past *runnerHistory) {
	if r.phase != v1alpha1.EphemeralRunnerPhaseFailed {
		return // a later patchID releases it
	}
	p.requeueBy(past.endedAt.Add(heldTimeout))
	if past.removedAt.IsZero() && h.askable(r) {
		h.ask(p, r, actionDeregister, past.askedAt, askAgainAfter)
	}
}

// planFailedHistory keeps the newest runners that failed without a job, until a later runner takes a job or they are too
// old, and the newest outdated one, by which it is known after a restart that the set is outdated.
func (h *history) planFailedHistory(p *plan, runners []*runnerView, limit int) {
	room := map[v1alpha1.EphemeralRunnerPhase]int{
		v1alpha1.EphemeralRunnerPhaseFailed: limit, v1alpha1.EphemeralRunnerPhaseOutdated: 1,
	}
	for _, r := range slices.Backward(runners) {
		if r.deleting || !r.failedIdle() && r.phase != v1alpha1.EphemeralRunnerPhaseOutdated {
			continue
		}
		if room[r.phase] == 0 || h.obsolete(p, r) {
			p.decide(r, actionDelete)
			continue
		}
		room[r.phase]--
	}
}

// superseded reports whether nothing follows any more from how the runner ended: its template is another, or a later runner
// took a job.
func (h *history) superseded(r *runnerView) bool {
	return h.oldTemplate(r) || r.createdAt.Before(h.failures.lastWorkerCreatedAt)
}

// obsolete reports whether a failed or outdated runner is of no more use to look at.
func (h *history) obsolete(p *plan, r *runnerView) bool {
	if h.superseded(r) {
		return true
	}
	if r.phase == v1alpha1.EphemeralRunnerPhaseOutdated {
		return false
	}
	expiry := h.historyOf(r).endedAt.Add(maxFailedHistoryAge)
	if !h.now.Before(expiry) {
		return true
	}
	p.requeueBy(expiry)
	return false
}
