package volumeclaims

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Plan decides about a set's claims: which ones that many new runners get, which runners and claims go, and what is recorded. It
// changes nothing; Memory.Observe was called with the same world before.
func Plan(world *World, memory *Memory, wanted int) Decision {
	p := survey(world, memory)
	d := Decision{Counts: p.counts()}
	p.lease(&d, wanted)
	if p.unknown {
		return d // who uses which claim is not known: none goes, and no runner
	}
	p.giveWay(&d)
	p.collect(&d)
	p.record(&d)
	return d
}

// requeueBy decides again at t at the latest; zero is never.
func (d *Decision) requeueBy(t time.Time) { d.RequeueAt = kube.EarlierOf(d.RequeueAt, t) }

// counts counts the claims that are seen, by template.
func (p *pool) counts() map[string]Counts {
	counts := map[string]Counts{}
	for _, template := range p.templates {
		counts[template] = Counts{}
	}
	for _, b := range p.bundles {
		for template, claim := range b.claims {
			c := counts[template]
			c.Total++
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

// record plans what is written down about claims: that a bundle works again, how far its recorded use is behind, and whose it is.
func (p *pool) record(d *Decision) {
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
func (p *pool) write(d *Decision, claim *Claim, key, value string) {
	r := Record{Claim: claim.Name, UID: claim.UID, Key: key, Value: value}
	if _, written := p.memory.written[r.withoutValue()]; written || claim.Deleting || (r.housekeeping() && !p.afford(d)) {
		return
	}
	d.Records = append(d.Records, r)
}

// afford reports whether one more request may be spent on what nobody waits for.
func (p *pool) afford(d *Decision) bool {
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
