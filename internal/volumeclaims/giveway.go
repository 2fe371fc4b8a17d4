package volumeclaims

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// failureTimeout is how long a pod may be without a node, or fail to mount, before its runner gives way to one with other
	// claims.
	failureTimeout = time.Minute
	// maxFailures is how many runners in a row must have failed to use a bundle for it to be discarded.
	maxFailures = 2
	// swapInterval is the shortest time between two runners that give way although no claim is to blame for certain, and
	// fullSwapInterval the same while there may be no new claim, so that each of them takes one that may have the same fault.
	swapInterval     = time.Minute
	fullSwapInterval = 5 * time.Minute
)

// concession says when a runner gives way to another one, which gets other claims.
type concession struct {
	name    string
	applies func(*pool, *Runner, *bundle) bool
	reason  string
	message func(*Runner, *bundle) string
	// blames is set if the failure counts against the bundle; swaps if it doesn't, and another place is hoped for.
	blames, swaps bool
}

// concessions are the rules for a runner whose pod has not started. The first that applies decides.
var concessions = []concession{
	{name: "another runner, which comes first, has the same claim", reason: v1alpha1.ReasonVolumeClaimShared,
		applies: func(_ *pool, r *Runner, b *bundle) bool { return firstHolder(b) != r },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("runner %s has the same claims as runner %s: another runner takes its place", r.Name, firstHolder(b).Name)
		}},
	{name: "the API server refuses its claim, and another one is free", reason: v1alpha1.ReasonVolumeClaimRefused,
		applies: func(p *pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Refused && p.spare > 0 },
		message: func(r *Runner, _ *bundle) string {
			return fmt.Sprintf("the API server refuses a claim for runner %s, and another claim has become free: another runner takes its place", r.Name)
		}},
	{name: "its node can't attach or mount its claims", reason: v1alpha1.ReasonVolumeClaimUnusable, blames: true,
		applies: func(p *pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Unmounted && p.failedLong(r) },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s could not mount %s for %s: another runner takes its place", r.Name, b, failureTimeout)
		}},
	{name: "it has no node, and runners with other claims have got one since", reason: v1alpha1.ReasonVolumeClaimUnusable, blames: true,
		applies: func(p *pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && p.placedAt.After(r.Failure.Since)
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s, and others did: another runner takes its place", r.Name, b, failureTimeout)
		}},
	{name: "it has no node, and nothing shows that the cluster is full", reason: v1alpha1.ReasonVolumeClaimUnusable, swaps: true,
		applies: func(p *pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && !p.unboundWaits && p.maySwap()
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s: another runner takes its place, with other claims", r.Name, b, failureTimeout)
		}},
}

// giveWay plans which runners make room for others because of their claims, and what is recorded of that.
func (p *pool) giveWay(d *Decision) {
	good, _ := p.free()
	p.spare = len(good)
	for i := range p.world.Runners {
		r := &p.world.Runners[i]
		if !r.living() || r.Up {
			continue
		}
		if !r.Failure.Since.IsZero() {
			d.requeueBy(laterThan(p.now, r.Failure.Since.Add(failureTimeout)))
		}
		suffixes := p.suffixes(r.Claims)
		if len(suffixes) != 1 || r.Deleting {
			continue // somebody else has made it, or it goes anyway
		}
		b := p.bundles[suffixes[0]]
		at := slices.IndexFunc(concessions, func(c concession) bool { return c.applies(p, r, b) })
		if at < 0 {
			continue
		}
		rule := &concessions[at]
		switch {
		case rule.blames:
			p.blame(d, r, b)
		case rule.swaps:
			d.avoid = append(d.avoid, b.suffix)
			p.swapped = true
		case rule.reason == v1alpha1.ReasonVolumeClaimRefused:
			p.spare-- // each free bundle serves one
		}
		d.Replacements = append(d.Replacements, Replacement{Runner: r.Name, Reason: rule.reason, Message: rule.message(r, b)})
	}
}

// blame records that a runner could not use a bundle. After the second in a row the bundle is discarded.
func (p *pool) blame(d *Decision, r *Runner, b *bundle) {
	if slices.ContainsFunc(b.failures, func(f FailedUse) bool { return f.Runner == r.Name }) {
		if len(b.failures) >= maxFailures {
			p.deleteAll(d, b, Discarded, b.blames(), r.Name)
		}
		return
	}
	b.failures = append(slices.Clone(b.failures), FailedUse{Runner: r.Name, At: r.Failure.Since})
	if len(b.failures) >= maxFailures {
		p.deleteAll(d, b, Discarded, b.blames(), r.Name)
		return
	}
	if first := b.first(); first != nil {
		p.write(d, first, v1alpha1.AnnotationVolumeClaimFailures, formatFailures(b.failures))
	}
}

// firstHolder returns the runner that keeps a bundle that several name: one whose pod is up, else the oldest.
func firstHolder(b *bundle) *Runner {
	first := b.holders[0]
	for _, r := range b.holders[1:] {
		switch {
		case r.Up != first.Up:
			if r.Up {
				first = r
			}
		case r.CreatedAt.Before(first.CreatedAt) || (r.CreatedAt.Equal(first.CreatedAt) && r.Name < first.Name):
			first = r
		}
	}
	return first
}

func (p *pool) failedLong(r *Runner) bool { return !p.now.Before(r.Failure.Since.Add(failureTimeout)) }

func (p *pool) unplaced(r *Runner) bool { return r.Failure.Kind == Unplaced && p.failedLong(r) }

// maySwap reports whether a runner may give way in the hope of a better place: there are other claims, and no other has done so
// lately.
func (p *pool) maySwap() bool {
	interval := swapInterval
	switch {
	case p.swapped:
		return false // one at a time
	case p.room() > 0:
	case p.spare > 0:
		interval = fullSwapInterval
	default:
		return false
	}
	return p.memory.swappedAt.IsZero() || !p.now.Before(p.memory.swappedAt.Add(interval))
}

// blames says which runners could not use the bundle.
func (b *bundle) blames() string {
	last := b.failures[len(b.failures)-1]
	return fmt.Sprintf("the pods of %d runners in a row, the last of them %s, could not be placed with it or mount it", len(b.failures), last.Runner)
}

// String names the bundle's claims.
func (b *bundle) String() string {
	names := make([]string, 0, len(b.claims))
	for _, template := range slices.Sorted(maps.Keys(b.claims)) {
		names = append(names, b.claims[template].Name)
	}
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return fmt.Sprintf("claims %v", names)
}

// laterThan returns t if it is still to come, else zero.
func laterThan(now, t time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}
