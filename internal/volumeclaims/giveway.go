package volumeclaims

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
	"github.com/harrier-ci/harrier/internal/volumeclaims/waiting"
)

const (
	// discardInterval is the shortest time between two claims that are discarded because pods could not mount them.
	discardInterval = 5 * time.Minute
	// A runner whose pod has no node is looked at again every stuckInterval: what is known of nodes changes.
	stuckInterval = 15 * time.Second
	// So many later pods with claims of the same place have to get nodes before a pod blames its claim: in a full place one
	// is often luckier than another.
	enoughToBypass = 3
)

// concession has the condition on which a runner gives way to another one, which gets other claims. Runners that wait
// for a node with volumes are not among them: package waiting decides about those.
type concession struct {
	name string
	// up is set if the rule is also for runners whose container has started and that have no job.
	up bool
	// applies returns the reason in words, empty if the rule doesn't apply.
	applies func(*Pool, *Runner, *bundle) string
	reason  string
	// does has the other effects, nil if there are none.
	does func(*Pool, *Decision, *Runner, *bundle)
}

// concessions are the rules for a runner whose pod has not started, or has no job yet. The first that applies decides.
var concessions = []concession{
	{name: "another runner, which comes first, has the same claim", reason: v1alpha1.ReasonVolumeClaimShared,
		applies: func(_ *Pool, r *Runner, b *bundle) string {
			return when(firstHolder(b) != r, "it has the same claims as runner %s", firstHolder(b).Name)
		}},
	{name: "its claims are from another address or group", up: true, reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, _ *Runner, b *bundle) string {
			return when(p.foreign(b), "%s is of another GitHub address or runner group than the scale set now", b)
		}},
	{name: "a claim of it can't be used by anybody, or is none that it may have",
		reason: v1alpha1.ReasonVolumeClaimUnusable, applies: (*Pool).unusable},
	{name: "the API server refuses its claim", reason: v1alpha1.ReasonVolumeClaimRefused,
		applies: func(p *Pool, r *Runner, b *bundle) string {
			late := p.ephemeralInstead() && p.failedFor(r, FailureTimeout)
			return when(r.Failure.Kind == Refused && (len(p.spare) > 0 || late),
				"the API server refuses a claim, and it needs not wait")
		},
		does: func(p *Pool, d *Decision, _ *Runner, b *bundle) { d.follow.storageFailed = true; p.takes(b, false) }},
	{name: "its claims get no volume, and are copies of a snapshot that is not the newest any more",
		reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, b *bundle) string {
			return when(p.ofSnapshots() && !p.bound(r) && r.Failure.Kind == Unprovisioned &&
				p.failedFor(r, FailureTimeout) && r.Seed != p.world.Snapshot,
				"%s got no volume for %s, and there is another snapshot to copy", b,
				p.now.Sub(r.Failure.Since).Truncate(time.Second))
		}},
	{name: "its claims get no volume", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, b *bundle) string {
			fails := r.Failure.Kind == Unprovisioned && p.failedFor(r, FailureTimeout)
			waits := r.Failure.Kind == Unplaced && p.failedFor(r, r.Patience) && p.boundWaitsSince.IsZero() // else no node is free
			return when(!p.bound(r) && ((fails && (len(p.spare) > 0 || p.ephemeralInstead())) ||
				(waits && len(p.spare) > 0)),
				"%s got no volume for %s, and it needs not wait", b, p.now.Sub(r.Failure.Since).Truncate(time.Second))
		},
		does: func(p *Pool, d *Decision, r *Runner, b *bundle) {
			d.follow.storageFailed = d.follow.storageFailed || r.Failure.Kind == Unprovisioned
			p.takes(b, false)
		}},
	{name: "its node can't attach or mount its claims", reason: v1alpha1.ReasonVolumeClaimUnusable,
		applies: func(p *Pool, r *Runner, b *bundle) string {
			return when(r.Failure.Kind == Unmounted && p.failedFor(r, FailureTimeout),
				"its node could not mount %s for %s", b, FailureTimeout)
		},
		does: (*Pool).blameMount},
}

// when returns a text if a condition holds, else nothing.
func when(condition bool, format string, arguments ...any) string {
	if !condition {
		return ""
	}
	return fmt.Sprintf(format, arguments...)
}

// unusable says why nobody can use a claim of a runner that waits, or why the runner may not.
func (p *Pool) unusable(r *Runner, b *bundle) string {
	gone := slices.ContainsFunc(slices.Collect(maps.Keys(r.Claims)), func(template string) bool {
		claim := b.claims[template]
		return r.Claims[template] != "" && (claim == nil || claim.Deleting)
	})
	switch {
	case r.Failure.Kind == Unusable:
		return "it can't have a claim that it names"
	case b.any(func(c *Claim) bool { return c.Lost }):
		return fmt.Sprintf("a volume of %s is gone", b)
	case !p.unplaced(r):
		return ""
	case gone:
		return fmt.Sprintf("a claim of %s was deleted while its pod waited for a node", b)
	case b.any((*Claim).outdated):
		return fmt.Sprintf("%s got no volume, and volumeClaimTemplates has changed since", b)
	}
	return ""
}

// ephemeralInstead reports whether a runner may have an empty directory instead of a claim.
func (p *Pool) ephemeralInstead() bool { return p.policy.WhenExhausted == v1alpha1.EphemeralVolume }

// giveWay plans the runners that make room for others because of their claims, and the records of that.
func (p *Pool) giveWay(d *Decision) {
	good, _ := p.free()
	for _, b := range good {
		if !b.any(func(c *Claim) bool { return !c.Bound }) {
			p.spare = append(p.spare, b)
		}
	}
	p.fresh = p.room()
	for i := range p.world.Runners {
		r := &p.world.Runners[i]
		if !r.living() {
			continue
		}
		if due := r.Failure.Since.Add(FailureTimeout); r.Failure.Kind != "" && due.After(p.now) {
			d.requeueBy(due)
		}
		if r.Failure.Kind == Unprovisioned && p.failedFor(r, FailureTimeout) &&
			(d.Unprovisioned == "" || r.Name < d.Unprovisioned) {
			d.Unprovisioned = r.Name
		}
		suffixes := p.suffixes(r.Claims)
		if len(suffixes) != 1 || r.Deleting {
			continue // somebody else has made it, or it goes anyway
		}
		b := p.bundles[suffixes[0]]
		if !p.concede(d, r, b) {
			p.await(d, r, b)
		}
	}
}

// concede lets a runner give way if a concession applies to it.
func (p *Pool) concede(d *Decision, r *Runner, b *bundle) bool {
	for i := range concessions {
		rule := &concessions[i]
		if r.Up && !rule.up {
			continue
		}
		why := rule.applies(p, r, b)
		if why == "" {
			continue
		}
		if rule.does != nil {
			rule.does(p, d, r, b)
		}
		p.replace(d, r, rule.reason, why)
		return true
	}
	return false
}

// await lets a runner that waits for a node keep its claims or change them.
func (p *Pool) await(d *Decision, r *Runner, b *bundle) {
	if r.Up || (r.Failure.Kind != Unplaced && r.Failure.Kind != Unprovisioned) {
		return
	}
	if !p.bound(r) {
		d.requeueBy(p.now.Add(stuckInterval))
		return
	}
	if b.at >= places.Empty {
		d.AwaitPlace.Insert(r.Name)
		if p.failedFor(r, r.Patience/2) && (d.PlaceLost == "" || r.Name < d.PlaceLost) {
			d.PlaceLost = r.Name
		}
	}
	pod := p.waits(d, r, b)
	verdict := waiting.Decide(pod)
	if !verdict.Change {
		d.requeueBy(p.now.Add(stuckInterval))
		return
	}
	switch {
	case verdict.Claim:
		d.follow.blamed[b.itself()] = places.Unknown
	default:
		d.follow.blamed[b.key()] = b.at
	}
	switch {
	case verdict.Try:
		d.follow.tried = true
	case pod.Overtaken && !verdict.Claim:
		d.follow.swaps++
	}
	if verdict.Discard {
		p.deleteAll(d, b, Discarded, fmt.Sprintf("%s (%s), and there is no room for another one", verdict.Why, b.key()),
			r.Name)
	} else {
		p.takes(b, verdict.Claim)
	}
	p.replace(d, r, v1alpha1.ReasonVolumeClaimUnusable, fmt.Sprintf("its pod with %s (%s) got no node for %s: %s", b,
		b.key(), pod.Waits.Truncate(time.Second), verdict.Why))
}

// waits returns what is known of a runner whose pod has no node although its claims have volumes.
func (p *Pool) waits(d *Decision, r *Runner, b *bundle) *waiting.Pod {
	overtaken, bypassed := p.passedOver(r, b)
	elsewhere := func(other *bundle) bool { return other.key() != b.key() }
	outside := !b.any(func(c *Claim) bool { return c.Bound && !c.Place.Elsewhere(p.world.Nodes) })
	return &waiting.Pod{
		Waits: p.now.Sub(r.Failure.Since), Patience: r.Patience, Place: b.at,
		Announced: r.Announced, Denied: r.Denied, Settled: p.settled, Outside: outside,
		NodesCome: p.memory.nodesCome, Overtaken: overtaken > p.swapsSince(r)+d.follow.swaps,
		Bypassed: bypassed >= enoughToBypass,
		Tried:    p.unboundWaits || d.follow.tried || p.triedWithin(r.Patience),
		Instead: waiting.Instead{
			Used: slices.ContainsFunc(p.spare, func(other *bundle) bool {
				return elsewhere(other) && other.at == places.Reachable
			}),
			Other: slices.ContainsFunc(p.spare, elsewhere) || (bypassed >= enoughToBypass && len(p.spare) > 0),
			Fresh: p.fresh > 0, Directory: p.policy.WhenExhausted == v1alpha1.EphemeralVolume,
		},
	}
}

// takes counts what a runner's successor gets: a free bundle, of another place unless same is set, else a new one.
func (p *Pool) takes(b *bundle, same bool) {
	best := -1
	for i, other := range p.spare {
		if (same || other.key() != b.key()) && (best < 0 || other.at < p.spare[best].at) {
			best = i
		}
	}
	if best >= 0 {
		p.spare = slices.Delete(p.spare, best, best+1)
	} else if p.fresh > 0 {
		p.fresh--
	}
}

// passedOver counts the runners that are younger than r and have got a node since it was found to have none. Each with
// claims of another place shows that there is a node elsewhere; in a full cluster it is the one that an ended job has
// left, so each lets a single runner give way. Several of the same place show that the claim is what keeps it.
func (p *Pool) passedOver(r *Runner, b *bundle) (elsewhere, same int) {
	for _, other := range p.memory.placed {
		switch {
		case !other.createdAt.After(r.CreatedAt) || !other.at.After(r.Failure.Since):
		case slices.ContainsFunc(other.suffixes, func(suffix string) bool {
			return p.bundles[suffix] != nil && p.bundles[suffix].key() == b.key()
		}):
			same++
		default:
			elsewhere++
		}
	}
	return elsewhere, same
}

// swapsSince counts the runners that have given way because others have got nodes since r was found to have none.
func (p *Pool) swapsSince(r *Runner) (count int) {
	for _, at := range p.memory.swaps {
		if at.After(r.Failure.Since) {
			count++
		}
	}
	return count
}

// triedWithin reports whether a runner has given way in hope for that long.
func (p *Pool) triedWithin(patience time.Duration) bool {
	return !p.memory.triedAt.IsZero() && p.now.Before(p.memory.triedAt.Add(patience))
}

func (p *Pool) replace(d *Decision, r *Runner, reason, why string) {
	d.Replacements = append(d.Replacements, Replacement{Runner: r.Name, Reason: reason,
		Message: fmt.Sprintf("another runner, with other claims, takes the place of runner %s: %s", r.Name, why)})
}

// blameMount records that a node could not mount a bundle for a runner. After the second in a row the bundle is
// discarded if it is to blame, and not the storage: while several can't be mounted none is.
func (p *Pool) blameMount(d *Decision, r *Runner, b *bundle) {
	if p.ephemeralInstead() {
		d.follow.owed++
	}
	if len(p.memory.unmounted) > 1 ||
		(len(b.failures) >= maxFailures-1 && (!p.mayDiscard(d) || !p.isToBlame(b))) {
		return
	}
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
		d.follow.discarded = true
		p.deleteAll(d, b, Discarded, b.blames(), r.Name)
	}
}

// isToBlame reports whether another bundle was mounted after this one could not be, or there is no other that could
// have been, and no runner that can do without.
func (p *Pool) isToBlame(b *bundle) bool {
	others := 0
	for suffix, other := range p.bundles {
		if other == b || len(other.claims) == 0 {
			continue
		}
		others++
		if p.memory.worked[suffix].After(b.failures[0].At) {
			return true
		}
	}
	return others == 0 && !p.ephemeralInstead()
}

// mayDiscard reports whether a bundle may be discarded because a node could not mount it.
func (p *Pool) mayDiscard(d *Decision) bool {
	last := p.memory.discardedAt
	return !d.follow.discarded && (last.IsZero() || !p.now.Before(last.Add(discardInterval)))
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
	return !r.Up && (r.Failure.Kind == Unplaced || r.Failure.Kind == Unprovisioned) && p.failedFor(r, FailureTimeout)
}
