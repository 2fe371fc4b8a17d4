package volumeclaims

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// A pod may be without a node, or fail to mount, for FailureTimeout; then its runner gives way to one with other
	// claims.
	FailureTimeout = time.Minute
	// While no claim is to blame for certain, a runner gives way every swapInterval at most. While there may be no new
	// claim, it is fullSwapInterval: the next runner takes a claim that may have the same fault.
	swapInterval     = time.Minute
	fullSwapInterval = 5 * time.Minute
	// Kubernetes leaves pods on a node that it has lost for lostNodeTimeout, if they don't say otherwise. A claim of
	// whose place nothing is known for that long is not waited for.
	lostNodeTimeout = 5 * time.Minute
	// discardInterval is the shortest time between two claims that are discarded because pods got no node with them, or
	// could not mount them: in a cluster that stays full, or with a storage driver that fails everywhere, the content
	// of few is lost by mistake.
	discardInterval = 5 * time.Minute
	// A runner that should give way and may not yet is looked at again every stuckInterval.
	stuckInterval = 15 * time.Second
)

// concession has the condition on which a runner gives way to another one, which gets other claims.
type concession struct {
	name string
	// up is set if the rule is also for runners whose container has started and that have no job.
	up      bool
	applies func(*Pool, *Runner, *bundle) bool
	reason  string
	message func(*Runner, *bundle) string
	// does has the other effects, nil if there are none.
	does func(*Pool, *Decision, *Runner, *bundle)
}

// concessions are the rules for a runner whose pod has not started, or has no job yet. The first that applies decides.
var concessions = []concession{
	{name: "another runner, which comes first, has the same claim", reason: v1alpha1.ReasonVolumeClaimShared,
		applies: func(_ *Pool, r *Runner, b *bundle) bool { return firstHolder(b) != r },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("runner %s has the same claims as runner %s: another runner takes its place", r.Name,
				firstHolder(b).Name)
		}},
	{name: "its claims are from another address or group", up: true, reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, _ *Runner, b *bundle) bool { return p.foreign(b) },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("runner %s has %s of another GitHub address or runner group than the scale set now: "+
				"another runner takes its place", r.Name, b)
		}},
	{name: "the volume of its claim is gone", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(_ *Pool, _ *Runner, b *bundle) bool { return b.any(func(c *Claim) bool { return c.Lost }) },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("a volume of %s, which runner %s has, is gone: another runner takes its place",
				b, r.Name)
		}},
	{name: "a claim that it names is none that it may have", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(_ *Pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Unusable },
		message: func(r *Runner, _ *bundle) string {
			return fmt.Sprintf("runner %s can't have a claim that it names: another runner takes its place", r.Name)
		}},
	{name: "the API server refuses its claim, and another one is free", reason: v1alpha1.ReasonVolumeClaimRefused,
		applies: func(p *Pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Refused && p.spare > 0 },
		message: func(r *Runner, _ *bundle) string {
			return fmt.Sprintf("the API server refuses a claim for runner %s, and another claim has become free: "+
				"another runner takes its place", r.Name)
		},
		does: func(p *Pool, _ *Decision, _ *Runner, _ *bundle) { p.spare-- }}, // each serves one
	{name: "its node can't attach or mount its claims", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return r.Failure.Kind == Unmounted && p.failedFor(r, FailureTimeout)
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s could not mount %s for %s: another runner takes its place",
				r.Name, b,
				FailureTimeout)
		},
		does: (*Pool).blameInTurn},
	{name: "its claim was deleted before its pod had a node", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, b *bundle) bool {
			return p.unplaced(r) && slices.ContainsFunc(slices.Collect(maps.Keys(r.Claims)),
				func(template string) bool {
					claim := b.claims[template]
					return r.Claims[template] != "" && (claim == nil || claim.Deleting)
				})
		},
		message: func(r *Runner, _ *bundle) string {
			return fmt.Sprintf("a claim of runner %s was deleted while its pod waited for a node: another "+
				"runner takes its place", r.Name)
		}},
	{name: "its claims have no volume, and their template is another one now",
		reason:  v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, b *bundle) bool { return p.unplaced(r) && b.any((*Claim).outdated) },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("%s of runner %s got no volume for %s, and volumeClaimTemplates has changed since: "+
				"another runner takes its place", b, r.Name, FailureTimeout)
		}},
	{name: "its claims have no volume, and another one is free", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && !p.bound(r) && p.spare > 0 &&
				(p.passedOver(r) > p.swapsSince(r) || p.rested(fullSwapInterval))
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("%s of runner %s got no volume for %s, and another claim is free: another runner "+
				"takes its place", b, r.Name, FailureTimeout)
		},
		does: func(p *Pool, d *Decision, r *Runner, b *bundle) {
			p.spare--
			p.swap(r, b)
			p.blame(d, r, b)
		}},
	{name: "it has no node, and a later runner with other claims has got one",
		reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && p.passedOver(r) > p.swapsSince(r)
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s, and a later one did: another "+
				"runner takes its place", r.Name, b, FailureTimeout)
		},
		does: func(p *Pool, d *Decision, r *Runner, b *bundle) {
			p.swap(r, b)
			p.blameInTurn(d, r, b)
		}},
	{name: "it has no node, and nothing shows that the cluster is full", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && !p.unboundWaits && p.maySwap()
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s: another runner takes its place, "+
				"with other claims", r.Name, b, FailureTimeout)
		},
		does: func(p *Pool, _ *Decision, r *Runner, b *bundle) { p.swap(r, b) }},
	{name: "it has no node, as if its claims were on a lost one, and there are no others",
		reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			alone := p.bound(r) && !p.unboundWaits && !p.refused && p.spare == 0 && p.room() == 0
			return alone && r.Failure.Kind == Unplaced && p.failedFor(r, lostNodeTimeout) && p.mayDiscard()
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s, and no other claim may be created: "+
				"another runner takes its place", r.Name, b, lostNodeTimeout)
		},
		does: func(p *Pool, d *Decision, r *Runner, b *bundle) {
			p.swap(r, b)
			p.discard(d, r, b, fmt.Sprintf("the pod of runner %s got no node with it for %s, and there is no other",
				r.Name,
				lostNodeTimeout))
		}},
}

// giveWay plans the runners that make room for others because of their claims, and the records of that.
func (p *Pool) giveWay(d *Decision) {
	good, _ := p.free()
	for _, b := range good {
		if !b.any(func(c *Claim) bool { return !c.Bound }) {
			p.spare++
		}
	}
	for i := range p.world.Runners {
		r := &p.world.Runners[i]
		if !r.living() {
			continue
		}
		for _, timeout := range []time.Duration{FailureTimeout, lostNodeTimeout} {
			if due := r.Failure.Since.Add(timeout); r.Failure.Kind != "" && due.After(p.now) {
				d.requeueBy(due)
			}
		}
		suffixes := p.suffixes(r.Claims)
		if len(suffixes) != 1 || r.Deleting {
			continue // somebody else has made it, or it goes anyway
		}
		b := p.bundles[suffixes[0]]
		at := slices.IndexFunc(concessions, func(c concession) bool { return (c.up || !r.Up) && c.applies(p, r, b) })
		if at < 0 {
			if p.unplaced(r) {
				d.requeueBy(p.now.Add(stuckInterval))
			}
			continue
		}
		rule := &concessions[at]
		if rule.does != nil {
			rule.does(p, d, r, b)
		}
		d.Replacements = append(d.Replacements,
			Replacement{Runner: r.Name, Reason: rule.reason, Message: rule.message(r, b)})
	}
	d.swapped, d.swappedBound, d.discarded = p.swapped, p.swappedBound, p.discarded
}

// swap remembers that a runner gives a bundle up in the hope of another place.
func (p *Pool) swap(r *Runner, b *bundle) {
	p.swapped = append(p.swapped, b.suffix)
	p.swappedBound = p.swappedBound || p.bound(r)
}

// blameInTurn records that a runner could not use a bundle, unless that would discard it too soon after another one.
func (p *Pool) blameInTurn(d *Decision, r *Runner, b *bundle) {
	if len(b.failures) < maxFailures-1 || p.mayDiscard() {
		p.blame(d, r, b)
	}
}

// blame records that a runner could not use a bundle. After the second in a row the bundle is discarded.
func (p *Pool) blame(d *Decision, r *Runner, b *bundle) {
	if !slices.ContainsFunc(b.failures, func(f FailedUse) bool { return f.Runner == r.Name }) {
		b.failures = append(slices.Clone(b.failures), FailedUse{Runner: r.Name, At: r.Failure.Since})
		if first := b.first(); first != nil && len(b.failures) < maxFailures {
			fields := make([]string, 0, maxFailures)
			for _, failure := range b.failures {
				fields = append(fields, failure.Runner+"@"+failure.At.UTC().Format(time.RFC3339))
			}
			p.write(d, first, v1alpha1.AnnotationVolumeClaimFailures, strings.Join(fields, " "))
		}
	}
	if len(b.failures) >= maxFailures {
		p.discard(d, r, b, b.blames())
	}
}

// discard plans to delete a bundle that a runner could not use.
func (p *Pool) discard(d *Decision, r *Runner, b *bundle, because string) {
	p.discarded = p.discarded || p.bound(r)
	p.deleteAll(d, b, Discarded, because, r.Name)
}

// mayDiscard reports whether a bundle may be discarded because a pod could not use it.
func (p *Pool) mayDiscard() bool {
	return !p.discarded && (p.memory.discardedAt.IsZero() || !p.now.Before(p.memory.discardedAt.Add(discardInterval)))
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

func (p *Pool) failedFor(r *Runner, timeout time.Duration) bool {
	return !p.now.Before(r.Failure.Since.Add(timeout))
}

func (p *Pool) unplaced(r *Runner) bool {
	return !r.Up && r.Failure.Kind == Unplaced && p.failedFor(r, FailureTimeout)
}

// passedOver counts the runners that are younger than r and have got a node since it was found to have none. Each shows
// that there is a place; in a full cluster it is the one that an ended job has left, so each lets a single runner give
// way.
func (p *Pool) passedOver(r *Runner) (count int) {
	for i := range p.world.Runners {
		other := &p.world.Runners[i]
		if other.CreatedAt.After(r.CreatedAt) && other.PlacedAt.After(r.Failure.Since) {
			count++
		}
	}
	return count
}

// swapsSince counts the runners that have given way in the hope of another place since r was found to have none.
func (p *Pool) swapsSince(r *Runner) int {
	count := len(p.swapped)
	for _, at := range p.memory.swaps {
		if at.After(r.Failure.Since) {
			count++
		}
	}
	return count
}

// maySwap reports whether a runner may give way although nothing shows that there is another place: there are other
// claims, and no runner has given way lately.
func (p *Pool) maySwap() bool {
	switch {
	case p.room() > 0:
		return p.rested(swapInterval)
	case p.spare > 0:
		return p.rested(fullSwapInterval)
	}
	return false
}

// rested reports whether no runner has given way in the hope of another place for that long.
func (p *Pool) rested(interval time.Duration) bool {
	swaps := p.memory.swaps
	return len(p.swapped) == 0 && (len(swaps) == 0 || !p.now.Before(swaps[len(swaps)-1].Add(interval)))
}

// blames names the runners that could not use the bundle.
func (b *bundle) blames() string {
	last := b.failures[len(b.failures)-1]
	return fmt.Sprintf("the pods of %d runners in a row, the last of them %s, could not be placed with it or mount it",
		len(b.failures), last.Runner)
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
