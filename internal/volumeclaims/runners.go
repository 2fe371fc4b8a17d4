package volumeclaims

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// avoidedFor is how long a bundle that a runner could not use is leased last: until then a zone or node has usually got room.
	avoidedFor = 10 * time.Minute
	// newFirstFor is how long new bundles, which fit anywhere, are preferred after a runner has given way in the hope of another
	// place: free ones may be bound to the same full zone.
	newFirstFor = 2 * time.Minute
)

// lease gives that many new runners their bundles: a free one, of those the warmest; else a new one; else one that has failed
// lately; else none.
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

// wait says for what the remaining runners wait.
func (p *Pool) wait(d *Decision, remaining int) {
	if remaining == 0 {
		return
	}
	d.Waiting, d.Wait = remaining, WaitForFreeClaim
	if p.refused {
		d.Wait = WaitForNewClaim
	}
}

// free returns the bundles that may be leased, the warmest first, and those of them that a runner could not use lately.
func (p *Pool) free() (good, failed []*bundle) {
	for _, b := range p.in(stateFree) {
		if p.now.Before(p.avoidedUntil(b)) {
			failed = append(failed, b)
		} else {
			good = append(good, b)
		}
	}
	return good, failed
}

// avoidedUntil is until when a bundle is leased last.
func (p *Pool) avoidedUntil(b *bundle) time.Time {
	latest := p.memory.avoided[b.suffix]
	for _, failure := range b.failures {
		if failure.At.After(latest) {
			latest = failure.At
		}
	}
	if latest.IsZero() || latest.After(p.now) { // nobody has failed in the future: somebody else's annotation
		return time.Time{}
	}
	return latest.Add(avoidedFor)
}

// seed returns the suffix of the bundle that new ones are copies of, empty for none: one that is being copied already, else the
// warmest free one, which is held back if there are more runners than free bundles and none has to wait for that.
func (p *Pool) seed(wanted int) string {
	usable := func(b *bundle) bool {
		return b.spoiledBy == "" && len(b.failures) == 0 && !b.any(func(c *Claim) bool { return c.Scope != p.scope || c.Lost })
	}
	cloning := p.in(stateCloning)
	if at := slices.IndexFunc(cloning, usable); at >= 0 {
		return cloning[at].suffix
	}
	free, failed := p.free()
	good := slices.DeleteFunc(slices.Clone(free), func(b *bundle) bool { return b.any(func(c *Claim) bool { return !c.Bound }) })
	others := len(free) + len(failed) - 1
	if len(good) == 0 || wanted <= others+1 || wanted-others > p.room() {
		return ""
	}
	return good[0].suffix
}

// room returns how many more bundles may be created. While the API server refuses claims, none is: the runners that wait for
// theirs try again, and further ones would only join them.
func (p *Pool) room() int {
	room := math.MaxInt
	for _, template := range p.templates {
		if p.policy.Max != nil {
			room = min(room, *p.policy.Max-p.exist[template])
		}
	}
	if p.refused {
		return 0
	}
	return max(0, room)
}

func (p *Pool) full(template string) bool {
	return p.policy.Max != nil && p.exist[template] >= *p.policy.Max
}

// newFirst reports whether a new bundle is better than a free one.
func (p *Pool) newFirst() bool {
	return !p.memory.swappedAt.IsZero() && p.now.Before(p.memory.swappedAt.Add(newFirstFor))
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

// leaseOf returns what the holder of a bundle gets.
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

const (
	// failureTimeout is how long a pod may be without a node, or fail to mount, before its runner gives way to one with other
	// claims.
	failureTimeout = time.Minute
	// swapInterval is the shortest time between two runners that give way although no claim is to blame for certain, and
	// fullSwapInterval the same while there may be no new claim, so that each of them takes one that may have the same fault.
	swapInterval     = time.Minute
	fullSwapInterval = 5 * time.Minute
)

// concession says when a runner gives way to another one, which gets other claims.
type concession struct {
	name    string
	applies func(*Pool, *Runner, *bundle) bool
	reason  string
	message func(*Runner, *bundle) string
	// blames is set if the failure counts against the bundle; swaps if it doesn't, and another place is hoped for.
	blames, swaps bool
}

// concessions are the rules for a runner whose pod has not started. The first that applies decides.
var concessions = []concession{
	{name: "another runner, which comes first, has the same claim", reason: v1alpha1.ReasonVolumeClaimShared,
		applies: func(_ *Pool, r *Runner, b *bundle) bool { return firstHolder(b) != r },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("runner %s has the same claims as runner %s: another runner takes its place", r.Name, firstHolder(b).Name)
		}},
	{name: "the API server refuses its claim, and another one is free", reason: v1alpha1.ReasonVolumeClaimRefused,
		applies: func(p *Pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Refused && p.spare > 0 },
		message: func(r *Runner, _ *bundle) string {
			return fmt.Sprintf("the API server refuses a claim for runner %s, and another claim has become free: another runner takes its place", r.Name)
		}},
	{name: "its node can't attach or mount its claims", reason: v1alpha1.ReasonVolumeClaimUnusable, blames: true,
		applies: func(p *Pool, r *Runner, _ *bundle) bool { return r.Failure.Kind == Unmounted && p.failedLong(r) },
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s could not mount %s for %s: another runner takes its place", r.Name, b, failureTimeout)
		}},
	{name: "it has no node, and runners with other claims have got one since", reason: v1alpha1.ReasonVolumeClaimUnusable, blames: true,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && p.placedAt.After(r.Failure.Since)
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s, and others did: another runner takes its place", r.Name, b, failureTimeout)
		}},
	{name: "it has no node, and nothing shows that the cluster is full", reason: v1alpha1.ReasonVolumeClaimUnusable, swaps: true,
		applies: func(p *Pool, r *Runner, _ *bundle) bool {
			return p.unplaced(r) && p.bound(r) && !p.unboundWaits && p.maySwap()
		},
		message: func(r *Runner, b *bundle) string {
			return fmt.Sprintf("the pod of runner %s with %s got no node for %s: another runner takes its place, with other claims", r.Name, b, failureTimeout)
		}},
}

// giveWay plans which runners make room for others because of their claims, and what is recorded of that.
func (p *Pool) giveWay(d *Decision) {
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
func (p *Pool) blame(d *Decision, r *Runner, b *bundle) {
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
		fields := make([]string, 0, maxFailures)
		for _, failure := range b.failures {
			fields = append(fields, failure.Runner+"@"+failure.At.UTC().Format(time.RFC3339))
		}
		p.write(d, first, v1alpha1.AnnotationVolumeClaimFailures, strings.Join(fields, " "))
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

func (p *Pool) failedLong(r *Runner) bool { return !p.now.Before(r.Failure.Since.Add(failureTimeout)) }

func (p *Pool) unplaced(r *Runner) bool { return r.Failure.Kind == Unplaced && p.failedLong(r) }

// maySwap reports whether a runner may give way in the hope of a better place: there are other claims, and no other has done so
// lately.
func (p *Pool) maySwap() bool {
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
