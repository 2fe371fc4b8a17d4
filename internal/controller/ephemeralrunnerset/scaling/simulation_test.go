package scaling_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// simulation is everything around a set's controller: GitHub, API server, kubelets and listener as they are, a cache
// that shows them as they were some moments ago, and a state that is lost in a restart. Everything in it follows from
// the seed.
type simulation struct {
	random *rand.Rand
	clock  *clocktesting.FakePassiveClock

	// The real state: jobs that GitHub has assigned, including running ones; the set's figures; its runners.
	jobs       int
	canceled   int  // jobs that were ever cancelled before they had a runner
	tells      bool // the listener tells of such jobs, as new ones do
	minRunners int
	figures    published
	template   int
	configURL  roster.ConfigURL
	runners    []*simulatedRunner
	made       int
	starts     []creation // the new runners that this manager knows of
	begins     bool       // the manager has made no pass yet
	tried      map[string]time.Time
	decided    map[string]bool // names under which a runner was created, or a creation refused
	away       bool            // the API server seldom answers a creation
	calm       bool            // nothing goes wrong
	// signed has, by node, the time at which it was last cordoned, 0 if it isn't; restarted is the time of the
	// manager's restart. Both count in made.
	signed    [simulatedNodes]int
	restarted int

	// What the controller sees, and what it remembers.
	seen       published
	frozen     bool             // the watch of runners shows nothing
	cache      []*roster.Runner // what the roster holds
	roster     *roster.Roster
	departures *departures.Departures
	state      *scaling.History
	inFlight   map[types.UID]asked

	// What the test records of what the manager was told, for its rules: answers that it has not taken in yet, what it
	// knows of runners, and the last patchID with the time at which that was first seen.
	answers     map[types.UID]pool.Call[registrations.Answer]
	known       map[types.UID]*known
	patchSeen   int
	patchSeenAt time.Time
}

// published has the listener's figures, with the numbers that were in force for it, and what the user writes:
// maxRunners and what the set plans.
type published struct {
	patchID, replicas, assignedJobs, canceledJobs, minRunners, inForce int

	maxRunners int
	planned    v1alpha1.PlannedCapacity
}

// demand returns what the manager makes of it.
func (f *published) demand() scaling.Demand {
	return scaling.DemandOf(&v1alpha1.EphemeralRunnerSetSpec{
		Replicas: f.replicas, AssignedJobs: f.assignedJobs, MaxRunners: new(f.maxRunners),
	}).Within(inForce(f.minRunners, f.inForce), &f.planned)
}

// limit returns the number of runners that may exist.
func (f *published) limit() int { return min(f.maxRunners, f.inForce) }

// simulatedRunner is a runner as it really is, with the view that the API server has of it.
type simulatedRunner struct {
	roster.Runner
	up         bool // the container runs
	registered bool // GitHub knows it
	busy       bool // GitHub has given it a job, which has not ended
	silent     bool // reports about it get lost
	changed    time.Time
	shown      bool // the cache shows it as it is
	node       int  // where its pod is, counted from 1; 0 is nowhere
	born       int  // when it was made, counted in made
	watched    int  // when the watch first showed it to a manager, counted in made
}

const simulatedNodes = 3

// creation is a runner that was created, and when that was first tried.
type creation struct {
	name string
	at   time.Time
}

// simulatedSet owns all simulated runners.
var simulatedSet = roster.Owner{UID: "set-uid", Name: setKey.Name}

func nodeName(n int) string { return fmt.Sprint("node-", n) }

// The cache may be late by maxLag: a watch that is later is restarted, unless it is frozen.
const maxLag = 20 * time.Second

func newSimulation(seed uint64) *simulation {
	sim := &simulation{
		random: rand.New(rand.NewPCG(seed, 1)), clock: clocktesting.NewFakePassiveClock(start),
		tried: map[string]time.Time{}, decided: map[string]bool{},
		inFlight: map[types.UID]asked{},
	}
	sim.figures.maxRunners = 20
	sim.tells = seed%2 == 1
	sim.plan(rand.New(rand.NewPCG(seed, 2)))
	sim.restartManager()
	return sim
}

// plan has every other set plan its capacity.
func (sim *simulation) plan(random *rand.Rand) {
	if random.IntN(2) == 0 {
		return
	}
	sim.figures.planned = v1alpha1.PlannedCapacity{
		Headroom: &v1alpha1.Headroom{Percent: random.IntN(100), Max: random.IntN(10)},
		ScaleDownDelay: &metav1.Duration{
			Duration: []time.Duration{time.Second, 30 * time.Second, 5 * time.Minute}[random.IntN(3)],
		},
		MaxIdleTime:        []*metav1.Duration{nil, {Duration: time.Minute}}[random.IntN(2)],
		MaxStartsPerMinute: []int{0, 3, 30}[random.IntN(3)],
	}
}

func (sim *simulation) now() time.Time        { return sim.clock.Now() }
func (sim *simulation) later(d time.Duration) { sim.clock.SetTime(sim.now().Add(d)) }
func (sim *simulation) chance(n int) bool     { return sim.random.IntN(n) == 0 }

// restartManager loses everything that is remembered; calls that were under way may have taken effect. The next
// manager's cache may be late: it may be a second one that has been waiting.
func (sim *simulation) restartManager() {
	sim.roster, sim.departures = roster.New(), departures.New()
	sim.state = scaling.New(creations.New(sim.clock))
	sim.inFlight, sim.answers = map[types.UID]asked{}, map[types.UID]pool.Call[registrations.Answer]{}
	sim.known, sim.patchSeenAt = map[types.UID]*known{}, time.Time{}
	sim.frozen = false
	sim.made++
	sim.restarted = sim.made
	sim.show(sim.chance(2))
	sim.begins = true
	for n, signed := range sim.signed {
		if signed > 0 {
			sim.departures.Remember(nodeName(n+1), cordon)
		}
	}
}

// cordon cordons a node, or makes it an ordinary one again.
func (sim *simulation) cordon() {
	n, signs := sim.random.IntN(simulatedNodes), cordon
	sim.made++
	if sim.signed[n] > 0 {
		sim.signed[n], signs = 0, 0
	} else {
		sim.signed[n] = sim.made
	}
	sim.departures.Remember(nodeName(n+1), signs)
}

// schedule gives a pod a node, if there is one. The manager has created the pod, and so has seen the runner. The
// scheduler may not have seen yet that a node is cordoned.
func (sim *simulation) schedule(r *simulatedRunner) {
	n, seen := sim.random.IntN(simulatedNodes), sim.roster.SetOf(runnerKey(r.Name)) != roster.Owner{}
	if seen && (sim.signed[n] == 0 || sim.chance(10)) {
		r.node = n + 1
		sim.write(r)
	}
}

// publish makes the listener write its figures.
func (sim *simulation) publish() {
	sim.figures.patchID++
	sim.figures.minRunners, sim.figures.inForce = sim.minRunners, sim.figures.maxRunners
	sim.figures.canceledJobs = sim.canceled
	sim.figures.replicas, sim.figures.assignedJobs = min(sim.minRunners+sim.jobs, sim.figures.maxRunners), sim.jobs
}

// disturb makes one thing happen.
func (sim *simulation) disturb() {
	sim.passTime()
	switch what := sim.random.IntN(40); what {
	case 0, 1, 2:
		sim.jobs = min(sim.jobs+sim.random.IntN(8), 40)
	case 3: // cancelled before they started
		canceled := sim.random.IntN(sim.jobs - sim.busy() + 1)
		if sim.jobs -= canceled; sim.tells {
			sim.canceled += canceled
		}
	case 4:
		sim.figures.patchID += 1000 // a new listener
		sim.publish()
	case 5:
		sim.restartManager()
	case 6, 7, 15, 18:
		sim.changeSpec(what)
	case 16:
		sim.away = !sim.away
	case 17: // the watch breaks, or comes back
		sim.frozen = !sim.frozen
	case 8, 9, 10, 11:
		sim.publish()
	case 12, 13, 14:
		sim.answer()
	case 19:
		sim.deleteByHand()
	case 20:
		sim.cordon()
	default:
		if len(sim.runners) > 0 {
			sim.step(sim.runners[sim.random.IntN(len(sim.runners))])
		}
	}
	sim.show(sim.chance(3))
}

// changeSpec changes something in the spec, as a user would.
func (sim *simulation) changeSpec(what int) {
	switch what {
	case 6:
		if sim.chance(4) {
			sim.template++
			sim.moveSet()
		}
	case 7:
		sim.figures.maxRunners = 10 + sim.random.IntN(15)
	case 15: // drained, or fewer are allowed
		sim.figures.maxRunners = sim.random.IntN(5)
	default:
		sim.minRunners = sim.random.IntN(6)
	}
}

// deleteByHand sometimes deletes a runner, as a user would.
func (sim *simulation) deleteByHand() {
	if len(sim.runners) == 0 || !sim.chance(3) {
		return
	}
	if r := sim.runners[sim.random.IntN(len(sim.runners))]; !r.Deleting {
		r.Deleting = true
		sim.write(r)
	}
}

// passTime lets some seconds pass. Sometimes, while the watch is frozen, so many pass that runners should have been
// seen.
func (sim *simulation) passTime() {
	sim.later(time.Duration(sim.random.IntN(6)) * time.Second)
	if sim.frozen && sim.chance(10) {
		sim.later(expectationTimeout)
	}
}

// moveSet sometimes changes the address at which the set registers its runners, perhaps back to an earlier one.
func (sim *simulation) moveSet() {
	if sim.chance(2) {
		sim.configURL = unique.Make(fmt.Sprint("https://github.com/org-", sim.random.IntN(3)))
	}
}

func (sim *simulation) busy() int {
	busy := 0
	for _, r := range sim.runners {
		if r.busy {
			busy++
		}
	}
	return busy
}

// write records that the runner was written to on the API server.
func (sim *simulation) write(r *simulatedRunner) {
	sim.made++
	r.ResourceVersion, r.changed, r.shown = fmt.Sprint(sim.made), sim.now(), false
}

// show brings the cache, or parts of it, up to date.
func (sim *simulation) show(all bool) {
	if all || sim.chance(3) {
		sim.seen = sim.figures
	}
	if !sim.frozen {
		sim.showRunners(all)
	}
	sim.cache = sim.roster.Of(simulatedSet.UID)
}

// showRunners makes the watch show all runners, or some.
func (sim *simulation) showRunners(all bool) {
	for _, r := range sim.runners {
		if all || r.shown || sim.chance(3) || sim.now().Sub(r.changed) > maxLag {
			r.shown = true
			r.watched = cmp.Or(r.watched, sim.made)
			sim.observe(r.Runner)
			at := ""
			if r.node > 0 {
				at = nodeName(r.node)
			}
			sim.departures.Place(runnerKey(r.Name), r.UID, at)
		}
	}
	for _, r := range sim.cache {
		if sim.find(r) != nil {
			continue
		}
		if all || sim.chance(2) {
			sim.roster.Remove(runnerKey(r.Name))
			sim.departures.Place(runnerKey(r.Name), r.UID, "")
			continue
		}
		going := *r
		going.Deleting = true
		sim.observe(going)
	}
}

// observe makes the watch show a runner.
func (sim *simulation) observe(view roster.Runner) {
	if sim.state.Creations.Expects(view.Name) {
		view.Arrival = sim.departures.Arrive()
	}
	sim.roster.Put(runnerKey(view.Name), simulatedSet, view)
}

func runnerKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: setKey.Namespace, Name: name}
}

// answer makes GitHub answer a question, if one is waiting.
func (sim *simulation) answer() {
	maps.DeleteFunc(sim.inFlight, func(uid types.UID, _ asked) bool {
		return sim.find(&roster.Runner{UID: uid}) == nil // it is gone, and was asked about because of a late watch
	})
	for _, r := range sim.runners {
		if !sim.asks(&r.Runner) {
			continue
		}
		about := sim.inFlight[r.UID]
		delete(sim.inFlight, r.UID)
		said := answered(about.ask(r))
		if sim.chance(5) {
			said = pool.Call[registrations.Answer]{Err: errNoAnswer} // it was lost
		}
		settle(about.question, said)
		sim.answers[r.UID] = said
		return
	}
}

// removeAnswer is GitHub's answer to a request to remove the runner.
func removeAnswer(r *simulatedRunner) registrations.Answer {
	if r.busy {
		return registrations.Busy
	}
	r.registered = false
	return registrations.Removed
}

// lookUpAnswer is GitHub's answer to the question whether the runner is registered.
func lookUpAnswer(r *simulatedRunner) registrations.Answer {
	if r.registered {
		return registrations.Registered
	}
	return registrations.Missing
}
