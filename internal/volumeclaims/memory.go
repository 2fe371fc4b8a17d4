package volumeclaims

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
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
	// A place that a runner gave up is used last for blameKept: until then it has usually got room.
	blameKept = 10 * time.Minute
	// placedKept limits the runners that are remembered because they have got nodes while others wait.
	placedKept = 200
	// The recorded use of a bundle may be behind by shortestRecordInterval or idleTTL/recordFraction, whichever is longer:
	// a bundle in constant use costs one request in that time, 42 h by default, and none if idleTTL is 0.
	shortestRecordInterval = 15 * time.Minute
	recordFraction         = 4
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
	// blamed are the places that runners gave up, and when.
	blamed map[string]blame
	// swaps has the times at which they did so because others had got nodes elsewhere, for swapsKept. At triedAt one did
	// so in hope only.
	swaps   []time.Time
	triedAt time.Time
	// At discardedAt a bundle was last discarded because a pod could not mount it. unmounted are the bundles that nodes
	// could not mount, and when they last said so; worked has the time at which a pod last got a node on which its
	// volumes were mounted, by bundle.
	discardedAt       time.Time
	unmounted, worked map[string]time.Time
	// At storageFailedAt a runner last gave up a new claim that was refused or got no volume. owed counts the empty
	// directories that take the places of claims that could not be mounted.
	storageFailedAt time.Time
	owed            int
	// placed are runners that have got nodes while another one has waited for one with volumes, the latest last.
	placed []placed
	// goneAt has the time at which the node of a bundle's volumes was first seen to be gone.
	goneAt map[string]time.Time
	// nodesCome is set if a node was made while a pod of the set waited for one: there is an autoscaler.
	nodesCome bool
	// usedPercent has how full the volumes of claims were at the end of the last job that told it, by their names.
	usedPercent map[string]int
	// written are the changes of claims that were asked for lately, without their values, and when.
	written map[Record]time.Time
	// housekeeping has the times at which requests were spent on things that nobody waits for.
	housekeeping []time.Time
}

// placed is a runner that has got a node, when, and its bundles.
type placed struct {
	runner        string
	createdAt, at time.Time
	suffixes      []string
}

// blame is when runners gave up a place, and what was known of it.
type blame struct {
	at    time.Time
	state places.State
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
		usedAt: map[string]time.Time{}, written: map[Record]time.Time{}, blamed: map[string]blame{},
		unmounted: map[string]time.Time{}, goneAt: map[string]time.Time{},
		worked: map[string]time.Time{}, usedPercent: map[string]int{},
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
		if _, known := m.goneAt[suffix]; b.at == places.Gone && !known {
			m.goneAt[suffix] = world.Now
		}
		for _, r := range b.holders {
			if r.Failure.Kind == Unmounted && !r.Up {
				m.unmounted[suffix] = world.Now
			}
			if r.Up {
				m.worked[suffix] = kube.LaterOf(m.worked[suffix], r.PlacedAt)
			}
			m.nodesCome = m.nodesCome || p.madeAfter(r.Node, r.CreatedAt)
		}
		for _, claim := range b.claims {
			m.nodesCome = m.nodesCome || p.madeAfter(claim.SelectedNode, claim.CreatedAt)
		}
	}
	m.observePlaced(p)
	gone := func(suffix string, _ time.Time) bool { return p.bundles[suffix] == nil }
	maps.DeleteFunc(m.usedAt, gone)
	maps.DeleteFunc(m.worked, gone)
	maps.DeleteFunc(m.goneAt, func(suffix string, _ time.Time) bool {
		return p.bundles[suffix] == nil || p.bundles[suffix].at != places.Gone
	})
	maps.DeleteFunc(m.blamed, func(_ string, b blame) bool { return !world.Now.Before(b.at.Add(blameKept)) })
	maps.DeleteFunc(m.unmounted,
		func(_ string, at time.Time) bool { return !world.Now.Before(at.Add(FailureTimeout)) })
	m.swaps = slices.DeleteFunc(m.swaps, func(at time.Time) bool { return !world.Now.Before(at.Add(swapsKept)) })
	m.housekeeping = slices.DeleteFunc(m.housekeeping,
		func(at time.Time) bool { return !world.Now.Before(at.Add(housekeepingInterval)) })
	return p
}

// observePlaced remembers who gets a node while another one waits for one: it may be gone again before the other one's
// patience ends.
func (m *Memory) observePlaced(p *Pool) {
	if p.boundWaitsSince.IsZero() {
		m.placed = nil
		return
	}
	for i := range p.world.Runners {
		r := &p.world.Runners[i]
		if !r.PlacedAt.After(p.boundWaitsSince) || slices.ContainsFunc(m.placed, func(other placed) bool { return other.runner == r.Name }) {
			continue
		}
		m.placed = append(m.placed,
			placed{runner: r.Name, createdAt: r.CreatedAt, at: r.PlacedAt, suffixes: p.suffixes(r.Claims)})
	}
	m.placed = m.placed[max(0, len(m.placed)-placedKept):]
}

func (m *Memory) observeRunners(world *World) {
	expected := sets.New(world.Expected...)
	for i := range world.Runners {
		r := &world.Runners[i]
		expected.Delete(r.Name) // what its spec says counts
		if r.living() {
			m.request(r.Claims, world.Now)
		}
		for volume, percent := range r.UsedPercent {
			m.usedPercent[r.Claims[volume]] = percent
		}
	}
	maps.DeleteFunc(m.promised, func(runner string, _ Lease) bool { return !expected.Has(runner) })
	for _, lease := range m.promised {
		m.request(lease.Claims, world.Now)
	}
}

func (m *Memory) observeClaims(world *World) {
	live, names := sets.New[types.UID](), sets.New[string]()
	for i := range world.Claims {
		claim := &world.Claims[i]
		names.Insert(claim.Name)
		delete(m.requested, claim.Name)
		if !claim.Deleting {
			live.Insert(claim.UID)
		}
	}
	maps.DeleteFunc(m.usedPercent, func(name string, _ int) bool { return !names.Has(name) })
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
	follow := &decision.follow
	for place, state := range follow.blamed {
		m.blamed[place] = blame{at: now, state: state}
	}
	for range follow.swaps {
		m.swaps = append(m.swaps, now)
	}
	if follow.tried {
		m.triedAt = now
	}
	if follow.discarded {
		m.discardedAt = now
	}
	if follow.storageFailed {
		m.storageFailedAt = now
	}
	m.owed += follow.owed
}

// madeAfter reports whether the node of a runner, or that for which a claim's volume was made, was made after it: an
// autoscaler has done so because a pod waited. Both times are the API server's.
func (p *Pool) madeAfter(node string, created time.Time) bool {
	if !p.stays(node) {
		return false
	}
	madeAt, _ := p.world.Nodes.Stays(node)
	return madeAt.After(created)
}

// usedAt returns the last time at which a bundle was in use: now, if it is.
func (p *Pool) usedAt(b *bundle) time.Time {
	if used, known := p.memory.usedAt[b.suffix]; known {
		return used
	}
	return p.lastUse(b)
}

// lastUse is the latest time at which a bundle can have been used that this process has not seen in use: its record
// would be newer otherwise.
func (p *Pool) lastUse(b *bundle) time.Time {
	return kube.EarlierOf(p.now, b.recorded().Add(p.recordInterval()))
}

// recordInterval returns the longest time that a record may be behind.
func (p *Pool) recordInterval() time.Duration {
	return max(shortestRecordInterval, p.policy.IdleTTL.Duration/recordFraction)
}

// recorded is the last use that is recorded on the bundle's claims.
func (b *bundle) recorded() time.Time {
	var latest time.Time
	for _, claim := range b.claims {
		latest = kube.LaterOf(latest, claim.UsedAt)
	}
	return latest
}
