package ephemeralrunnerset

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
)

// GitHub's count of assigned jobs may include jobs that do not exist. No job really waits beside a runner that is registered and
// idle: GitHub gives it one within seconds. So jobs that wait beside idle runners for registrationTimeout are doubted: no runners
// are created or kept for them until the figures move. Other jobs are believed as before, and at least one runner is kept idle, so
// a job that is real after all starts at once, and its start moves the figures.
//
// Whatever the figures do, they are believed anew at most once more: after two disappointments, the same number of waiting jobs
// is doubted from the start for a time that doubles with each further one, and believed by half whenever such a job does start.
const (
	// figuresSettleAfter is how long fewer jobs must wait than are doubted before that is a move: a start or an end is in the
	// figures seconds before or after it is reported.
	figuresSettleAfter = 10 * time.Second
	// wavePeriod separates disappointments: the runners of one fall in the figures are removed within so much time.
	wavePeriod = time.Minute
	// believedAnew is how many disappointments in a row are forgotten when the figures move.
	believedAnew = 1
	// longestMemory is how long a number of waiting jobs is doubted at most after it was last disappointed.
	longestMemory = 24 * time.Hour
	// doublings bounds the doublings of that time: longestMemory, doubled so often, fits.
	doublings = 10
)

// doubt is how far GitHub's figures are disbelieved. The zero value believes everything; so does a manager that has just started.
type doubt struct {
	// jobs is how many waiting jobs are believed not to exist, and since is when there began to be any. endedAt is when there
	// last ceased to be.
	jobs           int
	since, endedAt time.Time
	// moved is the present time in which fewer jobs wait than are doubted: since when, and how many had started before.
	moved struct {
		since   time.Time
		started int
	}
	// unmet is the present time in which believed jobs wait beside idle runners.
	unmet unmet
	// disappointments counts how often in a row waiting jobs came to nothing, the last time at disappointedAt. level is the
	// largest number of them, peak that of the jobs that waited since the last wave of waste.
	disappointments int
	disappointedAt  time.Time
	level, peak     int
	wave            wave
}

// unmet is a time during which jobs have waited beside idle runners, without a pause.
type unmet struct {
	since time.Time
	// pairs is the smallest number, at any moment, of pairs of a waiting job and an idle runner; waiting is that of waiting jobs.
	pairs, waiting int
	// started is how many jobs had started before.
	started int
}

// wave is waste without a longer pause, as when the figures fall once.
type wave struct {
	lastAt time.Time
	// wasted and started are the totals that were last seen, or at the beginning of the wave.
	wasted, started int
	// excused is how many more runners may be wasted before the wave is a disappointment, as many as jobs have started since the
	// last one. It is negative if the wave was one.
	excused int
	// peak is how many jobs waited at most before the wave.
	peak int
}

// evidence is what doubt follows from.
type evidence struct {
	// waiting is how many assigned jobs neither run nor may just have ended, and starting how many jobs have been seen to start
	// within the last completionWindow: so many more may have started.
	waiting, starting int
	// idle is how many runners have been up and without a job for idlePatience.
	idle int
	// started counts the jobs that have started, and wasted the runners that were surplus before they had a job, since the
	// manager has known the set.
	started, wasted int
}

// next returns the doubt that follows from new figures, with patience, the time for which a job must wait beside an idle runner to
// be doubted. It also returns when the doubt changes if nothing else does; zero is never.
func (d doubt) next(seen evidence, patience time.Duration, now time.Time) (doubt, time.Time) {
	due := d.move(seen, now)
	d.countWaste(seen, now)
	d.remember(seen, patience, now)
	due = kube.EarlierOf(due, d.disbelieve(seen, patience, now))
	d.peak = max(d.peak, seen.waiting-d.jobs)
	switch {
	case d.jobs > 0:
		d.disappointedAt = now // what is remembered is forgotten some time after the doubt
	case d.keepsOne(patience, now):
		due = kube.EarlierOf(due, d.disappointedAt.Add(patience))
	}
	return d, due
}

// move ends the doubt, or lessens it, when fewer jobs have waited than are doubted for figuresSettleAfter. It returns when they will
// have.
func (d *doubt) move(seen evidence, now time.Time) time.Time {
	if seen.waiting >= d.jobs {
		d.moved.since = time.Time{}
		return time.Time{}
	}
	if kube.SetIfZero(&d.moved.since, now) {
		d.moved.started = seen.started - seen.starting
	}
	if due := d.moved.since.Add(figuresSettleAfter); now.Before(due) {
		return due
	}
	started := seen.started - d.moved.started
	switch {
	case d.disappointments <= believedAnew:
		d.jobs = 0
	case seen.idle == 0 && started >= d.jobs-seen.waiting: // doubted jobs do start, and perhaps others would
		d.jobs, d.level = seen.waiting/2, seen.waiting/2
	default:
		d.jobs = seen.waiting
	}
	d.moved.since, d.unmet = time.Time{}, unmet{}
	if d.jobs == 0 {
		d.endedAt = now
	}
	return time.Time{}
}

// countWaste counts a disappointment if more runners were surplus without ever having had a job than jobs have started since this
// last happened. The runners that a doubt makes surplus are no further disappointment.
func (d *doubt) countWaste(seen evidence, now time.Time) {
	w := &d.wave
	wasted := seen.wasted - w.wasted
	w.wasted = seen.wasted
	if wasted == 0 || d.jobs > 0 || !d.endedAt.IsZero() && now.Sub(d.endedAt) < wavePeriod {
		return
	}
	if now.Sub(w.lastAt) >= wavePeriod {
		w.excused, w.started, w.peak, d.peak = seen.started-w.started, seen.started, d.peak, 0
	}
	w.lastAt = now
	if w.excused < 0 || w.peak == 0 {
		return
	}
	if w.excused -= wasted; w.excused < 0 {
		d.disappoint(w.peak, now)
	}
}

func (d *doubt) disappoint(jobs int, now time.Time) {
	d.disappointments++
	d.level, d.disappointedAt = max(d.level, jobs), now
}

// remember doubts jobs as soon as they wait if as many came to nothing more than once, and forgets that after some time.
func (d *doubt) remember(seen evidence, patience time.Duration, now time.Time) {
	memory := requeue.Backoff(min(patience, longestMemory), longestMemory, min(d.disappointments, doublings))
	if d.jobs == 0 && !now.Before(d.disappointedAt.Add(memory)) {
		d.disappointments, d.level = 0, 0
	}
	if again := min(seen.waiting, d.level); d.disappointments > believedAnew && again > d.jobs {
		d.raise(again, now)
	}
}

func (d *doubt) raise(jobs int, now time.Time) {
	if d.jobs == 0 {
		d.since = now
	}
	d.jobs = jobs
}

// disbelieve doubts jobs that have waited beside idle runners for as long as patience. If no job has started meanwhile, all of them
// are. Otherwise some may be real, because a runner that is idle may be one that hangs: then one for each idle runner is doubted,
// and twice as many every time. It returns when the next jobs will have waited for so long.
func (d *doubt) disbelieve(seen evidence, patience time.Duration, now time.Time) time.Time {
	pairs := min(seen.idle, seen.waiting-seen.starting-d.jobs)
	if pairs <= 0 {
		d.unmet = unmet{}
		return time.Time{}
	}
	if d.unmet.since.IsZero() {
		d.unmet = unmet{since: now, pairs: pairs, waiting: seen.waiting, started: seen.started}
	}
	d.unmet.pairs, d.unmet.waiting = min(d.unmet.pairs, pairs), min(d.unmet.waiting, seen.waiting)
	if due := d.unmet.since.Add(patience); now.Before(due) {
		return due
	}
	doubted := d.unmet.waiting
	if seen.started > d.unmet.started {
		doubted = min(doubted, d.jobs+max(d.unmet.pairs, d.jobs))
	}
	if d.jobs == 0 {
		d.disappoint(doubted, now)
	}
	d.raise(doubted, now)
	d.level, d.unmet = max(d.level, doubted), unmet{}
	return time.Time{}
}

// keepsOne reports whether an idle runner is kept, although nothing is doubted, because figures that go up and down would
// otherwise create and remove one each time.
func (d *doubt) keepsOne(patience time.Duration, now time.Time) bool {
	return d.disappointments > believedAnew && d.level > 0 && now.Before(d.disappointedAt.Add(patience))
}

// doubtPatience is how long a job must wait beside an idle runner to be doubted.
func (want demand) doubtPatience() time.Duration { return max(want.registrationTimeout, idlePatience) }

// planDoubt judges the figures, and lowers the demand by the jobs that are doubted.
func (h *history) planDoubt(p *plan, runners []*runnerView, want demand) demand {
	t, patience := &p.tally, want.doubtPatience()
	seen := evidence{
		waiting: max(0, want.assignedJobs-t.working-t.held), starting: len(h.starts), started: h.started, wasted: h.wasted,
	}
	for _, r := range runners {
		if !h.waitsHealthily(r) {
			continue
		}
		if proven := h.historyOf(r).upAt.Add(idlePatience); !h.now.Before(proven) {
			seen.idle++
		} else if seen.waiting > 0 {
			p.requeueBy(proven)
		}
	}
	var due time.Time
	p.doubt, due = h.doubt.next(seen, patience, h.now)
	p.requeueBy(due)
	if len(h.starts) > 0 && seen.waiting > 0 {
		p.requeueBy(h.starts[0].Add(completionWindow))
	}
	if want.minRunners == 0 && (p.doubt.jobs > 0 || p.doubt.keepsOne(patience, h.now)) {
		p.kept = 1
	}
	if p.doubt.jobs > 0 {
		known := t.working + t.held
		p.wanted = min(want.replicas, want.minRunners+max(want.assignedJobs-p.doubt.jobs, known))
		want.replicas = min(want.replicas, max(p.wanted, known+p.kept))
		return want
	}
	p.wanted = want.replicas
	return want
}

// waitsHealthily reports whether a runner is up and could take a job, as far as is known.
func (h *history) waitsHealthily(r *runnerView) bool {
	past := h.historyOf(r)
	return r.up() && h.slotOf(r) == slotWaiting && !r.deleting && h.askable(r) &&
		past.missingSince.IsZero() && past.removedAt.IsZero() && !past.gone && !past.removing
}

// planProbe replaces one of the runners that have been idle since before the doubt, with GitHub's consent, unless there is a newer
// one: jobs may be real and the runners hang. GitHub may also answer that the runner has a job, whose report was lost.
func (h *history) planProbe(p *plan, runners []*runnerView, out unseen) {
	if p.doubt.jobs == 0 || out.expected > 0 || len(p.surplus) > p.kept {
		return
	}
	newer := func(r *runnerView) bool {
		past := h.historyOf(r)
		return h.slotOf(r) == slotWaiting && (!r.up() || !past.upAt.Before(p.doubt.since) || past.removing || p.decided[r].removes())
	}
	if slices.ContainsFunc(runners, newer) {
		return
	}
	if i := slices.IndexFunc(runners, h.waitsHealthily); i >= 0 {
		h.decideAt(p, runners[i], actionDeregister, h.questionsAllowedAt(runners[i]))
	}
}

// doubtful returns the condition that says how many jobs are doubted, none if it was never true.
func (h *history) doubtful(before []metav1.Condition, set *v1alpha1.EphemeralRunnerSet) []metav1.Condition {
	const conditionType = v1alpha1.ConditionStatisticsDoubtful
	switch {
	case h.doubt.jobs > 0:
		return []metav1.Condition{report.True(conditionType, v1alpha1.ReasonJobsNotTaken, fmt.Sprintf(
			"GitHub counts %d assigned jobs; %d of them have waited beside idle runners and probably don't exist: no runners are created for these until GitHub's figures change, "+
				"and jobs that do exist still run; look on GitHub for queued jobs of %s and cancel those that never start; if there are none, only GitHub can correct its figures "+
				"(https://www.githubstatus.com)", set.Spec.AssignedJobs, h.doubt.jobs, kube.ScaleSetOf(set).Name))}
	case meta.FindStatusCondition(before, conditionType) != nil:
		return []metav1.Condition{report.False(conditionType, "StatisticsBelieved", "all jobs that GitHub counts are believed to exist")}
	}
	return nil
}
