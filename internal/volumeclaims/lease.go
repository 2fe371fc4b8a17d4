package volumeclaims

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// After a runner has given way in the hope of another place, new bundles are preferred for newFirstFor: they fit
// anywhere, and free ones may be bound to the same full zone.
const newFirstFor = 2 * time.Minute

// lease gives that many new runners their bundles: a free one, of those the warmest; else a new one; else one that has
// failed lately; else none.
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
		func() bool { return reuse(good) },
		create,
		func() bool { return reuse(failed) },
		func() bool { return p.ephemeral(d) },
	}
	if p.newFirst() {
		sources[0], sources[1] = sources[1], sources[0]
	}
	for range wanted {
		if !slices.ContainsFunc(sources, func(source func() bool) bool { return source() }) {
			break
		}
	}
	p.wait(d, wanted-len(d.Leases))
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

// newFirst reports whether a new bundle is better than a free one.
func (p *Pool) newFirst() bool {
	return !p.memory.boundSwapAt.IsZero() && p.now.Before(p.memory.boundSwapAt.Add(newFirstFor))
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
	return Lease{Claims: claims, Seed: seed}
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
	d.Leases = append(d.Leases, Lease{Claims: claims})
	return true
}
