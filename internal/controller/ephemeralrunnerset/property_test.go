package ephemeralrunnerset

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	histories = 1500 // of which the two properties that go on for long take a fifth
	length    = 100
)

// anyHistory lets a world live through random events, with a pass after each.
func anyHistory(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(seed)
	for range length {
		w.disturb()
		w.pass(t)
		if w.chance(6) {
			w.passAgain(t)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	return w
}

// Never above maxRunners, never a busy runner removed but by its own finalization, no runner asked about elsewhere, nothing made twice though the cache is late, a repeated pass
// plans nothing: see check and passAgain.
func TestAnyHistoryKeepsTheRules(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", histories, length, histories-1)
	for seed := range uint64(histories) {
		anyHistory(t, seed)
	}
}

// When the world has stood still until every pause is over nothing is left to do; and what is wanted then is made in one
// pass, after which there is nothing to do again.
func TestAnyHistoryConvergesOnceTheWorldStandsStill(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", histories/5, length, histories/5-1)
	for seed := range uint64(histories / 5) {
		w := anyHistory(t, seed)
		for range 150 {
			w.later(10 * time.Second)
			w.publish()
			w.standStill()
			w.pass(t)
		}
		if p := w.pass(t); !p.idle() {
			t.Fatalf("seed %d: no end: %+v", seed, p)
		}
		w.jobs += 5
		w.publish()
		w.show(true)
		w.pass(t)
		wanted, limited := w.figures.replicas-w.taken(), w.memory.trouble.failures+w.memory.trouble.refusals > 0
		if wanted > 0 && !limited && w.alive() < w.figures.maxRunners {
			t.Fatalf("seed %d: %d runners are missing after a pass", seed, wanted)
		}
		w.show(true)
		if p := w.pass(t); !p.idle() {
			t.Fatalf("seed %d: a second pass plans %+v", seed, p)
		}
	}
}

// When no more faults and jobs come all jobs are done, and then nothing is left but evidence.
func TestAnyHistoryEndsWithNothingLeft(t *testing.T) {
	t.Logf("%d histories of %d events, seeds 0 to %d", histories/5, length, histories/5-1)
	for seed := range uint64(histories / 5) {
		w := anyHistory(t, seed)
		for range 400 {
			w.later(10 * time.Second)
			for _, r := range slices.Clone(w.runners) {
				w.move(r)
			}
			w.publish()
			w.standStill()
			w.pass(t)
		}
		if w.jobs != 0 {
			t.Errorf("seed %d: %d jobs wait still", seed, w.jobs)
		}
		for _, r := range w.runners {
			if !r.failedIdle() {
				t.Errorf("seed %d: %s is left: %+v", seed, r.name, r)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// standStill brings everything that is under way to its end.
func (w *world) standStill() {
	w.calm = true
	w.later(firstCreatePause)
	for len(w.inFlight) > 0 {
		w.answer()
	}
	for _, r := range slices.Clone(w.runners) {
		if r.deleting && !r.busy {
			w.farewell(r)
		}
	}
	w.show(true)
}

// idle says that there is nothing to do.
func (p *plan) idle() bool {
	return p.create == 0 && len(p.drop)+len(p.dropUnseen)+len(p.remove)+len(p.lookUp)+len(p.exitedIdle) == 0
}

// pass is what Reconcile does, up to the plan; then the plan is checked and carried out.
func (w *world) pass(t *testing.T) *plan {
	t.Helper()
	p := w.planned()
	w.check(t, p)
	made := w.carryOut(p)
	if taken := w.taken(); made > 0 && taken > w.seen.replicas {
		t.Errorf("%d created for %d replicas: %d slots are taken", made, w.seen.replicas, taken)
	}
	return p
}

func (w *world) planned() *plan {
	m := w.memory
	m.place = w.place
	for _, over := range m.note(w.cache, w.seen.patchID, fmt.Sprint(w.template), w.now()) {
		delete(w.inFlight, over.runner)
		delete(w.answers, over.runner)
	}
	for _, r := range w.cache {
		if call, known := w.answers[r.uid]; known {
			delete(w.answers, r.uid)
			m.past(r).note(call, m.now)
		}
	}
	return m.plan(w.cache, w.seen.demand, w.controller.expected(&pass{set: w.set, memory: m, views: w.cache}))
}

// passAgain: at the same moment, with the same cache, nothing is planned that was not planned before.
func (w *world) passAgain(t *testing.T) {
	t.Helper()
	p := w.planned()
	again := append(w.memory.notDropped(p.drop, w.now()), w.memory.notDropped(p.dropUnseen, w.now())...)
	again = slices.DeleteFunc(again, func(r *runner) bool { return !w.deletes(p, r) })
	asked := slices.ContainsFunc(append(p.remove, p.lookUp...), func(r *runner) bool { return w.inFlight[r.uid] == nil })
	if create := w.controller.allowed(&pass{memory: w.memory, plan: p}); create > len(w.memory.unanswered) || len(again) != 0 || asked {
		t.Errorf("the same pass again creates %d, deletes %v, asks about others: %t", create, names(again), asked)
	}
}

// taken counts the slots that runners have in truth. One that got its job when it was deleted, which nobody could know,
// does not count before it is seen.
func (w *world) taken() int {
	views := make([]*runner, 0, len(w.runners))
	for _, r := range w.runners {
		if r.shown || !r.deleting {
			views = append(views, &r.runner)
		}
	}
	t := w.memory.tally(views)
	return t.waiting + t.working + t.held
}

func (w *world) alive() int {
	alive := 0
	for _, r := range w.runners {
		if r.alive() {
			alive++
		}
	}
	return alive
}

func (w *world) check(t *testing.T, p *plan) {
	t.Helper()
	alive := w.alive()
	for _, r := range w.runners {
		if r.busy && r.up && !r.completed && r.place == w.place && slices.ContainsFunc(p.drop, func(d *runner) bool { return d.uid == r.uid }) {
			t.Errorf("%s is deleted though it has a job: %+v", r.name, r)
		}
	}
	for _, r := range append(slices.Clone(p.remove), p.lookUp...) {
		if r.place != w.place {
			t.Errorf("%s is asked about where it was never registered", r.name)
		}
	}
	if p.create > 0 && alive+p.create > w.seen.maxRunners {
		t.Errorf("%d alive and %d to create: more than maxRunners %d", alive, p.create, w.seen.maxRunners)
	}
}
