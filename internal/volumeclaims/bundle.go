package volumeclaims

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// The recorded use of a bundle may be behind by shortestRecordInterval or idleTTL/recordFraction, whichever is longer:
// a bundle in constant use costs one request in that time, 42 h by default, and none if idleTTL is 0.
const (
	shortestRecordInterval = 15 * time.Minute
	recordFraction         = 4
	// A bundle that a runner could not use is leased last for avoidedBackoff: until then a zone or node has usually got
	// room.
	avoidedBackoff = 10 * time.Minute
)

// Pool puts together all that a plan knows of a set's claims.
type Pool struct {
	world     *World
	memory    *Memory
	now       time.Time
	policy    v1alpha1.VolumeClaimPool
	templates []string // names, sorted
	scope     string
	bundles   map[string]*bundle
	// held are the names of claims that are named by runners that may still run, or mounted by pods.
	held sets.Set[string]
	// exist counts, by template, the claims that exist or may exist, and going those of them that are being deleted.
	exist, going map[string]int
	// unknown is set if a runner exists, or may exist, whose claims aren't known.
	unknown bool
	// refused is set if a runner waits for a claim that the API server refuses.
	refused bool
	// unboundWaits is set if a runner waits for a node that could have any node as far as its claims are concerned.
	unboundWaits bool
	// At reportDue the first of the awaited reports is no longer waited for.
	reportDue time.Time
	// spare counts the free bundles with volumes that are left and have not failed lately.
	spare int
	// swapped are the suffixes of bundles that runners give up in this plan in the hope of another place; swappedBound
	// is set if one of them has volumes, and discarded if one is discarded because a pod could not use it.
	swapped                 []string
	swappedBound, discarded bool
}

// bundle are the claims of one suffix.
type bundle struct {
	suffix string
	// claims are those that are seen, by template; unseen are the templates of those that may exist besides.
	claims map[string]*Claim
	unseen sets.Set[string]
	// holders are the runners that may still run and name a claim of the bundle. promised is set if a runner may exist
	// that names one, and awaited if such a runner has ended and its job's event or result is not known yet.
	holders                    []*Runner
	promised, mounted, awaited bool
	// cloned is set while claims that are not bound yet are copies of it.
	cloned bool
	// spoiledBy is a runner that has ended, and after whose job, because of its event or result, the bundle is not kept;
	// why is the reason in words.
	spoiledBy, why string
	failures       []FailedUse
	state          state
}

// state decides what may be done with a bundle.
type state string

const (
	stateLeased   state = "leased"
	stateUnseen   state = "unseen"
	stateDeleting state = "deleting"
	stateCloning  state = "cloning"
	stateSeed     state = "seed"
	stateUnfit    state = "unfit" // it must not be used again
	stateFree     state = "free"
)

// stateRule has the condition for a bundle's state.
type stateRule struct {
	name    string
	applies func(*Pool, *bundle) bool
	state   state
}

// states are the rules for a bundle's state. The first that applies decides.
var states = []stateRule{
	{"a runner that may still run names it, a pod mounts it, or a report about its last job may come",
		func(_ *Pool, b *bundle) bool { return b.inUse() }, stateLeased},
	{"no claim of it has been seen", func(_ *Pool, b *bundle) bool { return len(b.claims) == 0 }, stateUnseen},
	{"a claim of it is being deleted",
		func(_ *Pool, b *bundle) bool { return b.any(func(c *Claim) bool { return c.Deleting }) }, stateDeleting},
	{"new claims are being made from it", func(_ *Pool, b *bundle) bool { return b.cloned }, stateCloning},
	{"the user has named it as the seed", func(p *Pool, b *bundle) bool {
		return b.any(func(c *Claim) bool { return c.Name == p.policy.SeedFrom.PersistentVolumeClaim })
	}, stateSeed},
	{"it has no volume, and its template is another one now",
		func(_ *Pool, b *bundle) bool { return b.any((*Claim).outdated) }, stateUnfit},
	{"the volume of one of its claims is gone",
		func(_ *Pool, b *bundle) bool { return b.any(func(c *Claim) bool { return c.Lost }) }, stateUnfit},
	{"it is from another address or group", func(p *Pool, b *bundle) bool { return p.foreign(b) }, stateUnfit},
	{"its last job's event or result is not one to keep it after",
		func(_ *Pool, b *bundle) bool { return b.spoiledBy != "" }, stateUnfit},
	{"pods of two runners in a row could not use it",
		func(_ *Pool, b *bundle) bool { return len(b.failures) >= maxFailures }, stateUnfit},
	{"none of these", func(*Pool, *bundle) bool { return true }, stateFree},
}

// survey puts together what is seen and remembered of the set's claims.
func survey(world *World, memory *Memory) *Pool {
	p := &Pool{
		world: world, memory: memory, now: world.Now,
		policy: world.Set.Spec.EffectiveVolumeClaimPool(), scope: Scope(world.Set),
		bundles: map[string]*bundle{}, held: sets.New[string](), exist: map[string]int{}, going: map[string]int{},
		unknown: !world.Listed,
	}
	for i := range world.Set.Spec.VolumeClaimTemplates {
		p.templates = append(p.templates, world.Set.Spec.VolumeClaimTemplates[i].Metadata.Name)
	}
	slices.Sort(p.templates)
	p.surveyClaims()
	p.surveyRunners()
	for _, b := range p.bundles {
		rule := slices.IndexFunc(states, func(rule stateRule) bool { return rule.applies(p, b) })
		b.state = states[rule].state
	}
	return p
}

// of returns the bundle of that suffix.
func (p *Pool) of(suffix string) *bundle {
	if p.bundles[suffix] == nil {
		p.bundles[suffix] = &bundle{suffix: suffix, claims: map[string]*Claim{}, unseen: sets.New[string]()}
	}
	return p.bundles[suffix]
}

func (p *Pool) surveyClaims() {
	byName := map[string]*bundle{}
	for i := range p.world.Claims {
		claim := p.world.Claims[i] // a copy: a deletion that was asked for counts as seen
		_, asked := p.memory.deleting[claim.UID]
		claim.Deleting = claim.Deleting || asked
		if claim.UsedAt.After(p.now) { // nobody has used it in the future: somebody else's annotation
			claim.UsedAt = kube.EarlierOf(claim.CreatedAt, p.now)
		}
		b := p.of(claim.Suffix)
		b.claims[claim.Template] = &claim
		byName[claim.Name] = b
		p.exist[claim.Template]++
		if claim.Deleting {
			p.going[claim.Template]++
		}
		if len(claim.Failures) > len(b.failures) {
			b.failures = claim.Failures
		}
		if p.world.Mounted.Has(claim.Name) {
			b.mounted = true
			p.held.Insert(claim.Name)
		}
	}
	for name, r := range p.memory.requested {
		if byName[name] == nil {
			p.of(r.suffix).unseen.Insert(r.template)
			p.exist[r.template]++
		}
	}
	for _, b := range p.bundles {
		for _, claim := range b.claims {
			if source := byName[claim.Source]; source != nil && !claim.Bound && !claim.Deleting {
				source.cloned = true
			}
		}
	}
}

func (p *Pool) surveyRunners() {
	seen := sets.New[string]()
	for i := range p.world.Runners {
		r := &p.world.Runners[i]
		seen.Insert(r.Name)
		for _, suffix := range p.suffixes(r.Claims) {
			b := p.of(suffix)
			if r.living() {
				b.holders = append(b.holders, r)
			} else {
				p.surveyEnded(b, r)
			}
		}
		if !r.living() {
			continue
		}
		p.hold(r.Claims, r.Seed)
		p.refused = p.refused || r.Failure.Kind == Refused
		triesAgain := r.Failure.Kind == Refused || r.Failure.Kind == Unusable
		p.unboundWaits = p.unboundWaits || (!r.Up && r.PlacedAt.IsZero() && !triesAgain && !p.bound(r))
	}
	for _, runner := range p.world.Expected {
		lease, promised := p.memory.promised[runner]
		switch {
		case seen.Has(runner):
		case !promised:
			p.unknown = true
		default:
			for _, suffix := range p.suffixes(lease.Claims) {
				p.of(suffix).promised = true
			}
			p.hold(lease.Claims, lease.Seed)
		}
	}
}

// surveyEnded remembers what a runner that has ended has made of a bundle.
func (p *Pool) surveyEnded(b *bundle, r *Runner) {
	switch verdict, why, due := Returns(p.world.Set, r, p.now); verdict {
	case Spoiled:
		b.spoiledBy, b.why = r.Name, why
	case Awaited:
		b.awaited, p.reportDue = true, kube.EarlierOf(p.reportDue, due)
	case Kept:
	}
}

// hold remembers the claims of a runner that may still run, and that the seed is in use until all of them are bound.
func (p *Pool) hold(claims map[string]string, seed string) {
	for _, name := range claims {
		p.held.Insert(name)
	}
	source := p.bundles[seed]
	if source == nil {
		return
	}
	for _, suffix := range p.suffixes(claims) {
		b := p.of(suffix)
		if len(b.unseen) > 0 || b.any(func(c *Claim) bool { return !c.Bound }) || len(b.claims) == 0 {
			source.cloned = true
		}
	}
}

// bound reports whether a claim of the runner is bound, and so may fit some nodes only, or was.
func (p *Pool) bound(r *Runner) bool {
	return slices.ContainsFunc(p.suffixes(r.Claims), func(suffix string) bool {
		b := p.bundles[suffix]
		return b != nil && b.any(func(c *Claim) bool { return c.Bound || c.Lost })
	})
}

// suffixes returns the bundles that a runner's claims belong to: one, unless somebody else has created the runner.
func (p *Pool) suffixes(claims map[string]string) []string {
	var found []string
	for template, name := range claims {
		if suffix, ours := suffixOf(p.world.Set.Name, template, name); ours && !slices.Contains(found, suffix) {
			found = append(found, suffix)
		}
	}
	return found
}

// sorted returns all bundles in the order of their suffixes.
func (p *Pool) sorted() []*bundle {
	all := slices.Collect(maps.Values(p.bundles))
	slices.SortFunc(all, func(a, b *bundle) int { return cmp.Compare(a.suffix, b.suffix) })
	return all
}

// in returns the bundles in a state, in the order of use: those that were used last come first.
func (p *Pool) in(wanted state) []*bundle {
	var found []*bundle
	for _, b := range p.bundles {
		if b.state == wanted {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b *bundle) int {
		return cmp.Or(p.usedAt(b).Compare(p.usedAt(a)), cmp.Compare(a.suffix, b.suffix))
	})
	return found
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

// avoidedUntil returns the time until which a bundle is leased last.
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
	return latest.Add(avoidedBackoff)
}

// room returns the number of bundles that may still be created. While the API server refuses claims, it is 0: the
// runners that wait for theirs try again, and further ones would only join them.
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

// usedAt returns the last time at which a bundle was in use: now, if it is.
func (p *Pool) usedAt(b *bundle) time.Time {
	if used, known := p.memory.usedAt[b.suffix]; known {
		return used
	}
	return p.lastUse(b)
}

// lastUse is the latest time at which a bundle can have been used that this process has not seen in use: its record
// would be newer otherwise.
func (p *Pool) lastUse(b *bundle) time.Time {
	return kube.EarlierOf(p.now, b.recorded().Add(p.recordInterval()))
}

// recordInterval returns the longest time that a record may be behind.
func (p *Pool) recordInterval() time.Duration {
	return max(shortestRecordInterval, p.policy.IdleTTL.Duration/recordFraction)
}

// inUse reports whether the bundle is leased.
func (b *bundle) inUse() bool { return len(b.holders) > 0 || b.promised || b.mounted || b.awaited }

// recorded is the last use that is recorded on the bundle's claims.
func (b *bundle) recorded() time.Time {
	var latest time.Time
	for _, claim := range b.claims {
		latest = kube.LaterOf(latest, claim.UsedAt)
	}
	return latest
}

func (b *bundle) any(of func(*Claim) bool) bool {
	for _, claim := range b.claims {
		if of(claim) {
			return true
		}
	}
	return false
}

// foreign reports whether jobs of another address or group have written to a bundle.
func (p *Pool) foreign(b *bundle) bool {
	return b.any(func(c *Claim) bool { return c.Scope != p.scope })
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
