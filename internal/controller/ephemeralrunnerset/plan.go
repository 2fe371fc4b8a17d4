package ephemeralrunnerset

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// surplusPatience is how long a runner has to be too many before it is removed. Job assignment and figures travel
	// by different ways and differ for seconds; a runner removed too early is a job that waits for a new pod.
	surplusPatience = 30 * time.Second
	// createAtMost is how many runners one pass makes: eight rounds of kube.MaxParallelism requests, a second or two. The next
	// pass goes on, so that an absurd minRunners costs no memory here and is seen, and mended, while it grows.
	createAtMost = 1000
	// completionWindow: a completion that was reported this recently may be in the figures twice.
	completionWindow = 10 * time.Second
	// defaultRegistrationTimeout is how long a runner may be up without a job while jobs wait.
	defaultRegistrationTimeout = 10 * time.Minute
	// defaultFailedHistory is how many runners that failed without a job are kept to look at, and historyAge how long.
	defaultFailedHistory = 3
	historyAge           = time.Hour
	// expectedAtMost is how long a runner that was created may stay unseen. Watches deliver within seconds; one that is
	// later was deleted again before it was seen.
	expectedAtMost = time.Minute
)

// demand is what the set's spec asks for.
type demand struct {
	replicas, assignedJobs, maxRunners int
	failedHistory                      int
	registrationTimeout                time.Duration
}

func demandOf(spec *v1alpha1.EphemeralRunnerSetSpec) demand {
	d := demand{
		replicas: spec.Replicas, assignedJobs: spec.AssignedJobs,
		maxRunners: v1alpha1.MaxRunnersUnlimited, failedHistory: defaultFailedHistory,
		registrationTimeout: defaultRegistrationTimeout,
	}
	if timeout := spec.EphemeralRunnerSpec.RegistrationTimeout; timeout != nil {
		d.registrationTimeout = timeout.Duration
	}
	if spec.MaxRunners != nil {
		d.maxRunners = *spec.MaxRunners
	}
	if spec.FailedHistoryLimit != nil {
		d.failedHistory = *spec.FailedHistoryLimit
	}
	return d
}

// plan is what one pass decided to do.
type plan struct {
	// tally is what the set has.
	tally tally
	// create is how many runners to make.
	create int
	// drop are runners to delete without asking: GitHub has nothing to say about them any more, or their own
	// finalization asks.
	drop []*runner
	// dropUnseen are runners that were not registered when they were seen, to be deleted only if that is still so.
	dropUnseen []*runner
	// remove are runners that GitHub is asked to remove; they are deleted when it has agreed.
	remove []*runner
	// lookUp are runners about which GitHub is asked whether they are registered.
	lookUp []*runner
	// exitedIdle are runners that ended well without ever having had a job.
	exitedIdle []*runner
	// again is when to plan anew even if nothing changes; zero means never.
	again time.Time
}

// wake makes sure that the set is planned anew at t; zero is never.
func (p *plan) wake(t time.Time) { p.again = kube.EarlierOf(p.again, t) }

// plan decides. expected is how many runners were created that are not among those seen. All that it changes are the
// memory's clocks of surplus; see windSurplus.
func (m *memory) plan(runners []*runner, want demand, expected int) *plan {
	p := &plan{tally: m.tally(runners)}
	m.planRelease(p, runners)
	m.planHistory(p, runners, want.failedHistory)
	m.planReplacement(p, runners)
	m.planDoubt(p, runners, want)
	m.planCreation(p, want, expected)
	m.planSurplus(p, runners, want, expected)
	return p
}

// planCreation fills up to replicas, within maxRunners and what trouble allows.
func (m *memory) planCreation(p *plan, want demand, expected int) {
	t := &p.tally
	// Runners that exited without a job are about to count as failures, which may forbid to replace them.
	missing := want.replicas - t.waiting - t.working - t.held - expected - len(p.exitedIdle)
	room := want.maxRunners - t.notEnded - expected
	unproven := t.starting
	if m.trouble.isOutdated() {
		unproven = t.waiting // it is up for seconds before GitHub refuses it
	}
	var due time.Time
	p.create, due = m.trouble.allows(max(0, min(missing, room)), unproven+expected, m.now)
	p.wake(due)
	if p.create > createAtMost {
		p.create = createAtMost
		if !m.closed && !m.now.Before(m.createAfter) { // otherwise nothing is made now, and there is nothing to go on with
			p.wake(m.now)
		}
	}
}

// planSurplus picks a victim for each clock of surplus that has run out.
func (m *memory) planSurplus(p *plan, runners []*runner, want demand, expected int) {
	t := &p.tally
	m.windSurplus(max(0, t.waiting+t.working+expected-want.replicas-len(m.completions)))
	due := 0
	for _, since := range m.surplus {
		expiry := since.Add(surplusPatience)
		if m.now.Before(expiry) {
			p.wake(expiry)
		} else if !m.patchSeen.Before(expiry) {
			due++
		}
	}
	m.pickVictims(p, runners, due)
}

// windSurplus keeps one clock for each runner that is too many: new ones start now, and where there are fewer those that
// started last are stopped.
func (m *memory) windSurplus(surplus int) {
	m.surplus = m.surplus[:min(surplus, len(m.surplus))]
	for len(m.surplus) < surplus {
		m.surplus = append(m.surplus, m.now)
	}
}

// pickVictims spares as many runners as are due, those counted that go for another reason.
func (m *memory) pickVictims(p *plan, runners []*runner, due int) {
	if due == 0 {
		return
	}
	going := p.going()
	for r := range going {
		if m.slotOf(r) == slotWaiting {
			due--
		}
	}
	for _, r := range m.candidates(going, runners) {
		if due <= 0 {
			return
		}
		m.spare(p, r)
		due--
	}
}

// candidates returns the runners that can be spared, best first: not registered yet, registered but not up, idle; each
// oldest first. One with a job is never among them.
func (m *memory) candidates(going map[*runner]bool, runners []*runner) []*runner {
	var spare []*runner
	for _, r := range runners {
		if m.slotOf(r) == slotWaiting && !going[r] {
			spare = append(spare, r)
		}
	}
	slices.SortStableFunc(spare, func(a, b *runner) int { return rank(a) - rank(b) })
	return spare
}

// going returns the runners that the plan gets rid of so far.
func (p *plan) going() map[*runner]bool {
	going := make(map[*runner]bool, len(p.drop)+len(p.dropUnseen)+len(p.remove))
	for _, runners := range [][]*runner{p.drop, p.dropUnseen, p.remove} {
		for _, r := range runners {
			going[r] = true
		}
	}
	return going
}

func rank(r *runner) int {
	switch {
	case r.registration == 0:
		return 0
	case !r.up():
		return 1
	default:
		return 2
	}
}

// spare gets rid of a runner without a job: by GitHub's leave where it is registered. Elsewhere its own finalization asks
// for that.
func (m *memory) spare(p *plan, r *runner) {
	switch {
	case r.registration == 0:
		p.dropUnseen = append(p.dropUnseen, r)
	case m.elsewhere(r):
		p.drop = append(p.drop, r)
	default:
		m.pick(p, &p.remove, r, m.past(r).retry)
	}
}

// planReplacement gets rid of runners of an old template that have no job; those with one finish.
func (m *memory) planReplacement(p *plan, runners []*runner) {
	going := p.going()
	for _, r := range runners {
		if m.oldTemplate(r) && m.slotOf(r) == slotWaiting && !going[r] {
			m.spare(p, r)
		}
	}
}

// planRelease deletes runners that ended and whose slot is free, and those GitHub has agreed to remove.
func (m *memory) planRelease(p *plan, runners []*runner) {
	for _, r := range runners {
		past := m.past(r)
		switch {
		case r.deleting || r.failedIdle() || r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.alive():
			if !past.removed.IsZero() || past.lost {
				p.drop = append(p.drop, r)
			}
		case m.slotOf(r) == slotHeld:
			m.planHeld(p, r, past)
		case r.exitedIdle() && !past.busy:
			p.exitedIdle = append(p.exitedIdle, r)
		default:
			p.drop = append(p.drop, r)
		}
	}
}

// planHeld finds out whether GitHub has let go of a failed runner.
func (m *memory) planHeld(p *plan, r *runner, past *past) {
	if r.phase != v1alpha1.EphemeralRunnerPhaseFailed {
		return // the next patchID releases it
	}
	p.wake(past.ended.Add(heldAtMost))
	if past.removed.IsZero() && m.askable(r) {
		m.ask(p, &p.remove, r, past.asked, askAgain)
	}
}

// planHistory keeps the newest runners that failed without a job, until a later runner takes a job or they are too old,
// and the newest outdated one, which is what the set's being outdated is known by after a restart.
func (m *memory) planHistory(p *plan, runners []*runner, limit int) {
	room := map[v1alpha1.EphemeralRunnerPhase]int{
		v1alpha1.EphemeralRunnerPhaseFailed: limit, v1alpha1.EphemeralRunnerPhaseOutdated: 1,
	}
	for _, r := range slices.Backward(runners) {
		if r.deleting || !r.failedIdle() && r.phase != v1alpha1.EphemeralRunnerPhaseOutdated {
			continue
		}
		if room[r.phase] == 0 || m.obsolete(p, r) {
			p.drop = append(p.drop, r)
			continue
		}
		room[r.phase]--
	}
}

// obsolete says that a failed runner has nothing to tell any more.
func (m *memory) obsolete(p *plan, r *runner) bool {
	if m.oldTemplate(r) || r.created.Before(m.trouble.lastWorking) {
		return true
	}
	if r.phase == v1alpha1.EphemeralRunnerPhaseOutdated {
		return false
	}
	expiry := m.past(r).ended.Add(historyAge)
	if !m.now.Before(expiry) {
		return true
	}
	p.wake(expiry)
	return false
}
