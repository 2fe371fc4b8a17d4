package volumeclaims_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// histories is the number of random histories that are played; each takes some 40 ms. 1,500 have been played without a
// failure.
const histories = 60

// tick is the time between two steps of a history.
const tick = 10 * time.Second

// moment is a state that a watch may show.
type moment struct {
	runners map[string]trueRunner
	claims  map[string]*corev1.PersistentVolumeClaim
}

// process is a manager. It sees runners and claims as they were some steps ago, each kind for itself, never going back.
type process struct {
	*cluster
	memory     *volumeclaims.Memory
	past       []moment
	seenRunner int // index into past
	seenClaims int
	listed     bool
	expected   map[string]time.Time
	unanswered map[string]volumeclaims.Lease
}

func newProcess(c *cluster, past []moment) *process {
	seen := max(0, len(past)-1-c.IntN(3)) // an API server may answer a list from its own cache
	return &process{cluster: c, memory: volumeclaims.NewMemory(c.set.Name), past: past, seenRunner: seen,
		seenClaims: seen,
		expected:   map[string]time.Time{}, unanswered: map[string]volumeclaims.Lease{}}
}

// lost reports whether a request, or its answer, is lost.
func (p *process) lost() bool { return p.IntN(6) == 0 }

// suffix returns one of 729, so that names come back.
func (p *process) suffix() string {
	const characters = "bcdfghjklmnpqrstvwxz2456789"
	return "bbb" + string(characters[p.IntN(len(characters))]) + string(characters[p.IntN(len(characters))])
}

// observe returns the world as this process sees it.
func (p *process) observe() volumeclaims.World {
	p.past = append(p.past, moment{maps.Clone(p.runners), maps.Clone(p.claims)})
	latest := len(p.past) - 1
	p.seenRunner += p.IntN(latest - p.seenRunner + 1)
	p.seenClaims += p.IntN(latest - p.seenClaims + 1)
	runners, claims := p.past[p.seenRunner].runners, p.past[p.seenClaims].claims
	if !p.listed {
		p.listed = true
		for _, name := range slices.Sorted(maps.Keys(p.runners)) {
			p.expected[name] = p.now
		}
		p.memory.Inherit(ours(p.set, p.claims), p.now)
	}
	world := volumeclaims.World{Set: p.set, Now: p.now, Listed: true, Suffix: p.suffix, Claims: ours(p.set, claims),
		Mounted: sets.New[string]()}
	for _, name := range slices.Sorted(maps.Keys(runners)) {
		delete(p.expected, name)
		delete(p.unanswered, name)
		world.Runners = append(world.Runners, view(runners[name]))
		if r := runners[name]; r.pod {
			world.Mounted.Insert(r.names()...)
		}
	}
	for name, since := range p.expected { // in any order
		if _, exists := p.runners[name]; !exists && p.now.Sub(since) >= time.Minute {
			delete(p.expected, name) // the API server was asked
			delete(p.unanswered, name)
		}
	}
	world.Expected = slices.Sorted(maps.Keys(p.expected))
	p.memory.Settle(p.memory.Overdue(p.now), sets.KeySet(p.claims), p.now)
	return world
}

func ours(
	set *v1alpha1.AutoscalingRunnerSet, claims map[string]*corev1.PersistentVolumeClaim,
) (found []volumeclaims.Claim) {
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if claim, of := volumeclaims.ClaimOf(set, claims[name]); of {
			found = append(found, claim)
		}
	}
	return found
}

// pass is one pass of the controller of runner sets. It may end anywhere, as a process does that is killed; then it
// returns false.
func (p *process) pass(target int) bool {
	world := p.observe()
	living := len(world.Expected)
	for i := range world.Runners {
		if !world.Runners[i].Done {
			living++
		}
	}
	d := p.memory.Observe(&world).Plan(target - living)
	p.memory.Follow(&d, p.now)
	return p.carryOut(&d) && p.createAll(&d)
}

// carryOut does what a decision asks for, but for new runners.
func (p *process) carryOut(d *volumeclaims.Decision) bool {
	for _, deletion := range d.Deletions {
		if p.IntN(60) == 0 {
			return false
		}
		if !p.lost() {
			p.deleteClaim(deletion.Name, deletion.UID, deletion.Why)
		}
	}
	for _, record := range d.Records {
		if claim := p.claims[record.Claim]; claim != nil && claim.UID == record.UID && !p.lost() {
			p.annotate(claim, record)
		}
	}
	for _, replacement := range d.Replacements {
		// GitHub agrees, or takes its time
		if r, exists := p.runners[replacement.Runner]; exists && !r.up && p.IntN(2) == 0 {
			p.logf("%s gives way: %s", r.name, replacement.Reason)
			p.finalize(r) // it may have had a job since it was seen
		}
	}
	return true
}

// createAll creates the runners that have a lease, and repeats what got no answer.
func (p *process) createAll(d *volumeclaims.Decision) bool {
	for _, name := range slices.Sorted(maps.Keys(p.unanswered)) {
		if lease, promised := p.memory.Promised(name); promised {
			p.create(name, lease)
		}
	}
	for _, lease := range d.Leases {
		if p.IntN(60) == 0 {
			return false
		}
		p.names++
		name := fmt.Sprint("runner-", p.names)
		p.expected[name] = p.now
		p.memory.Promise(name, lease, p.now)
		p.create(name, lease)
	}
	return true
}

func (p *process) annotate(claim *corev1.PersistentVolumeClaim, record volumeclaims.Record) {
	changed := claim.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[record.Key] = record.Value
	p.claims[claim.Name] = changed
}

// create creates a runner; the request or its answer may be lost, and then it is tried again.
func (p *process) create(name string, lease volumeclaims.Lease) {
	if p.lost() {
		p.unanswered[name] = lease
		if p.IntN(2) == 0 {
			return
		}
	}
	if _, exists := p.runners[name]; !exists {
		p.logf("created %s with %v, copies of %q", name, lease.Claims, lease.Seed)
		p.runners[name] = trueRunner{name: name, claims: lease.Claims, seed: lease.Seed, created: p.now}
	}
}

// step lets every runner go on, as its controller and its node do.
func (p *process) step() {
	for _, name := range slices.Sorted(maps.Keys(p.runners)) {
		r := p.runners[name]
		switch {
		case p.IntN(3) == 0: // nothing happens to it
		case r.done:
			if p.IntN(4) == 0 {
				p.finalize(r)
			}
		case !r.pod && p.IntN(10) == 0 && p.sees(name): // surplus
			delete(p.runners, name)
		case !r.pod:
			p.runners[name] = p.launch(r, p.past[p.seenClaims].claims)
		default:
			p.runners[name] = p.live(r)
		}
		p.check()
	}
}

// sees reports whether the process has seen a runner: it deletes no other.
func (p *process) sees(runner string) bool {
	_, seen := p.past[p.seenRunner].runners[runner]
	return seen
}

func newCluster(t *testing.T, seed uint64) *cluster {
	random := rand.New(rand.NewPCG(seed, 1))
	set := newSet("docker", "go")
	pool := set.Spec.VolumeClaimPool
	pool.IdleTTL = duration(time.Hour)
	if random.IntN(4) > 0 {
		pool.Max = new(1 + random.IntN(5))
	}
	if random.IntN(3) == 0 {
		pool.WhenExhausted = v1alpha1.EphemeralVolume
	}
	if random.IntN(2) == 0 {
		pool.KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{"push"}, Results: []string{"succeeded", "failed"}}
	}
	if random.IntN(3) == 0 {
		pool.SeedFrom = &v1alpha1.VolumeClaimSeed{Newest: true}
	}
	if random.IntN(4) == 0 {
		pool.MaxAge = duration(20 * time.Minute)
	}
	return &cluster{T: t, Rand: random, now: start, set: set, runners: map[string]trueRunner{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, zone: map[types.UID]int{},
		broken: map[types.UID]bool{}, spoiled: map[types.UID]bool{}}
}

// Whatever is seen late, lost or killed: no claim has two users, no more exist than may, none goes that a runner has,
// none comes back that a job has spoiled; and in the end every claim is free or gone, and then gone.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCluster(t, seed)
			p := newProcess(c, []moment{{}})
			for range 200 {
				c.now = c.now.Add(tick)
				c.full[c.IntN(2)] = c.IntN(3) == 0
				c.quota = c.IntN(8) == 0
				if !p.pass(c.IntN(8)) || c.IntN(40) == 0 {
					c.logf("restart")
					p = newProcess(c, p.past)
				}
				p.step()
				c.check()
			}
			p.settles()
		})
	}
}

// settles checks that nothing is stuck: with room and without failures, as many runners as there may be claims get
// theirs, and unused claims go.
func (p *process) settles() {
	p.full, p.quota = [2]bool{}, false
	clear(p.broken)
	for range 200 {
		p.now = p.now.Add(tick)
		p.pass(0)
		p.step()
	}
	p.now = p.now.Add(20 * time.Minute)
	p.calm()
	world := p.observe()
	wanted := 4
	if most := p.set.Spec.VolumeClaimPool.Max; most != nil {
		wanted = *most
	}
	d := p.memory.Observe(&world).Plan(wanted)
	if d.Waiting != 0 {
		p.failf("%d of %d runners wait for %s though nobody has a claim: %v, claims %v, requested %v, leases %v",
			d.Waiting,
			wanted, d.Wait, d.Counts, slices.Sorted(maps.Keys(p.claims)), p.memory.Overdue(p.now.Add(time.Hour)),
			d.Leases)
	}
	for range 40 {
		p.now = p.now.Add(5 * time.Minute)
		p.calm()
	}
	if len(p.claims) != 0 {
		p.failf("claims are left: %v", slices.Sorted(maps.Keys(p.claims)))
	}
}

// calm is a pass that sees everything and loses nothing.
func (p *process) calm() {
	clear(p.runners)
	p.sweep()
	p.past = append(p.past, moment{maps.Clone(p.runners), maps.Clone(p.claims)})
	p.seenRunner, p.seenClaims = len(p.past)-1, len(p.past)-1
	for range 3 {
		for !p.pass(0) {
			p.logf("restart")
			*p = *newProcess(p.cluster, p.past)
		}
	}
}
