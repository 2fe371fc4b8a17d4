// Package effective says which numbers of runners are in force for a scale set: those of its spec, or those that
// schedules put in their place, cut to the manager's limit for each set. Every controller that needs the numbers works
// them out from the same spec and clock: none waits for another to write them down, and a status that somebody has
// edited changes nothing.
package effective

import (
	"slices"
	"sync"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

// Numbers are in force at a moment.
type Numbers struct {
	// Effective has the numbers, the schedules that are open, and the time until which both hold at least.
	schedules.Effective
	// Asked has the numbers of spec and schedules, before the manager's limit.
	Asked schedules.Numbers
	// Drained: the set takes no further jobs, runs those that it has, and keeps no runner idle.
	Drained bool
	// Refused are the schedules that can't be followed.
	Refused []*schedules.RefusedError
}

// Limited reports whether there is a maximum.
func (n *Numbers) Limited() bool { return n.Max < v1alpha1.MaxRunnersUnlimited }

// Accepted returns the number of jobs that the set may be given at most, including those that it has.
func (n *Numbers) Accepted() int {
	if n.Drained {
		return 0
	}
	return n.Max
}

// Limit returns the maximum as objects have it, nil if there is none.
func (n *Numbers) Limit() *int {
	if !n.Limited() {
		return nil
	}
	return &n.Max
}

// Cut reports whether the manager's limit allows fewer runners than spec and schedules ask for. A spec without a
// maximum asks for nothing.
func (n *Numbers) Cut() bool {
	return (n.Max < n.Asked.Max && n.Asked.Max < v1alpha1.MaxRunnersUnlimited) || n.Min < n.Asked.Min
}

// Plan works out the numbers of one set. Its memory only saves time, and may be lost. The zero value is ready, and safe
// for concurrent use.
type Plan struct {
	mu sync.Mutex
	// plan and refused belong to the schedules of.
	of      []v1alpha1.Schedule
	plan    *schedules.Plan
	refused []*schedules.RefusedError
	// last has been in force since from. spec has the spec's numbers from which it follows.
	last schedules.Effective
	from time.Time
	spec schedules.Numbers
}

// At returns the numbers in force at that moment. ceiling is the manager's limit for each set, 0 if there is none.
func (p *Plan) At(set *v1alpha1.AutoscalingRunnerSet, ceiling int, now time.Time) Numbers {
	// the object may be older than its schema
	inRange := func(n int) int { return min(max(n, 0), v1alpha1.MaxRunnersUnlimited) }
	spec := schedules.Numbers{Min: inRange(set.Spec.EffectiveMinRunners()),
		Max: inRange(set.Spec.EffectiveMaxRunners())}
	n := Numbers{Effective: schedules.Effective{Numbers: spec}}
	if len(set.Spec.Schedules) > 0 {
		n.Effective, n.Refused = p.follow(set.Spec.Schedules, spec, now)
	}
	if n.Drained = set.Drained(); n.Drained {
		n.Min = 0
	}
	n.Asked = n.Numbers
	if ceiling > 0 {
		n.Max = min(n.Max, ceiling)
	}
	n.Min = min(n.Min, n.Max)
	return n
}

// follow returns the numbers that schedules put in force, and the schedules that can't be followed.
func (p *Plan) follow(
	all []v1alpha1.Schedule, spec schedules.Numbers, now time.Time,
) (schedules.Effective, []*schedules.RefusedError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := !slices.EqualFunc(p.of, all, same)
	if isNew {
		p.of = slices.Clone(all)
		p.plan, p.refused = schedules.New(Schedules(all))
	}
	until := p.last.Until
	if isNew || spec != p.spec || now.Before(p.from) || (!until.IsZero() && !now.Before(until)) {
		p.last, p.from, p.spec = p.plan.At(now, spec), now, spec
	}
	return p.last, p.refused
}

// same reports whether two schedules of a spec say the same.
func same(a, b v1alpha1.Schedule) bool {
	equal := func(a, b *int) bool { return a == b || (a != nil && b != nil && *a == *b) }
	return a.Name == b.Name && a.Priority == b.Priority && a.Schedule == b.Schedule && a.Duration == b.Duration && a.TimeZone == b.TimeZone &&
		equal(a.MinRunners, b.MinRunners) && equal(a.MaxRunners, b.MaxRunners)
}

// Headroom returns the headroom that a set plans.
func Headroom(planned *v1alpha1.PlannedCapacity) demand.Headroom {
	if planned.Headroom == nil {
		return demand.Headroom{}
	}
	return demand.Headroom{Percent: planned.Headroom.Percent, Max: planned.Headroom.Max}
}

// Schedules returns the schedules of a spec as their plan reads them.
func Schedules(all []v1alpha1.Schedule) []schedules.Schedule {
	read := make([]schedules.Schedule, len(all))
	for i, s := range all {
		read[i] = schedules.Schedule{
			Name: s.Name, Expression: s.Schedule, TimeZone: s.TimeZone, Duration: s.Duration.Duration,
			MinRunners: s.MinRunners,
			MaxRunners: s.MaxRunners, Priority: s.Priority,
		}
	}
	return read
}
