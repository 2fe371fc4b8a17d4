package ephemeralrunnerset

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// world plays GitHub, kubelet and listener against a set, at random, and applies every plan.
type world struct {
	*history
	random *rand.Rand
	jobs   int // assigned by GitHub, running ones included
}

func newWorld(seed uint64) *world {
	h := newHistory(0)
	h.want.maxRunners = 20
	return &world{history: h, random: rand.New(rand.NewPCG(seed, 1))}
}

// disturb lets one thing happen.
func (w *world) disturb() {
	w.later(time.Duration(w.random.IntN(8)) * time.Second)
	switch w.random.IntN(6) {
	case 0:
		w.jobs += w.random.IntN(8)
	case 1:
		w.publish(min(w.jobs, w.want.maxRunners))
	default:
		if len(w.runners) > 0 {
			w.move(w.runners[w.random.IntN(len(w.runners))])
		}
	}
}

// move takes a runner one step on in its life.
func (w *world) move(r *runner) {
	switch {
	case r.deleting && !r.hasJob, r.ended(), r.completed:
		return
	case r.phase == "":
		r.registration = 7
		r.phase = v1alpha1.EphemeralRunnerPhaseRunning
		if w.random.IntN(10) == 0 {
			r.phase, r.registration = v1alpha1.EphemeralRunnerPhaseFailed, 0
		}
	case !r.hasJob:
		r.hasJob = w.jobs > w.busy()
	case w.random.IntN(4) == 0:
		w.jobs--
		r.phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	default:
		w.jobs--
		w.publish(min(w.jobs, w.want.maxRunners))
		r.completed, r.jobPatchID = true, w.patchID
		r.phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	}
}

func (w *world) busy() int {
	busy := 0
	for _, r := range w.runners {
		if r.hasJob && !r.ended() {
			busy++
		}
	}
	return busy
}

// step plans, checks what must hold for every plan, and applies it.
func (w *world) step(t *testing.T) *plan {
	t.Helper()
	p := w.pass()
	alive := 0
	for _, r := range w.runners {
		if r.alive() {
			alive++
		}
	}
	if p.create > 0 && alive+p.create > w.want.maxRunners {
		t.Errorf("%d alive and %d to create: more than maxRunners %d", alive, p.create, w.want.maxRunners)
	}
	if taken := w.tally(w.runners); p.create > max(0, w.want.replicas-taken.waiting-taken.working-taken.held) {
		t.Errorf("create %d for %d replicas with %+v", p.create, w.want.replicas, taken)
	}
	for _, r := range append(append([]*runner{}, p.drop...), p.dropUnseen...) {
		if r.hasJob && r.alive() && !r.completed && w.past(r).removed.IsZero() && !w.past(r).lost {
			t.Errorf("%s is deleted though it has a job", r.name)
		}
	}
	w.carryOut(p)
	return p
}

func (w *world) carryOut(p *plan) {
	gone := map[*runner]bool{}
	for _, r := range append(p.drop, p.dropUnseen...) {
		gone[r] = true
	}
	for _, r := range p.remove {
		if past := w.past(r); r.hasJob && r.alive() {
			past.busy = true
		} else {
			past.removed = w.now
		}
	}
	for _, r := range p.exitedIdle {
		r.phase = v1alpha1.EphemeralRunnerPhaseFailed
	}
	var left []*runner
	for _, r := range w.runners {
		if !gone[r] {
			left = append(left, r)
		}
	}
	w.runners = left
	w.add(p.create, starting)
}

func TestAnyHistoryKeepsTheRules(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(seed)
		for range 300 {
			w.disturb()
			w.step(t)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// When nothing more happens, jobs get their runners, and when there are no jobs nothing is left but evidence.
func TestAnyHistoryConverges(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(seed)
		for range 200 {
			w.disturb()
			w.step(t)
		}
		w.finish(t)
		for _, r := range w.runners {
			if !r.failedIdle() {
				t.Fatalf("seed %d: %s is left: %+v", seed, r.name, r)
			}
		}
	}
}

// finish lets all jobs be done and the listener publish on, until nothing changes any more.
func (w *world) finish(t *testing.T) {
	for range 400 {
		for _, r := range w.runners {
			w.move(r)
		}
		w.later(10 * time.Second).publish(min(max(w.jobs, 0), w.want.maxRunners))
		w.step(t)
	}
	if w.jobs > 0 {
		t.Errorf("%d jobs wait still", w.jobs)
	}
}

// A plan that was carried out leaves nothing to do: passes can be repeated at will.
func TestPlansAreIdempotent(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(seed)
		for range 100 {
			w.disturb()
			w.step(t)
		}
		w.step(t)
		if p := w.step(t); p.create != 0 || len(p.dropUnseen) != 0 {
			t.Fatalf("seed %d: another pass at the same moment creates %d and deletes %v", seed, p.create, names(p.dropUnseen))
		}
	}
}
