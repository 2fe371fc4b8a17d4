package volumeclaims

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// neverBoundTimeout is how long a copy that nobody has used may keep what it copies from use.
const neverBoundTimeout = 5 * time.Minute

// collection says when a bundle that nobody uses goes.
type collection struct {
	why Why
	// applies also says when it will apply, zero if nothing is known of that.
	applies func(*pool, *bundle) (bool, time.Time)
	// because ends the sentence "claim X is deleted because …".
	because func(*pool, *bundle) string
}

// collections are the rules by which bundles go. The first that applies decides.
var collections = []collection{
	{Discarded, func(_ *pool, b *bundle) (bool, time.Time) { return len(b.failures) >= maxFailures, time.Time{} },
		func(_ *pool, b *bundle) string { return b.blames() }},
	{NotKept, func(_ *pool, b *bundle) (bool, time.Time) { return b.spoiledBy != "", time.Time{} },
		func(_ *pool, b *bundle) string { return fmt.Sprintf("of its last runner %s: %s", b.spoiledBy, b.why) }},
	{VolumeLost, func(_ *pool, b *bundle) (bool, time.Time) {
		return b.any(func(c *Claim) bool { return c.Lost }), time.Time{}
	},
		func(*pool, *bundle) string { return "its volume, or that of a claim used with it, is gone" }},
	{OtherScope, func(p *pool, b *bundle) (bool, time.Time) {
		other := func(c *Claim) bool { return c.Owned && c.Scope != p.scope }
		return !p.world.Set.Spec.Retained() && b.any(other), time.Time{}
	}, func(*pool, *bundle) string { return "its content is from another GitHub address or runner group" }},
	{NeverBound, func(p *pool, b *bundle) (bool, time.Time) {
		if b.state != stateFree || !b.any(func(c *Claim) bool { return !c.Bound && c.Source != "" }) {
			return false, time.Time{}
		}
		return p.after(p.usedAt(b), neverBoundTimeout)
	}, func(*pool, *bundle) string { return "it is a copy that no runner has used" }},
	{TooOld, func(p *pool, b *bundle) (bool, time.Time) {
		var oldest time.Time
		for _, claim := range b.claims {
			if oldest.IsZero() || claim.CreatedAt.Before(oldest) {
				oldest = claim.CreatedAt
			}
		}
		return p.after(oldest, p.policy.MaxAge.Duration)
	}, func(p *pool, _ *bundle) string {
		return fmt.Sprintf("it is older than maxAge, %s", p.policy.MaxAge.Duration)
	}},
	{Unused, func(p *pool, b *bundle) (bool, time.Time) { return p.after(p.usedAt(b), p.policy.IdleTTL.Duration) },
		func(p *pool, _ *bundle) string {
			return fmt.Sprintf("no runner has used it for idleTTL, %s", p.policy.IdleTTL.Duration)
		}},
	{TooMany, func(p *pool, b *bundle) (bool, time.Time) {
		more := func(template string) bool {
			return p.policy.Max != nil && p.exist[template]-p.going[template] > *p.policy.Max
		}
		return slices.ContainsFunc(slices.Collect(maps.Keys(b.claims)), more), time.Time{}
	}, func(p *pool, _ *bundle) string {
		return fmt.Sprintf("there are more claims than max, %d", *p.policy.Max)
	}},
}

// after reports whether a time has passed, and when it will have. A duration of 0 never passes.
func (p *pool) after(start time.Time, duration time.Duration) (bool, time.Time) {
	if duration == 0 {
		return false, time.Time{}
	}
	end := start.Add(duration)
	return !p.now.Before(end), end
}

// collect plans which claims go: bundles that nobody uses, the coldest first, and claims whose template is gone.
func (p *pool) collect(d *Decision) {
	candidates := slices.Concat(p.in(stateFree), p.in(stateUnfit))
	for _, b := range slices.Backward(candidates) {
		for _, rule := range collections {
			applies, due := rule.applies(p, b)
			if !applies {
				d.requeueBy(due)
				continue
			}
			if !rule.why.housekeeping() || p.afford(d) {
				p.deleteAll(d, b, rule.why, rule.because(p, b), b.spoiledBy)
			}
			break
		}
	}
	p.collectFormer(d)
}

// deleteAll plans to delete what is left of a bundle.
func (p *pool) deleteAll(d *Decision, b *bundle, why Why, because, runner string) {
	for _, claim := range b.all() {
		d.Deletions = append(d.Deletions, Deletion{
			Name: claim.Name, UID: claim.UID, Why: why, Runner: runner,
			Message: fmt.Sprintf("claim %s is deleted because %s", claim.Name, because),
		})
		p.going[claim.Template]++
	}
	b.state = stateDeleting
}

// collectFormer plans to delete claims whose template is gone and that no runner names, also those of bundles that are in use: new
// runners don't get them.
func (p *pool) collectFormer(d *Decision) {
	for _, b := range p.sorted() {
		if b.state == stateDeleting || b.state == stateCloning || b.state == stateSeed {
			continue
		}
		for _, claim := range b.all() {
			if slices.Contains(p.templates, claim.Template) || p.held.Has(claim.Name) || !p.afford(d) {
				continue
			}
			d.Deletions = append(d.Deletions, Deletion{
				Name: claim.Name, UID: claim.UID, Why: TemplateGone,
				Message: fmt.Sprintf("claim %s is deleted because volumeClaimTemplates has no template %s any more", claim.Name, claim.Template),
			})
		}
	}
}
