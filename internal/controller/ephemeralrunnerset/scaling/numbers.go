package scaling

import (
	"cmp"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// shortestDelay is how long a surplus runner is kept at least: by then the figures that it follows from have been confirmed.
const shortestDelay = time.Second

// Within returns the demand with the numbers that are in force for the AutoscalingRunnerSet, and what it plans: the runner set's own limit may
// be from before a change, or from somebody else.
func (want Demand) Within(n effective.Numbers, planned *v1alpha1.PlannedCapacity) Demand {
	want.minRunners, want.inForce, want.maxRunners, want.drained = n.Min, n.Max, min(want.maxRunners, n.Max), n.Drained
	want.headroom = effective.Headroom(planned)
	if delay := planned.ScaleDownDelay; delay != nil {
		want.scaleDownDelay = max(shortestDelay, delay.Duration)
	}
	if n.Drained { // nobody waits for the next job
		want.scaleDownDelay = min(want.scaleDownDelay, demand.DefaultScaleDownDelay)
	}
	if most := planned.MaxIdleTime; most != nil {
		want.maxIdleTime = most.Duration
	}
	want.startsPerMinute = planned.MaxStartsPerMinute
	return want
}

// Unserved returns the demand on a set that no listener of ours serves: its own has not got a session yet, because that of another cluster has
// it, or it is ARC's.
func (want Demand) Unserved() Demand {
	want.unserved = true
	return want
}

// RerunsLost returns the demand on a set whose lost jobs are run again: a lost runner stays until that is decided.
func (want Demand) RerunsLost() Demand {
	want.rerunsLost = true
	return want
}

// total returns how many runners there are to be while so many of them work, and how many of them are to be idle. They follow from the jobs,
// because the listener may not know yet which numbers are in force.
func (want Demand) total(working int) (runners, idle int) {
	asked := demand.Asked{
		Assigned: want.assignedJobs, Running: working, Min: want.minRunners, Max: want.inForce, Headroom: want.headroom,
		Drained: want.drained, Unserved: want.unserved, Replicas: want.replicas,
	}
	return asked.Wanted(), asked.Idle()
}

// planPace holds back the creations for which the last minute has no room. Repeated ones were counted when they were first tried.
func (h *History) planPace(p *Plan, perMinute int) {
	room, more := h.pace.Allowed(perMinute, h.now)
	if p.create <= room {
		return
	}
	p.create, p.paced = room, perMinute
	p.requeueBy(more)
}

// NoteStarts counts new runners that are being created, beside the repeated ones.
func (h *History) NoteStarts(n int) { h.pace.Start(max(0, n), h.now, h.now) }

// planAge replaces the idle runner that has been idle for longest, if that is too long, with GitHub's consent. Only when nothing else is going
// on, so that they go one by one.
func (h *History) planAge(p *Plan, runners []*roster.Runner, out creations.Unseen, most time.Duration) {
	if most <= 0 {
		return
	}
	settled := !p.wantsRunners() && out.Expected == 0 && len(p.surplus) <= p.kept && p.Tally.Starting == 0 && p.doubt.Jobs == 0
	var idle []*roster.Runner
	var since []time.Time
	for _, r := range runners {
		if h.slotOf(r) == slotWaiting && (h.historyOf(r).Removing || p.decided[r].removes()) {
			settled = false // one is on its way already
		}
		if h.waitsHealthily(r) {
			idle, since = append(idle, r), append(since, h.idleSince(r))
		}
	}
	index, found, next := demand.TooOld(since, settled, most, h.now)
	p.requeueBy(next)
	if found {
		h.planRemoval(p, idle[index])
	}
}

// idleSince returns since when a runner without a job has been up. Of one that was up before this manager began, its creation is known.
func (h *History) idleSince(r *roster.Runner) time.Time {
	past := h.historyOf(r)
	return cmp.Or(past.upBefore, past.upAt)
}
