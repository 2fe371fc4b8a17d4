package volumesnapshots

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

// commit decides of which claims snapshots are made now, and which claims go. A bundle of which one is being made comes
// first.
func (p *plan) commit() {
	var candidates []*bundle
	for _, b := range p.bundles() {
		v := p.version(b.suffix)
		switch {
		case b.commit == nil, b.scope != p.scope:
			p.discard(b, "no snapshot can be made of it")
		case b.expired(p.world.Now):
			p.discard(b, fmt.Sprintf("its job ended %s ago", claimTimeout))
		case p.world.Used.Has(b.suffix):
			p.requeueBy(b.commit.EndedAt.Add(claimTimeout))
		case v == nil && !b.whole():
			p.discard(b, "not all claims of its runner are there, or have volumes")
		case v == nil:
			candidates = append(candidates, b)
		case v.state == stateGood || v.state == stateUnfit:
			p.discard(b, "the snapshot of it is ready")
		case v.state == stateGoing:
			p.discard(b, "the snapshot of it is deleted")
		default:
			p.complete(b, v)
		}
	}
	p.begin(candidates)
}

// begin has a snapshot made of the candidate whose job ended last, of those that are not mounted any more, if one is
// due. The claims of the others go: the next snapshot would be of a later job.
func (p *plan) begin(candidates []*bundle) {
	if due := p.due(); p.world.Now.Before(due) {
		for _, b := range candidates {
			p.discard(b, "the last snapshot was made less than snapshotInterval ago, or is not ready yet")
		}
		return
	}
	var chosen *bundle
	for _, b := range candidates {
		p.Unready = true
		if at := b.commit.EndedAt.Add(unmountGrace); p.world.Now.Before(at) {
			p.requeueBy(at)
		} else if chosen == nil || b.commit.EndedAt.After(chosen.commit.EndedAt) {
			chosen = b
		}
	}
	if chosen == nil {
		return
	}
	p.Create = append(p.Create, chosen.claims...)
	for _, b := range candidates {
		if b != chosen {
			p.discard(b, "a snapshot is made after another job")
		}
	}
}

// complete makes the snapshots of a bundle that are missing: a manager may have died between two.
func (p *plan) complete(b *bundle, v *Version) {
	p.Unready = true
	p.requeueBy(b.commit.EndedAt.Add(claimTimeout))
	for _, claim := range b.claims {
		if v.of(claim.Template) == nil && !claim.Deleting {
			p.Create = append(p.Create, claim)
		}
	}
}

// due returns the time from which the next snapshot may be made.
func (p *plan) due() time.Time {
	var due time.Time
	for _, v := range p.versions {
		switch {
		case v.state == stateForeign:
		case v.state == statePending && p.age(v) < pendingTimeout:
			due = kube.LaterOf(due, v.CreatedAt.Add(pendingTimeout))
		default:
			due = kube.LaterOf(due, v.CreatedAt.Add(p.pool.SnapshotInterval.Duration))
		}
	}
	return due
}

// version returns the version with a suffix, nil if there is none.
func (p *plan) version(suffix string) *Version {
	at := slices.IndexFunc(p.versions, func(v *Version) bool { return v.Suffix == suffix })
	if at < 0 {
		return nil
	}
	return p.versions[at]
}

// bundle are the claims of one runner of which a snapshot may be made.
type bundle struct {
	suffix, scope string
	claims        []Claim
	// commit is nil if that of one of its claims can't be read.
	commit *Commit
}

// bundles puts the claims together, in the order of their suffixes.
func (p *plan) bundles() []*bundle {
	bySuffix := map[string]*bundle{}
	var all []*bundle
	for _, claim := range p.world.Claims {
		b := bySuffix[claim.Suffix]
		if b == nil {
			b = &bundle{suffix: claim.Suffix, scope: claim.Scope, commit: claim.Commit}
			bySuffix[claim.Suffix] = b
			all = append(all, b)
		}
		if b.claims = append(b.claims, claim); claim.Commit == nil {
			b.commit = nil
		}
	}
	slices.SortFunc(all, func(a, b *bundle) int { return cmp.Compare(a.suffix, b.suffix) })
	return all
}

// expired reports whether the claims are kept no longer. An end in the future is somebody else's annotation.
func (b *bundle) expired(now time.Time) bool {
	ended := b.commit.EndedAt
	return !now.Before(ended.Add(claimTimeout)) || ended.After(now.Add(clockSkew))
}

// whole reports whether all claims of the runner are there, and have volumes.
func (b *bundle) whole() bool {
	if slices.ContainsFunc(b.claims, func(c Claim) bool { return c.Deleting || !c.Bound }) {
		return false
	}
	return !slices.ContainsFunc(b.commit.Templates, func(template string) bool {
		return !slices.ContainsFunc(b.claims, func(c Claim) bool { return c.Template == template })
	})
}

// discard plans the deletion of a bundle's claims. Kubernetes keeps one that a pod has until that is gone.
func (p *plan) discard(b *bundle, why string) {
	for _, claim := range b.claims {
		if !claim.Deleting {
			p.DeleteClaims = append(p.DeleteClaims, Object{Name: claim.Name, UID: claim.UID, Why: why})
		}
	}
}
