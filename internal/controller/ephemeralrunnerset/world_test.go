package ephemeralrunnerset

import (
	"fmt"
	"math/rand/v2"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/pool"
)

// world is all that a set's controller meets: GitHub, API server, kubelets and listener as they are, a cache that shows
// them as they were some moments ago, and a memory that a restart takes away. Everything in it follows from the seed.
type world struct {
	random *rand.Rand
	clock  *clocktesting.FakePassiveClock
	set    *v1alpha1.EphemeralRunnerSet

	// What is: jobs that GitHub has assigned, running ones included; the set's figures; its runners.
	jobs     int
	figures  figures
	template int
	place    place
	runners  []*one
	made     int
	calm     bool // nothing goes wrong any more

	// What the controller has: the cache, and what it remembers.
	seen       figures
	cache      []*runner // what the roster holds
	controller *Controller
	memory     *setMemory
	inFlight   map[types.UID]func(*one) answer
	answers    map[types.UID]pool.Call[answer]
}

// figures are what the listener writes, and the user's limit.
type figures struct {
	demand
	patchID int
}

// one is a runner as it is, beside what the API server says of it.
type one struct {
	runner
	up         bool // the container runs
	registered bool // GitHub knows it
	busy       bool // GitHub has given it a job, which has not ended
	silent     bool // reports about it get lost
	changed    time.Time
	shown      bool // the cache shows it as it is
}

// lagAtMost is how late the cache may be: watches that are later are made anew.
const lagAtMost = 20 * time.Second

func newWorld(seed uint64) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), clock: clocktesting.NewFakePassiveClock(start),
		set: newSet(0), inFlight: map[types.UID]func(*one) answer{},
	}
	w.figures.demand = demand{maxRunners: 20, failedHistory: defaultFailedHistory, registrationTimeout: defaultRegistrationTimeout}
	w.restartManager()
	return w
}

func (w *world) now() time.Time        { return w.clock.Now() }
func (w *world) later(d time.Duration) { w.clock.SetTime(w.now().Add(d)) }
func (w *world) chance(n int) bool     { return w.random.IntN(n) == 0 }

// restartManager loses all memory; calls that were under way may have had their effect. A new cache is complete.
func (w *world) restartManager() {
	w.controller = NewController(Options{Clock: w.clock})
	w.memory = w.controller.memoryOf(w.set)
	w.inFlight, w.answers = map[types.UID]func(*one) answer{}, map[types.UID]pool.Call[answer]{}
	w.show(true)
}

// publish lets the listener write its figures.
func (w *world) publish() {
	w.figures.patchID++
	w.figures.replicas, w.figures.assignedJobs = min(w.jobs, w.figures.maxRunners), w.jobs
}

// disturb lets one thing happen.
func (w *world) disturb() {
	w.later(time.Duration(w.random.IntN(6)) * time.Second)
	switch w.random.IntN(40) {
	case 0, 1, 2:
		w.jobs = min(w.jobs+w.random.IntN(8), 40)
	case 3: // cancelled before they started
		w.jobs -= w.random.IntN(w.jobs - w.busy() + 1)
	case 4:
		w.figures.patchID += 1000 // a new listener
		w.publish()
	case 5:
		w.restartManager()
	case 6:
		if w.chance(4) {
			w.template++
			w.moveSet()
		}
	case 7:
		w.figures.maxRunners = 10 + w.random.IntN(15)
	case 8, 9, 10, 11:
		w.publish()
	case 12, 13, 14:
		w.answer()
	default:
		if len(w.runners) > 0 {
			w.move(w.runners[w.random.IntN(len(w.runners))])
		}
	}
	w.show(w.chance(3))
}

// moveSet has the set, sometimes, register its runners elsewhere, or where it did before.
func (w *world) moveSet() {
	if w.chance(2) {
		w.place = unique.Make(fmt.Sprint("https://github.com/org-", w.random.IntN(3)))
	}
}

func (w *world) busy() int {
	busy := 0
	for _, r := range w.runners {
		if r.busy {
			busy++
		}
	}
	return busy
}

// write notes that the API server has something new of a runner.
func (w *world) write(r *one) {
	w.made++
	r.version, r.changed, r.shown = fmt.Sprint(w.made), w.now(), false
}

// show brings the cache up to date, wholly or here and there.
func (w *world) show(all bool) {
	if all || w.chance(3) {
		w.seen = w.figures
	}
	for _, r := range w.runners {
		if all || r.shown || w.chance(3) || w.now().Sub(r.changed) > lagAtMost {
			r.shown = true
			w.saw(r.runner)
		}
	}
	for _, r := range w.cache {
		if w.find(r) != nil {
			continue
		}
		if all || w.chance(2) {
			w.controller.roster.remove(runnerKey(r.name))
			continue
		}
		going := *r
		going.deleting = true
		w.saw(going)
	}
	w.cache = w.controller.roster.of(w.set.UID)
}

// saw is the watch's word of a runner.
func (w *world) saw(view runner) {
	w.controller.roster.put(runnerKey(view.name), owner{uid: w.set.UID, name: w.set.Name}, view)
}

func runnerKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: setKey.Namespace, Name: name}
}

// answer lets GitHub answer a question, if one waits.
func (w *world) answer() {
	for _, r := range w.runners {
		ask, asked := w.inFlight[r.uid]
		if !asked {
			continue
		}
		delete(w.inFlight, r.uid)
		w.answers[r.uid] = pool.Call[answer]{Result: ask(r), Finished: w.now()}
		if w.chance(5) {
			w.answers[r.uid] = pool.Call[answer]{Err: errNoAnswer, Finished: w.now()} // it was lost
		}
		return
	}
}

// askedToRemove is GitHub's side of a removal.
func askedToRemove(r *one) answer {
	if r.busy {
		return answerBusy
	}
	r.registered = false
	return answerRemoved
}

// askedWhether is GitHub's side of a look.
func askedWhether(r *one) answer {
	if r.registered {
		return answerRegistered
	}
	return answerMissing
}
