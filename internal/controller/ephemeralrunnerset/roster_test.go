package ephemeralrunnerset

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestRosterIsOrderedByAge(t *testing.T) {
	r := newRoster()
	join := func(name string, after time.Duration) {
		r.put(runnerKey(name), owner{uid: "set"}, runnerView{name: name, uid: types.UID(name), createdAt: start.Add(after)})
	}
	want := func(want ...string) {
		t.Helper()
		if got := names(r.of("set")); !slices.Equal(got, want) {
			t.Errorf("order %v, want %v: the oldest first, and those of one age by name", got, want)
		}
	}
	join("d", time.Minute)
	join("b", 0)
	want("b", "d")
	join("a", 0)
	join("e", time.Minute)
	r.remove(runnerKey("d"))
	join("c", time.Second)
	want("a", "b", "c", "e")
}

// No pass asks for runners that belong to no set while there is no AutoscalingRunnerSet. One of them stays all the time.
func TestRosterForgetsRunnersThatNoPassAsksFor(t *testing.T) {
	r := newRoster()
	for i := range 10_000 {
		name := fmt.Sprint("runner-", i)
		r.put(runnerKey(name), owner{}, runnerView{name: name, uid: types.UID(name)})
		if i > 0 {
			r.remove(runnerKey(name))
		}
	}
	if held := len(r.sets[nobodys(types.NamespacedName{}).uid].members); held > 2 {
		t.Errorf("%d runners are held, and one lives", held)
	}
}

// rosterModel does what a roster does, in the simplest way.
type rosterModel map[types.NamespacedName]*member

func (m rosterModel) of(set types.UID) []*runnerView {
	var views []*runnerView
	for _, known := range m {
		if known.set.uid == set {
			views = append(views, known.view)
		}
	}
	slices.SortFunc(views, func(a, b *runnerView) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), cmp.Compare(a.name, b.name))
	})
	return views
}

// Runners come, change, disappear, are recreated under their name, and move between sets; in between the roster is read.
func TestRosterHoldsWhatTheWatchHasShown(t *testing.T) {
	const seeds, steps = 300, 200
	t.Logf("%d histories of %d events, seeds 0 to %d", seeds, steps, seeds-1)
	sets := []owner{{}, {uid: "1", name: "set"}, {uid: "2", name: "set"}, {uid: "3", name: "other"}}
	for seed := range uint64(seeds) {
		random, r, model := rand.New(rand.NewPCG(seed, 2)), newRoster(), rosterModel{}
		for step := range steps {
			name := fmt.Sprintf("runner-%d", random.IntN(20))
			key := runnerKey(name)
			if random.IntN(3) == 0 {
				r.remove(key)
				delete(model, key)
			} else {
				set := sets[random.IntN(len(sets))]
				age := random.IntN(3)
				view := runnerView{
					name: name, uid: types.UID(fmt.Sprint(name, age)), createdAt: start.Add(time.Duration(age) * time.Second),
					hadJob: random.IntN(2) == 0,
				}
				r.put(key, set, view)
				model[key] = &member{set: set, view: &view}
			}
			if random.IntN(4) > 0 && step < steps-1 {
				continue
			}
			for _, set := range sets[1:] {
				if got, want := r.of(set.uid), model.of(set.uid); !slices.EqualFunc(got, want, func(a, b *runnerView) bool { return *a == *b }) {
					t.Fatalf("seed %d, step %d: set %s has %v, want %v", seed, step, set.uid, names(got), names(want))
				}
			}
		}
		for key := range maps.Clone(r.members) {
			r.remove(key)
		}
		if len(r.members)+len(r.sets) > 0 {
			t.Fatalf("seed %d: something is left of runners that are gone: %v", seed, r)
		}
	}
}

// A pass may read its views while the watch continues.
func TestViewsOfAPassDoNotChange(t *testing.T) {
	r := newRoster()
	put := func(i int, hadJob bool) {
		name := fmt.Sprint(i)
		r.put(runnerKey(name), owner{uid: "set"}, runnerView{name: name, uid: types.UID(name), hadJob: hadJob})
	}
	const runners = 100
	for i := range runners {
		put(i, false)
	}
	views := r.of("set")
	var watch sync.WaitGroup
	watch.Go(func() {
		for i := range runners {
			put(i, true)
			r.remove(runnerKey(fmt.Sprint(i)))
		}
	})
	for range runners {
		r.of("set")
		for _, view := range views {
			if view.hadJob {
				t.Fatalf("runner %s has changed during a pass", view.name)
			}
		}
	}
	watch.Wait()
}
