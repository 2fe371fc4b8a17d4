package volumeclaims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
	"github.com/harrier-ci/harrier/internal/volumeclaims/waiting"
)

const (
	// A copy that nobody has used may keep its source from use for neverBoundTimeout.
	neverBoundTimeout = 5 * time.Minute
	// A claim whose node is gone is kept for goneTimeout, unless it takes the place of another: the node may have been
	// made anew under its name.
	goneTimeout = 10 * time.Minute
)

// Plan decides about a set's claims: those that as many new runners as wanted get, the runners and claims that go, and
// the records. It is called a single time: the claims that it gives away are no longer free.
func (p *Pool) Plan(wanted int) Decision {
	d := Decision{Counts: p.counts(), RequeueAt: p.reportDue, AwaitPlace: sets.New[string](),
		follow: follow{blamed: map[string]places.State{}}}
	p.lease(&d, wanted)
	if p.unknown {
		return d // who uses which claim is not known: none goes, and no runner
	}
	p.giveWay(&d)
	p.collect(&d)
	p.record(&d)
	return d
}

// counts counts the claims that are seen, by template.
func (p *Pool) counts() map[string]Counts {
	counts := map[string]Counts{}
	for _, template := range p.templates {
		counts[template] = Counts{}
	}
	for _, b := range p.bundles {
		for template, claim := range b.claims {
			c := counts[template]
			c.Total++
			c.FullestPercent = max(c.FullestPercent, p.memory.usedPercent[claim.Name])
			switch {
			case claim.Deleting:
				c.Deleting++
			case b.state == stateLeased:
				c.Leased++
			case b.state == stateCloning:
				c.Cloning++
			case b.state == stateFree:
				c.Free++
			}
			counts[template] = c
		}
	}
	return counts
}

// collection has the condition on which a bundle that nobody uses goes.
type collection struct {
	why Why
	// applies also returns the time from which the rule will apply, zero if that is not known.
	applies func(*Pool, *bundle) (bool, time.Time)
	// because ends the sentence "claim X is deleted because …".
	because func(*Pool, *bundle) string
}

// collections are the rules by which bundles go. The first that applies decides.
var collections = []collection{
	{Discarded, func(_ *Pool, b *bundle) (bool, time.Time) { return len(b.failures) >= maxFailures, time.Time{} },
		func(_ *Pool, b *bundle) string { return b.blames() }},
	{NotKept, func(_ *Pool, b *bundle) (bool, time.Time) { return b.spoiledBy != "", time.Time{} },
		func(_ *Pool, b *bundle) string { return fmt.Sprintf("of its last runner %s: %s", b.spoiledBy, b.why) }},
	{OneRunner, func(p *Pool, _ *bundle) (bool, time.Time) { return p.ofSnapshots(), time.Time{} },
		func(*Pool, *bundle) string { return "its runner is gone, and in mode Snapshot no other one gets it" }},
	{VolumeLost, func(_ *Pool, b *bundle) (bool, time.Time) {
		return b.any(func(c *Claim) bool { return c.Lost }), time.Time{}
	},
		func(*Pool, *bundle) string { return "its volume, or that of a claim used with it, is gone" }},
	{OtherScope, func(p *Pool, b *bundle) (bool, time.Time) {
		other := func(c *Claim) bool { return c.Owned && c.Scope != p.scope }
		spec := &p.world.Set.Spec
		// else it may come back to the other one
		isWhereItShouldBe := p.scope == scopeOf(spec.GitHubConfigUrl, spec.RunnerGroup)
		return !spec.Retained() && isWhereItShouldBe && b.any(other), time.Time{}
	}, func(*Pool, *bundle) string { return "its content is from another GitHub address or runner group" }},
	{Outdated, func(_ *Pool, b *bundle) (bool, time.Time) { return b.any((*Claim).outdated), time.Time{} },
		func(*Pool, *bundle) string {
			return "it has got no volume, and volumeClaimTemplates or seedFrom has changed since it was created"
		}},
	{NeverBound, func(p *Pool, b *bundle) (bool, time.Time) {
		if b.state != stateFree || !b.any(func(c *Claim) bool { return !c.Bound && c.Source != "" }) {
			return false, time.Time{}
		}
		return p.after(p.usedAt(b), neverBoundTimeout)
	}, func(*Pool, *bundle) string { return "it is a copy that no runner has used" }},
	{NodeGone, func(p *Pool, b *bundle) (bool, time.Time) {
		if b.at != places.Gone {
			return false, time.Time{}
		}
		if p.room() == 0 { // it takes the place of one that can be used
			return p.after(p.memory.goneAt[b.suffix], waiting.Grace)
		}
		return p.after(p.memory.goneAt[b.suffix], goneTimeout)
	}, func(_ *Pool, b *bundle) string { return fmt.Sprintf("its volume is on %s, which is no more", b.place) }},
	{TooOld, (*Pool).expired, func(p *Pool, _ *bundle) string {
		return fmt.Sprintf("it is older than maxAge, %s", p.policy.MaxAge.Duration)
	}},
	{Unused, func(p *Pool, b *bundle) (bool, time.Time) { return p.after(p.usedAt(b), p.policy.IdleTTL.Duration) },
		func(p *Pool, _ *bundle) string {
			return fmt.Sprintf("no runner has used it for idleTTL, %s", p.policy.IdleTTL.Duration)
		}},
	{TooMany, func(p *Pool, b *bundle) (bool, time.Time) {
		more := func(template string) bool {
			return p.policy.Max != nil && p.exist[template]-p.going[template] > *p.policy.Max
		}
		return slices.ContainsFunc(slices.Collect(maps.Keys(b.claims)), more), time.Time{}
	}, func(p *Pool, _ *bundle) string {
		return fmt.Sprintf("there are more claims than max, %d", *p.policy.Max)
	}},
}

// collect plans the claims that go: bundles that nobody uses, the coldest first, and claims whose template is gone.
func (p *Pool) collect(d *Decision) {
	candidates := slices.Concat(p.in(stateFree), p.in(stateUnfit))
	for _, b := range slices.Backward(candidates) {
		for _, rule := range collections {
			applies, due := rule.applies(p, b)
			if !applies {
				d.requeueBy(due)
				continue
			}
			if !rule.why.housekeeping() || p.isWaitedFor(d, rule.why) || p.afford(d) {
				p.deleteAll(d, b, rule.why, rule.because(p, b), b.spoiledBy)
			}
			break
		}
	}
	p.collectFormer(d)
}

// isWaitedFor reports whether a runner waits for the place below max of a claim that nobody may use any more.
func (p *Pool) isWaitedFor(d *Decision, why Why) bool {
	if (why != TooOld && why != NodeGone) || d.Waiting == 0 {
		return false
	}
	ends := 0
	for i := range d.Deletions {
		if d.Deletions[i].Why == why {
			ends++
		}
	}
	return ends < d.Waiting*max(1, len(p.templates))
}

// deleteAll plans to delete what is left of a bundle, or of it what is outdated.
func (p *Pool) deleteAll(d *Decision, b *bundle, why Why, because, runner string) {
	for _, claim := range b.all() {
		if why == Outdated && !claim.outdated() {
			continue // the rest of the bundle has content
		}
		d.Deletions = append(d.Deletions, Deletion{
			Name: claim.Name, UID: claim.UID, Why: why, Runner: runner,
			Message: fmt.Sprintf("claim %s is deleted because %s", claim.Name, because),
		})
		p.going[claim.Template]++
	}
	b.state = stateDeleting
}

// collectFormer plans to delete claims whose template is gone and that no runner names, also in bundles that are in
// use: new runners don't get these claims.
func (p *Pool) collectFormer(d *Decision) {
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
				Message: fmt.Sprintf("claim %s is deleted because volumeClaimTemplates has no template %s any more",
					claim.Name,
					claim.Template),
			})
		}
	}
}

// blames names the runners that could not mount the bundle.
func (b *bundle) blames() string {
	last := b.failures[len(b.failures)-1]
	return fmt.Sprintf("the pods of %d runners in a row, the last of them %s, could not mount it", len(b.failures),
		last.Runner)
}

// record plans the records of claims: that a bundle works again, its last use if the record is too far behind, and its
// owner.
func (p *Pool) record(d *Decision) {
	retained := p.world.Set.Spec.Retained()
	for _, b := range p.sorted() {
		works := slices.ContainsFunc(b.holders, func(r *Runner) bool { return r.Up })
		for _, claim := range b.all() {
			if works && len(claim.Failures) > 0 {
				p.write(d, claim, v1alpha1.AnnotationVolumeClaimFailures, "")
			}
			if claim.Owned == retained {
				p.write(d, claim, OwnersKey, "")
			}
		}
		used := p.usedAt(b)
		behind := used.Sub(b.recorded()) >= p.recordInterval()
		if first := b.first(); behind && first != nil && p.policy.IdleTTL.Duration != 0 {
			p.write(d, first, v1alpha1.AnnotationVolumeClaimUsedAt, used.UTC().Format(time.RFC3339))
		}
	}
}

// write plans a record, unless it was written a moment ago, or can wait.
func (p *Pool) write(d *Decision, claim *Claim, key, value string) {
	r := Record{Claim: claim.Name, UID: claim.UID, Key: key, Value: value}
	if _, written := p.memory.written[r.withoutValue()]; written || claim.Deleting ||
		(r.housekeeping() && !p.afford(d)) {
		return
	}
	d.Records = append(d.Records, r)
}

// afford reports whether one more request may be spent on what nobody waits for.
func (p *Pool) afford(d *Decision) bool {
	spent := len(p.memory.housekeeping)
	for i := range d.Deletions {
		if d.Deletions[i].Why.housekeeping() {
			spent++
		}
	}
	for i := range d.Records {
		if d.Records[i].housekeeping() {
			spent++
		}
	}
	if spent >= housekeepingLimit {
		d.requeueBy(p.now.Add(housekeepingInterval))
	}
	return spent < housekeepingLimit
}

// sorted returns all bundles in the order of their suffixes.
func (p *Pool) sorted() []*bundle {
	all := slices.Collect(maps.Values(p.bundles))
	slices.SortFunc(all, func(a, b *bundle) int { return cmp.Compare(a.suffix, b.suffix) })
	return all
}

// all returns the bundle's claims that are not being deleted, in the order of their templates.
func (b *bundle) all() []*Claim {
	var claims []*Claim
	for _, template := range slices.Sorted(maps.Keys(b.claims)) {
		if claim := b.claims[template]; !claim.Deleting {
			claims = append(claims, claim)
		}
	}
	return claims
}

// first returns the claim that has the bundle's records: the first of the seen claims in the order of their templates'
// names.
func (b *bundle) first() *Claim {
	names := slices.Sorted(maps.Keys(b.claims))
	if len(names) == 0 {
		return nil
	}
	return b.claims[names[0]]
}
