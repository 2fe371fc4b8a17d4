// Package figures judges the figures that GitHub gives about a scale set: the number of assigned jobs that probably do
// not exist. It is pure: the next doubt follows from the last one and from what is seen.
package figures

import (
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// GitHub's count of assigned jobs may include jobs that do not exist. No job really waits beside a runner that is
// registered and idle: GitHub gives it one within seconds. So jobs that wait beside idle runners for
// registrationTimeout are doubted: no runners are created or kept for them until the figures move. Other jobs are
// believed as before, and at least one runner is kept idle, so a job that is real after all starts immediately, and its
// start moves the figures.
//
// Whatever the figures do, they are believed anew a single time: after two disappointments as many waiting jobs are
// doubted from the start, for a time that doubles with each further one, and most of them are believed when such a job
// does start.
const (
	// If fewer jobs wait than are doubted for figuresSettleGrace, that is a move: a start or an end is in the figures
	// seconds before or after it is reported.
	figuresSettleGrace = 10 * time.Second
	// waveInterval separates waves of waste: the runners of one fall in the figures are removed within so much time.
	waveInterval = time.Minute
	// After at most believedAnew disappointments the figures are believed when they move.
	believedAnew = 1
	// After two disappointments as many jobs are doubted again for memories times registrationTimeout: an hour, unless
	// the set says otherwise.
	memories = 6
	// Disappointments are remembered for longestMemory at most. doublings bounds the doublings up to it.
	longestMemory = 24 * time.Hour
	doublings     = 10
)

// Doubt is the extent to which GitHub's figures are disbelieved. The zero value believes everything; so does a manager
// that has just started.
type Doubt struct {
	// Jobs counts the waiting jobs that are believed not to exist.
	Jobs int
	// moved is about the present period in which fewer jobs wait than are doubted: its beginning, and the number of jobs
	// that had started before.
	moved struct {
		since   time.Time
		started int
	}
	unmet unmet
	// One of the idle runners must be newer than ProbeSince: if all are older, one is replaced. probes counts the
	// changes of that in this doubt.
	ProbeSince time.Time
	probes     int
	// fruitless counts the times in a row that further jobs were doubted although no job had started since the time
	// before; started is the number of jobs that had started by then.
	fruitless, started int
	// Disappointments counts the times that waiting jobs came to nothing, the last time at disappointedAt, level is the
	// largest number of them, and peak the largest number of waiting jobs since the last wave of waste.
	Disappointments int
	disappointedAt  time.Time
	level, peak     int
	waste           waste
}

// unmet is about the present period in which jobs that are not doubted wait beside idle runners.
type unmet struct {
	since time.Time
	// pairs is the smallest number, at any moment, of pairs of a waiting job and an idle runner; waiting is that of
	// waiting jobs.
	pairs, waiting int
	// started is the number of jobs that had started before.
	started int
	// lastAt is the last moment with such a pair, and broken says that there were moments without.
	lastAt time.Time
	broken bool
}

// waste is about runners that were surplus before they had a job. They come in waves, as when the figures fall.
type waste struct {
	// total and started are the totals that were seen last, and at the beginning of the last wave, which ended at
	// lastAt.
	total, started int
	lastAt         time.Time
	// The wave may have excused runners, because as many jobs have started since the last one. counted says that it had
	// more, which is a disappointment. peak is the highest number of jobs that waited before.
	excused, peak int
	counted       bool
	// caused counts the runners that are surplus because of the doubt, which is no further disappointment. Neither are
	// those after a change of the set's limits, which are nil before the first pass, and changed at limitsAt.
	caused   int
	limits   *Limits
	limitsAt time.Time
}

// Evidence has the facts from which doubt follows.
type Evidence struct {
	// Waiting counts the assigned jobs that neither run nor may just have ended. Starting counts those that have been
	// seen to start within the last completionWindow: so many more may have started.
	Waiting, Starting int
	// Idle counts the runners that have been up and without a job for idleGrace.
	Idle int
	// Started counts the jobs that have started, and wasted the runners that were surplus before they had a job, since
	// the manager has known the set.
	Started, Wasted int
	// Limits are those of the set.
	Limits Limits
}

// Limits are those that a user sets.
type Limits struct{ MinRunners, MaxRunners int }

// Next returns the doubt that follows from new figures. A job must wait beside an idle runner for grace to be doubted.
// Next also returns the time at which the doubt changes if nothing else does; zero means never.
func (d Doubt) Next(seen Evidence, grace time.Duration, now time.Time) (Doubt, time.Time) {
	due := d.move(seen, now)
	d.countWaste(seen, now)
	d.remember(seen, grace, now)
	due = kube.EarlierOf(due, d.disbelieve(seen, grace, now))
	d.peak = max(d.peak, seen.Waiting)
	switch {
	case d.Jobs > 0:
		d.disappointedAt = now // the time of the memory begins after the doubt
	case d.KeepsOne(grace, now):
		due = kube.EarlierOf(due, d.disappointedAt.Add(grace))
	}
	return d, due
}

// move ends the doubt, or lessens it, when fewer jobs have waited than are doubted for figuresSettleGrace. It returns
// the time at which they will have.
func (d *Doubt) move(seen Evidence, now time.Time) time.Time {
	if seen.Waiting >= d.Jobs {
		d.moved.since = time.Time{}
		return time.Time{}
	}
	if kube.SetIfZero(&d.moved.since, now) {
		d.moved.started = seen.Started - seen.Starting
	}
	if due := d.moved.since.Add(figuresSettleGrace); now.Before(due) {
		return due
	}
	started := seen.Started - d.moved.started
	switch {
	case d.Disappointments <= believedAnew:
		d.Jobs = 0
	case seen.Idle == 0 && started >= d.Jobs-seen.Waiting: // doubted jobs do start, and perhaps others would
		d.Jobs, d.level = seen.Waiting/4, seen.Waiting/4
	default:
		d.Jobs = seen.Waiting
	}
	d.moved.since, d.unmet = time.Time{}, unmet{}
	if d.Jobs == 0 {
		d.probes, d.waste.caused = 0, max(d.waste.caused, 1) // for the runner that was kept idle
	}
	return time.Time{}
}

// countWaste counts a disappointment if more runners were surplus without ever having had a job than jobs have started
// since this last happened.
func (d *Doubt) countWaste(seen Evidence, now time.Time) {
	w := &d.waste
	if w.limits != nil && *w.limits != seen.Limits {
		w.limitsAt = now
	}
	w.limits = &seen.Limits
	wasted := seen.Wasted - w.total
	w.total = seen.Wasted
	caused := min(wasted, w.caused)
	w.caused -= caused
	if wasted -= caused; wasted == 0 || now.Sub(w.limitsAt) < 2*waveInterval {
		return
	}
	if now.Sub(w.lastAt) >= waveInterval {
		w.excused, w.started, w.peak, w.counted = seen.Started-w.started, seen.Started, d.peak, false
		d.peak = seen.Waiting
	}
	w.lastAt = now
	if w.excused -= wasted; w.excused < 0 && w.peak > 0 && !w.counted {
		w.counted = true
		d.disappoint(w.peak, now)
	}
}

func (d *Doubt) disappoint(jobs int, now time.Time) {
	d.Disappointments++
	d.level, d.disappointedAt = max(d.level, jobs), now
}

// remember doubts jobs as soon as they wait, if as many have come to nothing several times. It forgets that after a
// while.
func (d *Doubt) remember(seen Evidence, grace time.Duration, now time.Time) {
	if d.Disappointments <= believedAnew && now.Before(d.disappointedAt.Add(longestMemory)) {
		return
	}
	memory := reconcile.Backoff(min(memories*grace, longestMemory), longestMemory,
		min(d.Disappointments-believedAnew, doublings))
	if d.Jobs == 0 && !now.Before(d.disappointedAt.Add(memory)) {
		d.level = 0
	}
	if d.Jobs == 0 && !now.Before(d.disappointedAt.Add(longestMemory)) {
		d.Disappointments = 0
	}
	d.Jobs = max(d.Jobs, min(seen.Waiting, d.level))
}

// disbelieve doubts jobs that have waited beside idle runners for as long as grace. If no job has started meanwhile,
// all of them are. Otherwise some may be real, because a runner that is idle may be one that hangs: then one for each
// idle runner is doubted, and twice as many every time. It returns the time at which the next jobs will have waited for
// so long.
func (d *Doubt) disbelieve(seen Evidence, grace time.Duration, now time.Time) time.Time {
	u, pairs := &d.unmet, min(seen.Idle, seen.Waiting-seen.Starting-d.Jobs)
	// Figures that fall for moments only keep the runners, so they don't interrupt it, unless jobs start: then these
	// were real.
	if u.broken = u.broken || pairs <= 0; u.broken && (seen.Started > u.started || now.Sub(u.lastAt) >= SurplusGrace) {
		*u = unmet{}
	}
	if pairs <= 0 {
		return time.Time{}
	}
	if u.since.IsZero() {
		*u = unmet{since: now, pairs: pairs, waiting: seen.Waiting, started: seen.Started}
	}
	u.pairs, u.waiting, u.lastAt = min(u.pairs, pairs), min(u.waiting, seen.Waiting), now
	if due := u.since.Add(grace); now.Before(due) {
		return due
	}
	doubted := u.waiting
	if seen.Started > u.started {
		doubted = min(doubted, d.Jobs+max(u.pairs, d.Jobs))
	}
	if d.Jobs == 0 {
		d.disappoint(doubted, now)
	}
	if !now.Before(d.ProbeSince.Add(reconcile.Backoff(min(grace, longestMemory), longestMemory,
		min(d.probes, doublings)))) {
		d.ProbeSince, d.probes = now, d.probes+1
	}
	if seen.Started > d.started {
		d.fruitless, d.started = 0, seen.Started
	}
	d.fruitless++
	d.waste.caused = doubted - d.Jobs
	d.Jobs, d.level, d.unmet = doubted, max(d.level, doubted), unmet{}
	return time.Time{}
}

// Again reports whether jobs have been doubted twice or more in a row although no job has started in between or since.
// started is the number of jobs that have started.
func (d *Doubt) Again(started int) bool { return d.fruitless > believedAnew && d.started == started }

// KeepsOne reports whether an idle runner is kept, although nothing is doubted, because figures that go up and down
// would otherwise create and remove one each time.
func (d *Doubt) KeepsOne(grace time.Duration, now time.Time) bool {
	return d.Disappointments > believedAnew && d.level > 0 && now.Before(d.disappointedAt.Add(grace))
}

// SurplusGrace is waited for before a surplus runner is removed. Job assignments and figures take different routes and
// disagree for seconds; if a runner is removed too early, a job waits for a new pod.
const SurplusGrace = 30 * time.Second
