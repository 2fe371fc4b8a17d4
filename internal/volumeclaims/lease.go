package volumeclaims

import (
	"math"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

const (
	// A bundle that a node could not mount is leased last for failureBackoff.
	failureBackoff = 10 * time.Minute
	// After new claims were refused or got no volume, and their runners have got empty directories, no other one tries for
	// storageBackoff, and then a single one until a volume was made.
	storageBackoff = 5 * time.Minute
)

// lease gives that many new runners their bundles: a free one, of those the warmest; else a new one; else an empty
// directory, if the user wants that rather than to wait; else one that has failed lately; else none. With such directories, who takes the place of
// a runner whose volume could not be mounted gets one.
func (p *Pool) lease(d *Decision, wanted int) {
	switch {
	case wanted <= 0:
		return
	case len(p.templates) == 0:
		d.Leases = make([]Lease, wanted)
		return
	case p.unknown:
		d.Waiting, d.Wait = wanted, WaitForList
		return
	}
	var seed string
	if p.policy.SeedFrom.Newest {
		seed = p.seed(wanted)
	}
	used := map[*bundle]bool{}
	reuse := func(candidates []*bundle) bool {
		for _, b := range candidates {
			if !used[b] && b.suffix != seed && p.completable(b) {
				used[b] = true
				d.Leases = append(d.Leases, p.leaseOf(b.suffix, ""))
				p.begin(b)
				return true
			}
		}
		return false
	}
	create := func() bool {
		if p.room() == 0 {
			return false
		}
		suffix := p.world.Suffix()
		for p.bundles[suffix] != nil {
			suffix = p.world.Suffix()
		}
		b := p.of(suffix)
		used[b] = true
		d.Leases = append(d.Leases, p.leaseOf(b.suffix, seed))
		p.begin(b)
		return true
	}
	good, failed := p.free()
	sources := []func() bool{
		func() bool { return p.owes(d) && p.ephemeral(d) },
		func() bool { return reuse(good) },
		create,
		func() bool { return p.ephemeral(d) },
		func() bool { return reuse(failed) },
	}
	for range wanted {
		if !slices.ContainsFunc(sources, func(source func() bool) bool { return source() }) {
			break
		}
	}
	p.wait(d, wanted-len(d.Leases))
	p.copySnapshot(d.Leases)
}

// ofSnapshots reports whether each runner's claims are copies of the newest snapshot.
func (p *Pool) ofSnapshots() bool { return p.policy.Mode == v1alpha1.SnapshotClaims }

// copySnapshot has new claims be copies of the newest snapshot, in mode Snapshot.
func (p *Pool) copySnapshot(leases []Lease) {
	if !p.ofSnapshots() {
		return
	}
	for i := range leases {
		if slices.ContainsFunc(p.templates, func(template string) bool { return leases[i].Claims[template] != "" }) {
			leases[i].Seed = p.world.Snapshot
		}
	}
}

// wait sets what the remaining runners wait for.
func (p *Pool) wait(d *Decision, remaining int) {
	if remaining == 0 {
		return
	}
	d.Waiting, d.Wait = remaining, WaitForFreeClaim
	if p.refused {
		d.Wait = WaitForNewClaim
	}
}

// seed returns the suffix of the bundle that new ones are copies of, empty for none. A bundle that is being copied
// already comes first, then the warmest free one. That one is held back if there are more runners than free bundles and
// none has to wait for it.
func (p *Pool) seed(wanted int) string {
	usable := func(b *bundle) bool {
		return b.spoiledBy == "" && len(b.failures) == 0 &&
			!b.any(func(c *Claim) bool { return c.Scope != p.scope || c.Lost })
	}
	cloning := p.in(stateCloning)
	if at := slices.IndexFunc(cloning, usable); at >= 0 {
		return cloning[at].suffix
	}
	free, failed := p.free()
	good := slices.DeleteFunc(slices.Clone(free),
		func(b *bundle) bool { return b.any(func(c *Claim) bool { return !c.Bound }) })
	others := len(free) + len(failed) - 1
	if len(good) == 0 || wanted <= others+1 || wanted-others > p.room() {
		return ""
	}
	return good[0].suffix
}

// completable reports whether the claims that a bundle lacks, because their template is newer, may be created.
func (p *Pool) completable(b *bundle) bool {
	for _, template := range p.templates {
		if p.lacks(b, template) && (p.full(template) || p.refused) {
			return false
		}
	}
	return true
}

func (p *Pool) full(template string) bool {
	return p.policy.Max != nil && p.exist[template] >= *p.policy.Max
}

func (p *Pool) lacks(b *bundle, template string) bool {
	return b.claims[template] == nil && !b.unseen.Has(template)
}

// begin counts the claims that a bundle's new holder creates, and takes the bundle from those that are free.
func (p *Pool) begin(b *bundle) {
	for _, template := range p.templates {
		if p.lacks(b, template) {
			b.unseen.Insert(template)
			p.exist[template]++
		}
	}
	b.promised, b.state = true, stateLeased
}

// leaseOf returns the lease that the holder of a bundle gets.
func (p *Pool) leaseOf(suffix, seed string) Lease {
	claims := map[string]string{}
	for _, template := range p.templates {
		claims[template] = claimName(p.world.Set.Name, template, suffix)
	}
	if seed != "" {
		p.bundles[seed].cloned, p.bundles[seed].state = true, stateCloning
	}
	return Lease{Claims: claims, Seed: seed, Content: p.content(p.bundles[suffix], seed)}
}

// content returns what the holder of a bundle finds in it.
func (p *Pool) content(b *bundle, seed string) Content {
	switch {
	case b.any(func(c *Claim) bool { return c.Bound }):
		return Used
	case seed != "" || fixedSource(&p.world.Set.Spec) != nil:
		return Copied
	}
	return Empty
}

// ephemeral gives a runner empty directories, if the user wants that rather than to wait.
func (p *Pool) ephemeral(d *Decision) bool {
	if p.policy.WhenExhausted != v1alpha1.EphemeralVolume {
		return false
	}
	claims := map[string]string{}
	for _, template := range p.templates {
		claims[template] = ""
	}
	d.Leases = append(d.Leases, Lease{Claims: claims, Content: Directory})
	return true
}

// owes reports whether the next runner takes the place of one whose volume could not be mounted, and gets an empty
// directory for it.
func (p *Pool) owes(d *Decision) bool {
	if p.policy.WhenExhausted != v1alpha1.EphemeralVolume || p.memory.owed+d.follow.owed <= 0 {
		return false
	}
	d.follow.owed--
	return true
}

// free returns the bundles that may be leased, and those of them that a runner could not use lately. Those come first
// whose place is not known to be without a node, and of these the warmest.
func (p *Pool) free() (good, failed []*bundle) {
	var far []*bundle
	for _, b := range p.in(stateFree) {
		switch {
		case p.failedLately(b):
			failed = append(failed, b)
		case b.at == places.Empty:
			far = append(far, b)
		default:
			good = append(good, b)
		}
	}
	return append(good, far...), failed
}

// failedLately reports whether a bundle is leased last: a node could not mount it, it has no volume and such ones get
// none, its place was given up and has got no node since, or would be given up at once.
func (p *Pool) failedLately(b *bundle) bool {
	if blamed, found := p.memory.blamed[b.key()]; found && (b.at != places.Reachable || blamed.state == b.at) {
		return true
	}
	if _, itself := p.memory.blamed[b.itself()]; itself {
		return true
	}
	if p.storageFails() && b.any(func(c *Claim) bool { return !c.Bound }) {
		return true
	}
	if b.at == places.Empty && p.settled && !p.memory.nodesCome {
		return true
	}
	var latest time.Time
	for _, failure := range b.failures {
		if failure.At.After(latest) {
			latest = failure.At
		}
	}
	if latest.After(p.now) { // nobody has failed in the future: somebody else's annotation
		return false
	}
	return !latest.IsZero() && p.now.Before(latest.Add(failureBackoff))
}

// key is what a bundle is blamed by: its place or, if nothing is known of that, itself.
func (b *bundle) key() string {
	if b.place == "" {
		return b.itself()
	}
	return b.place
}

// itself is what a bundle is blamed by if its place is not to blame.
func (b *bundle) itself() string { return "claims " + b.suffix }

// room returns the number of bundles that may still be created. While the API server refuses claims, it is 0: the
// runners that wait for theirs try again, and further ones would only join them.
func (p *Pool) room() int {
	room := math.MaxInt
	for _, template := range p.templates {
		if p.policy.Max != nil {
			room = min(room, *p.policy.Max-p.exist[template])
		}
	}
	switch {
	case p.refused:
		return 0
	case p.policy.WhenExhausted == v1alpha1.EphemeralVolume:
		room = min(room, p.storageRoom())
	}
	return max(0, room)
}

// storageFails reports whether new claims were refused or got no volume a short while ago.
func (p *Pool) storageFails() bool {
	failedAt := p.memory.storageFailedAt
	return !failedAt.IsZero() && p.now.Before(failedAt.Add(storageBackoff))
}

// storageRoom limits the number of new bundles after some have failed.
func (p *Pool) storageRoom() int {
	failedAt := p.memory.storageFailedAt
	switch {
	case failedAt.IsZero():
		return math.MaxInt
	case p.storageFails():
		return 0
	}
	for _, b := range p.bundles {
		if b.any(func(c *Claim) bool { return c.Bound && c.CreatedAt.After(failedAt) }) {
			return math.MaxInt
		}
	}
	for _, b := range p.bundles { // one tries
		if b.inUse() && (len(b.unseen) > 0 || b.any(func(c *Claim) bool { return !c.Bound })) {
			return 0
		}
	}
	return 1
}
