package volumeclaims

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// A claim that may have been created may stay unseen for unseenTimeout after the last runner that names it; then
	// the API server is asked about it. Watches deliver within seconds.
	unseenTimeout = time.Minute
	// A deletion is repeated after deletionTimeout. Until then the claim counts as deleted although the cache shows it
	// unchanged.
	deletionTimeout = time.Minute
	// writeTimeout is the same for a change of a claim.
	writeTimeout = 10 * time.Second
	// housekeepingInterval is the time in which at most housekeepingLimit requests are spent on what nobody waits for.
	housekeepingInterval = time.Minute
	housekeepingLimit    = 10
	// A runner that gave way in the hope of another place is remembered for swapsKept. No pod waits as long for a node
	// that the others get.
	swapsKept = time.Hour
)

// Memory has all that a process remembers of one set's claims between passes. One worker at a time uses it.
type Memory struct {
	set string // its name
	// requested are claims that may have been created and that the cache doesn't show.
	requested map[string]request
	// promised are the leases of runners that the cache doesn't show, by name.
	promised map[string]Lease
	// deleting are claims whose deletion was asked for, and when.
	deleting map[types.UID]time.Time
	// usedAt has the time at which each bundle was last in use, exactly if this process has seen it, else at the
	// latest.
	usedAt map[string]time.Time
	// avoided are the bundles that runners gave up in the hope of another place, and when.
	avoided map[string]time.Time
	// swaps has the times at which they did so, for swapsKept; boundSwapAt is the last such time of a bundle with
	// volumes. At discardedAt a bundle was last discarded because a pod could not use it.
	swaps                    []time.Time
	boundSwapAt, discardedAt time.Time
	// written are the changes of claims that were asked for lately, without their values, and when.
	written map[Record]time.Time
	// housekeeping has the times at which requests were spent on things that nobody waits for.
	housekeeping []time.Time
}

// request is a claim that may have been created.
type request struct {
	template, suffix string
	// namedAt is the last time at which a runner was seen that may create it.
	namedAt time.Time
}

// NewMemory returns the memory that a process which has just started has of the named set.
func NewMemory(set string) *Memory {
	return &Memory{
		set: set, requested: map[string]request{}, promised: map[string]Lease{}, deleting: map[types.UID]time.Time{},
		usedAt: map[string]time.Time{}, avoided: map[string]time.Time{}, written: map[Record]time.Time{},
	}
}

// Promise remembers what a runner gets. Call it before the runner's creation is requested. A creation that got no
// answer is repeated under the same name, and then with the same claims: the first try may have succeeded.
func (m *Memory) Promise(runner string, lease Lease, now time.Time) {
	m.promised[runner] = lease
	m.request(lease.Claims, now)
}

// Promised returns the lease that was promised to a runner whose creation is to be repeated.
func (m *Memory) Promised(runner string) (Lease, bool) {
	lease, found := m.promised[runner]
	return lease, found
}

// Inherit remembers the claims that the API server has before this process creates its first one.
func (m *Memory) Inherit(claims []Claim, now time.Time) {
	for i := range claims {
		m.requested[claims[i].Name] = request{template: claims[i].Template, suffix: claims[i].Suffix, namedAt: now}
	}
}

// Overdue returns the names of claims that should have been seen by now. The caller asks the API server for the set's
// claims, at most twice a minute, and then calls Settle.
func (m *Memory) Overdue(now time.Time) []string {
	var names []string
	for name, r := range m.requested {
		if !now.Before(r.namedAt.Add(unseenTimeout)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Settle forgets the overdue claims that the API server doesn't have, and waits again for those that it has.
func (m *Memory) Settle(overdue []string, existing sets.Set[string], now time.Time) {
	for _, name := range overdue {
		r, found := m.requested[name]
		switch {
		case !found:
		case existing.Has(name):
			r.namedAt = now
			m.requested[name] = r
		default:
			delete(m.requested, name)
		}
	}
}

// Observe remembers what is seen for the first time, forgets what no longer matters, and returns the set's claims for
// one plan.
func (m *Memory) Observe(world *World) *Pool {
	m.observeRunners(world)
	m.observeClaims(world)
	p := survey(world, m)
	for suffix, b := range p.bundles {
		switch used, known := m.usedAt[suffix]; {
		case b.inUse():
			m.usedAt[suffix] = world.Now
		case !known || used.Before(b.recorded()):
			m.usedAt[suffix] = p.lastUse(b)
		}
	}
	gone := func(suffix string, _ time.Time) bool { return p.bundles[suffix] == nil }
	maps.DeleteFunc(m.usedAt, gone)
	maps.DeleteFunc(m.avoided, gone)
	m.swaps = slices.DeleteFunc(m.swaps, func(at time.Time) bool { return !world.Now.Before(at.Add(swapsKept)) })
	m.housekeeping = slices.DeleteFunc(m.housekeeping,
		func(at time.Time) bool { return !world.Now.Before(at.Add(housekeepingInterval)) })
	return p
}

func (m *Memory) observeRunners(world *World) {
	expected := sets.New(world.Expected...)
	for i := range world.Runners {
		r := &world.Runners[i]
		expected.Delete(r.Name) // what its spec says counts
		if r.living() {
			m.request(r.Claims, world.Now)
		}
	}
	maps.DeleteFunc(m.promised, func(runner string, _ Lease) bool { return !expected.Has(runner) })
	for _, lease := range m.promised {
		m.request(lease.Claims, world.Now)
	}
}

func (m *Memory) observeClaims(world *World) {
	live := sets.New[types.UID]()
	for i := range world.Claims {
		claim := &world.Claims[i]
		delete(m.requested, claim.Name)
		if !claim.Deleting {
			live.Insert(claim.UID)
		}
	}
	maps.DeleteFunc(m.deleting, func(uid types.UID, at time.Time) bool {
		return !live.Has(uid) || !world.Now.Before(at.Add(deletionTimeout))
	})
	maps.DeleteFunc(m.written, func(_ Record, at time.Time) bool { return !world.Now.Before(at.Add(writeTimeout)) })
}

// request remembers that claims may be created.
func (m *Memory) request(claims map[string]string, now time.Time) {
	for template, name := range claims {
		if suffix, ours := suffixOf(m.set, template, name); ours {
			m.requested[name] = request{template: template, suffix: suffix, namedAt: now}
		}
	}
}

// Follow remembers what a decision asks for. Call it before the requests are sent: their answers may get lost. Leases
// are remembered by Promise.
func (m *Memory) Follow(decision *Decision, now time.Time) {
	for _, d := range decision.Deletions {
		m.deleting[d.UID] = now
		if d.Why.housekeeping() {
			m.housekeeping = append(m.housekeeping, now)
		}
	}
	for _, r := range decision.Records {
		m.written[r.withoutValue()] = now
		if r.housekeeping() {
			m.housekeeping = append(m.housekeeping, now)
		}
	}
	for _, suffix := range decision.swapped {
		m.avoided[suffix] = now
		m.swaps = append(m.swaps, now)
	}
	if decision.swappedBound {
		m.boundSwapAt = now
	}
	if decision.discarded {
		m.discardedAt = now
	}
}
