package scaling_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
)

const (
	simulations = 1500 // the two long tests take a fifth of them
	length      = 100
)

// simulate runs a simulation through random events, with a pass after each.
func simulate(t *testing.T, seed uint64) *simulation {
	t.Helper()
	sim := newSimulation(seed)
	for range length {
		sim.disturb()
		p := sim.pass(t)
		if sim.chance(6) {
			sim.passAgain(t)
		}
		if sim.chance(8) {
			sim.rest(t, p)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	return sim
}

// There are never more runners than maxRunners. A busy runner is removed only by its own finalization. GitHub is asked
// about a runner only where it is registered. Nothing is created twice, although the cache is late and answers get
// lost, and nothing is tried again that nobody wants any more. A repeated pass plans nothing, and nothing becomes due
// before the requested pass. Runners are moved from cordoned nodes, but not those that came to them later. See pass,
// check, passAgain and rest.
func TestAnyHistoryKeepsTheRules(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", simulations, length, simulations-1)
	for seed := range uint64(simulations) {
		simulate(t, seed)
	}
}

// If nothing has changed until every pause is over, nothing is left to do. What is wanted then is created in one pass,
// after which again nothing is left to do.
func TestAnyHistoryConvergesOnceTheWorldStandsStill(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", simulations/5, length, simulations/5-1)
	for seed := range uint64(simulations / 5) {
		sim := simulate(t, seed)
		for range 150 {
			sim.later(10 * time.Second)
			sim.publish()
			sim.standStill()
			sim.pass(t)
		}
		sim.settle(t, seed)
		sim.checkMoved(t)
		sim.jobs += 5
		sim.publish()
		sim.show(true)
		p := sim.pass(t)
		wanted := sim.figures.replicas - sim.taken()
		limited := sim.state.Placing(p.Plan).Failing || sim.doubted(p) > 0
		if wanted > 0 && !limited && sim.alive() < sim.figures.maxRunners {
			t.Fatalf("seed %d: %d runners are missing after a pass", seed, wanted)
		}
		sim.show(true)
		if p := sim.pass(t); !sim.isIdle(p) {
			t.Fatalf("seed %d: a second pass plans %+v", seed, p)
		}
	}
}

// settle lets time pass until nothing is left to do. Jobs that wait beside an idle runner for registrationTimeout are
// doubted then, however late that began, and the runners that were created for them go after another half minute.
func (sim *simulation) settle(t *testing.T, seed uint64) {
	t.Helper()
	p := sim.pass(t)
	for range 2 * int(defaultRegistrationTimeout/(10*time.Second)) {
		if sim.isIdle(p) {
			return
		}
		sim.later(10 * time.Second)
		sim.standStill()
		p = sim.pass(t)
	}
	t.Fatalf("seed %d: no end: %+v", seed, p)
}

// When faults and jobs stop coming, all jobs get done, and no runners are left except failed ones kept for inspection.
func TestAnyHistoryEndsWithNothingLeft(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", simulations/5, length, simulations/5-1)
	for seed := range uint64(simulations / 5) {
		sim := simulate(t, seed)
		for range 500 {
			// all in all half an hour for the last jobs, and for longer than evidence is kept
			sim.later(12 * time.Second)
			for _, r := range slices.Clone(sim.runners) {
				sim.step(r)
			}
			sim.publish()
			sim.standStill()
			sim.pass(t)
		}
		if sim.jobs != 0 {
			t.Errorf("seed %d: %d jobs wait still", seed, sim.jobs)
		}
		for _, r := range sim.runners {
			if !r.FailedIdle() && r.Phase != v1alpha1.EphemeralRunnerPhaseOutdated {
				t.Errorf("seed %d: %s is left: %+v", seed, r.Name, r)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// standStill ends everything that is under way, and all faults.
func (sim *simulation) standStill() {
	sim.calm, sim.frozen, sim.minRunners, sim.figures.maxRunners = true, false, 0, max(10, sim.figures.maxRunners)
	sim.figures.planned = v1alpha1.PlannedCapacity{}
	sim.later(firstCreateBackoff)
	for len(sim.inFlight) > 0 {
		sim.answer()
	}
	for _, r := range slices.Clone(sim.runners) {
		if r.Deleting && !r.busy {
			sim.finalize(r)
		}
	}
	sim.show(true)
}

// isIdle reports whether there is nothing to do, and no pause for which a creation has to wait.
func (sim *simulation) isIdle(p *plan) bool {
	return p.Repeat+p.create == 0 && len(p.about()) == 0 && sim.state.Creations.Allowed(sim.now())
}

// doubted returns the number of jobs that are doubted, as the status says.
func (sim *simulation) doubted(p *plan) int {
	status := &v1alpha1.EphemeralRunnerSetStatus{}
	describe(status, sim.state.Describe(status, newSet(sim.seen.replicas), sim.cache, p.Plan))
	return status.DoubtedJobs
}

// pass does what Reconcile does up to the plan; then the plan is checked and carried out.
func (sim *simulation) pass(t *testing.T) *plan {
	t.Helper()
	p, first := sim.planned(), !sim.state.Creations.Listed()
	sim.check(t, p)
	made := sim.apply(p)
	if first && made == 0 && sim.state.Creations.Listed() { // it has found runners that the plan did not count
		p = sim.planned()
		sim.check(t, p)
		made = sim.apply(p)
	}
	_, shelved := sim.state.Creations.Uncertain()
	if alive := sim.alive(); made > 0 && alive > sim.seen.limit() {
		t.Errorf("%d created and %d alive: more than maxRunners %d", made, alive, sim.seen.limit())
	}
	// The controller can't know which of the runners that nobody wants any more were created.
	// A runner whose job was cancelled takes no slot, and nobody knows which one that is.
	taken := sim.taken() - len(shelved) + sim.absent(shelved) - sim.seen.canceledJobs
	if made > 0 && taken > sim.most() {
		t.Errorf("%d created for %d replicas, %d with headroom: %d slots are taken", made, sim.seen.replicas,
			sim.most(),
			taken)
	}
	sim.checkStarts(t)
	sim.checkExpected(t)
	return p
}

// most returns the number of runners that the numbers ask for at most: with headroom for all assigned jobs, as if all
// of them ran.
func (sim *simulation) most() int {
	headroom := cmp.Or(sim.seen.planned.Headroom, &v1alpha1.Headroom{})
	idle := (sim.seen.assignedJobs*headroom.Percent + 99) / 100
	if headroom.Max > 0 {
		idle = min(idle, headroom.Max)
	}
	return max(sim.seen.replicas, min(sim.seen.assignedJobs+idle, sim.seen.inForce))
}

// checkStarts fails the test if more runners were created within a minute than are allowed, as far as this manager can
// know: it repeats a creation that was not answered, and does not know if its runner is gone by then.
func (sim *simulation) checkStarts(t *testing.T) {
	t.Helper()
	sim.starts = slices.DeleteFunc(sim.starts, func(s creation) bool { return sim.now().Sub(s.at) >= time.Minute })
	if most := sim.seen.planned.MaxStartsPerMinute; most > 0 && len(sim.starts) > most {
		t.Errorf("%d created within a minute, which may be %d", len(sim.starts), most)
	}
}

// checkExpected fails the test if the controller waits for a runner that does not exist, and whose creation nobody
// refused, without counting it among those that may not exist: it would never be replaced.
func (sim *simulation) checkExpected(t *testing.T) {
	t.Helper()
	repeated, shelved := sim.state.Creations.Uncertain()
	for name := range sim.state.Creations.Pending() {
		if !sim.decided[name] && !slices.Contains(repeated, name) && !slices.Contains(shelved, name) {
			t.Errorf("%s is waited for, and not tried again, although it was never created", name)
		}
	}
}

// planned does what Reconcile does up to the plan.
func (sim *simulation) planned() *plan {
	s := sim.state
	if sim.begins { // what is gone by now was created by somebody else
		sim.starts = slices.DeleteFunc(sim.starts, func(s creation) bool {
			return !slices.ContainsFunc(sim.cache, func(r *roster.Runner) bool { return r.Name == s.name })
		})
		sim.begins = false
	}
	s.Remember(scaling.Seen{
		Now: sim.now(), Runners: sim.cache, PatchID: sim.seen.patchID,
		CanceledJobs: sim.seen.canceledJobs, Template: fmt.Sprint(sim.template),
		ConfigURL: sim.configURL,
		Departing: sim.departures.Of(setKey.Namespace, sim.cache),
	})
	s.RememberAnswers(sim.cache)
	sim.record()
	p := newPlan(s, sim.cache, sim.seen.demand(), sim.unseen())
	s.Follow(p.Plan)
	s.Creations.Keep(p.Repeat)
	return p
}

// passAgain plans at the same moment with the same cache: nothing new is planned.
func (sim *simulation) passAgain(t *testing.T) {
	t.Helper()
	p, s := sim.planned(), sim.state
	deletedAgain := append(s.WithoutRecentlyDeleted(p.With(scaling.Delete), sim.now()),
		s.WithoutRecentlyDeleted(p.With(scaling.DeleteUnregistered), sim.now())...)
	deletedAgain = slices.DeleteFunc(deletedAgain, func(r *roster.Runner) bool { return !sim.deletes(p, r) })
	asked := slices.ContainsFunc(append(p.With(scaling.Deregister), p.With(scaling.LookUp)...),
		func(r *roster.Runner) bool { return !sim.asks(r) })
	if p.create > 0 || len(deletedAgain) != 0 || asked {
		t.Errorf("the same pass again creates %d, deletes %v, asks about others: %t", p.create, names(deletedAgain),
			asked)
	}
}

// taken counts the slots that runners really have. A runner that got its job while it was being deleted, which the
// controller could not know, does not count before it is seen.
func (sim *simulation) taken() int {
	taken := 0
	for _, r := range sim.runners {
		if (r.shown || !r.Deleting) && sim.slotOf(&r.Runner) != slotFree {
			taken++
		}
	}
	return taken
}

func (sim *simulation) alive() int {
	alive := 0
	for _, r := range sim.runners {
		if r.Alive() {
			alive++
		}
	}
	return alive
}

// checkOrder fails the test if a plan has more than one action for a runner.
func (p *plan) checkOrder(t *testing.T) {
	t.Helper()
	seen := map[types.UID]bool{}
	for _, r := range p.about() {
		if seen[r.UID] {
			t.Errorf("about %s more than one thing is decided", r.Name)
		}
		seen[r.UID] = true
	}
}

// check fails the test if the plan breaks a rule.
func (sim *simulation) check(t *testing.T, p *plan) {
	t.Helper()
	p.checkOrder(t)
	for _, r := range sim.runners {
		deleted := slices.ContainsFunc(p.With(scaling.Delete), func(d *roster.Runner) bool { return d.UID == r.UID })
		if deleted && r.busy && r.up && !r.Completed && r.ConfigURL == sim.configURL {
			t.Errorf("%s is deleted though it has a job: %+v", r.Name, r)
		}
	}
	for _, r := range append(slices.Clone(p.With(scaling.Deregister)), p.With(scaling.LookUp)...) {
		if r.ConfigURL != sim.configURL {
			t.Errorf("%s is asked about where it was never registered", r.Name)
		}
	}
	for _, r := range p.With(scaling.MarkFailed) {
		if is := sim.find(r); is != nil && !is.registered &&
			sim.now().Sub(sim.knownOf(r).exitedAt) < explanationTimeout {
			t.Errorf("%s is called failed though GitHub has removed its record: %+v", r.Name, is)
		}
	}
	sim.checkMovedOnce(t, p)
	sim.checkMaximum(t, p)
}

// checkMovedOnce fails the test if the plan moves a runner that came to its node when the manager had seen that it was
// cordoned.
func (sim *simulation) checkMovedOnce(t *testing.T, p *plan) {
	t.Helper()
	for _, r := range p.Moved {
		if is := sim.find(r); is != nil && is.node > 0 && sim.signed[is.node-1] > 0 &&
			is.born > max(sim.signed[is.node-1], sim.restarted) {
			t.Errorf("%s is moved though it came to its node when that was cordoned", r.Name)
		}
	}
}

// checkMoved fails the test if a runner without a job is on a node that was cordoned after the watch had shown the
// runner: its pod is created later than that. Runners that an earlier process created last, and that this one expects,
// are exempt.
func (sim *simulation) checkMoved(t *testing.T) {
	t.Helper()
	for _, view := range sim.cache {
		r := sim.find(view)
		before := r.node > 0 && r.watched < sim.signed[r.node-1] && (r.born > sim.restarted || view.Arrival == 0)
		if before && r.shown && sim.slotOf(&r.Runner) == slotWaiting {
			t.Errorf("%s is still on its cordoned node: %+v", r.Name, r)
		}
	}
}

// checkMaximum fails the test if the plan goes beyond maxRunners. A plan made before the list is not carried out if the
// list shows more runners.
func (sim *simulation) checkMaximum(t *testing.T, p *plan) {
	t.Helper()
	repeated, _ := sim.state.Creations.Uncertain()
	alive, create := sim.alive(), p.create+sim.absent(repeated)
	if sim.state.Creations.Listed() && create > 0 && alive+create > sim.seen.limit() {
		t.Errorf("%d alive and %d to create: more than maxRunners %d", alive, create, sim.seen.limit())
	}
}
