package scaling

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
)

// Demand is what is asked of a set, and the numbers by which that becomes a number of runners.
type Demand struct {
	// assignedJobs are those that GitHub has given to the set. replicas is what the listener asks for; in a plan, the
	// number of runners that follows.
	replicas, assignedJobs, minRunners int
	// inForce is the maximum that is in force. maxRunners limits the runners that exist: it is less while former runner
	// sets have some.
	inForce, maxRunners int
	// unserved: no listener of ours brings jobs; drained: the set is to take none.
	unserved, drained   bool
	rerunsLost          bool
	failedHistoryLimit  int
	registrationTimeout time.Duration
	headroom            demand.Headroom
	// A surplus runner is kept for scaleDownDelay, and an idle one may get as old as maxIdleTime; 0 is any age.
	scaleDownDelay, maxIdleTime time.Duration
	// startsPerMinute limits new runners; 0 doesn't.
	startsPerMinute int
}

// DemandOf returns the demand in the spec. The numbers are the listener's, but anybody with rights in the namespace may
// write them: out of range, a sum of them would overflow, and a negative count would be a surplus of as many runners.
func DemandOf(spec *v1alpha1.EphemeralRunnerSetSpec) Demand {
	inRange := func(n int) int { return min(max(n, 0), v1alpha1.MaxRunnersUnlimited) }
	d := Demand{
		replicas: inRange(spec.Replicas), assignedJobs: inRange(spec.AssignedJobs),
		inForce: v1alpha1.MaxRunnersUnlimited, maxRunners: v1alpha1.MaxRunnersUnlimited,
		failedHistoryLimit:  defaultFailedHistoryLimit,
		registrationTimeout: defaultRegistrationTimeout, scaleDownDelay: demand.DefaultScaleDownDelay,
	}
	if timeout := spec.EphemeralRunnerSpec.RegistrationTimeout; timeout != nil {
		d.registrationTimeout = timeout.Duration
	}
	if spec.MaxRunners != nil {
		d.maxRunners = inRange(*spec.MaxRunners)
	}
	if spec.FailedHistoryLimit != nil {
		d.failedHistoryLimit = *spec.FailedHistoryLimit
	}
	return d
}

// A surplus runner is kept for shortestScaleDownDelay at least: by then the figures from which it follows have been
// confirmed.
const shortestScaleDownDelay = time.Second

// Within returns the demand with the numbers that are in force for the AutoscalingRunnerSet, and what it plans: the
// runner set's own limit may be from before a change, or from somebody else.
func (want Demand) Within(n effective.Numbers, planned *v1alpha1.PlannedCapacity) Demand {
	want.minRunners, want.inForce, want.maxRunners, want.drained = n.Min, n.Max, min(want.maxRunners, n.Max), n.Drained
	want.headroom = effective.Headroom(planned)
	if delay := planned.ScaleDownDelay; delay != nil {
		want.scaleDownDelay = max(shortestScaleDownDelay, delay.Duration)
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

// Unserved returns the demand on a set that no listener of ours serves: its own listener has no session yet, because
// another cluster's listener has it, or its listener is ARC's.
func (want Demand) Unserved() Demand {
	want.unserved = true
	return want
}

// RerunsLost returns the demand on a set whose lost jobs are run again: a lost runner stays until that is decided.
func (want Demand) RerunsLost() Demand {
	want.rerunsLost = true
	return want
}
