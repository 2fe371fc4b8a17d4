package volumeclaims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
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
	// unboundWaits is set if a runner waits for a node that could have any node as far as its claims are concerned. Since
	// boundWaitsSince one has waited that has volumes, zero if none does.
	unboundWaits    bool
	boundWaitsSince time.Time
	// At reportDue the first of the awaited reports is no longer waited for.
	reportDue time.Time
	// spare are the free bundles with volumes that are left and have not failed lately, and fresh counts the new ones
	// that may still be made.
	spare []*bundle
	fresh int
	// settled is set if the set has nodes: its pods run on some, or its volumes can be used there.
	settled bool
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
	// place is where all of its volumes can be used, as far as that is known, and at is what is known of that place.
	place string
	at    places.State
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
	// stateCommitted: the room that makes snapshots has it, and deletes it.
	stateCommitted state = "committed"
	stateFree      state = "free"
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
	{"a snapshot may be made of it",
		func(p *Pool, b *bundle) bool {
			return p.ofSnapshots() && b.any(func(c *Claim) bool { return c.Committed })
		}, stateCommitted},
	{"each runner has claims of its own",
		func(p *Pool, _ *bundle) bool { return p.ofSnapshots() }, stateUnfit},
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
	{"its volume is on a node that is no more",
		func(_ *Pool, b *bundle) bool { return b.at == places.Gone }, stateUnfit},
	{"it is older than maxAge", func(p *Pool, b *bundle) bool { old, _ := p.expired(b); return old }, stateUnfit},
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
	p.surveyPlaces()
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
		p.surveyWait(r)
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

// surveyWait remembers what a runner that may still run waits for.
func (p *Pool) surveyWait(r *Runner) {
	switch {
	case r.Failure.Kind == Refused:
		p.refused = true
	case r.Up || r.Failure.Kind == Unusable: // the latter tries again
	case !p.bound(r):
		p.unboundWaits = p.unboundWaits || r.PlacedAt.IsZero()
	case r.Failure.Kind == Unplaced:
		p.boundWaitsSince = kube.EarlierOf(p.boundWaitsSince, r.Failure.Since)
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
		b.awaited = b.awaited || p.ofSnapshots() // its runner says on the claim that a snapshot may be made of it
	}
}

// surveyPlaces finds out what is known of the places of bundles, and whether the set has nodes.
func (p *Pool) surveyPlaces() {
	for _, b := range p.bundles {
		b.place, b.at = p.placeOf(b)
		for _, claim := range b.claims {
			p.settled = p.settled || p.stays(claim.SelectedNode)
		}
		p.settled = p.settled || (b.at == places.Reachable && b.place != "" && !b.anywhere())
	}
	for i := range p.world.Runners {
		p.settled = p.settled || p.stays(p.world.Runners[i].Node)
	}
}

// placeOf returns the place of a bundle and what is known of it. A pod needs all of the volumes, so the place of which
// the worst is known decides; without a volume a bundle fits anywhere.
func (p *Pool) placeOf(b *bundle) (name string, at places.State) {
	names := sets.New[string]()
	bound := false
	for _, claim := range b.claims {
		if !claim.Bound {
			continue
		}
		bound = true
		at = max(at, claim.Place.In(p.world.Nodes))
		if claim.Place.Known() {
			names.Insert(claim.Place.String())
		}
	}
	if !bound {
		return "", places.Reachable
	}
	return strings.Join(sets.List(names), " and "), at
}

// anywhere reports whether the volumes of a bundle can be used on all nodes.
func (b *bundle) anywhere() bool {
	return !b.any(func(c *Claim) bool { return !c.Place.Anywhere() })
}

// stays reports whether a node is there and not about to go away.
func (p *Pool) stays(node string) bool {
	if node == "" || p.world.Nodes == nil || !p.world.Nodes.Known() {
		return false
	}
	_, stays := p.world.Nodes.Stays(node)
	return stays
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

// inUse reports whether the bundle is leased.
func (b *bundle) inUse() bool { return len(b.holders) > 0 || b.promised || b.mounted || b.awaited }

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

// expired reports whether a bundle is older than maxAge, and when it will be.
func (p *Pool) expired(b *bundle) (bool, time.Time) {
	var oldest time.Time
	for _, claim := range b.claims {
		if oldest.IsZero() || claim.CreatedAt.Before(oldest) {
			oldest = claim.CreatedAt
		}
	}
	if oldest.IsZero() {
		return false, time.Time{}
	}
	return p.after(oldest, p.policy.MaxAge.Duration)
}

// after reports whether a duration has passed since start, and returns its end. A duration of 0 never passes.
func (p *Pool) after(start time.Time, duration time.Duration) (bool, time.Time) {
	if duration == 0 {
		return false, time.Time{}
	}
	end := start.Add(duration)
	return !p.now.Before(end), end
}
