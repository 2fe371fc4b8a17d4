package roster_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/feedback"
)

// start is the time at which the oldest runner was created.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func runnerKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "arc-runners", Name: name}
}

func names(runners []*roster.Runner) (all []string) {
	for _, r := range runners {
		all = append(all, r.Name)
	}
	return all
}

func TestRosterIsOrderedByAge(t *testing.T) {
	r := roster.New()
	join := func(name string, after time.Duration) {
		r.Put(runnerKey(name), roster.Owner{UID: "set"},
			roster.Runner{Name: name, UID: types.UID(name), CreatedAt: start.Add(after)})
	}
	want := func(want ...string) {
		t.Helper()
		if got := names(r.Of("set")); !slices.Equal(got, want) {
			t.Errorf("order %v, want %v: the oldest first, and those of one age by name", got, want)
		}
	}
	join("d", time.Minute)
	join("b", 0)
	want("b", "d")
	join("a", 0)
	join("e", time.Minute)
	r.Remove(runnerKey("d"))
	join("c", time.Second)
	want("a", "b", "c", "e")
}

// No pass asks for runners that belong to no set while there is no AutoscalingRunnerSet. One of them stays all the
// time.
func TestRosterForgetsRunnersThatNoPassAsksFor(t *testing.T) {
	r := roster.New()
	put := func(name string) {
		r.Put(runnerKey(name), roster.Owner{}, roster.Runner{Name: name, UID: types.UID(name)})
	}
	put("stays")
	controllertest.WantNothingLeft(t, func(i int) {
		name := fmt.Sprint("runner-", i)
		put(name)
		r.Remove(runnerKey(name))
	})
}

// Nothing is remembered of runners that are gone, of their sets and scale sets, and of the jobs that they have lost.
func TestRosterForgetsWhatIsGone(t *testing.T) {
	r := roster.New()
	controllertest.WantNothingLeft(t, func(i int) {
		name := fmt.Sprint("runner-", i)
		runner := &v1alpha1.EphemeralRunner{}
		runner.Name, runner.UID = name, types.UID(name)
		runner.Labels = map[string]string{v1alpha1.LabelScaleSetName: name, v1alpha1.LabelScaleSetNamespace: "arc-runners"}
		runner.Status.Phase, runner.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.LostCauseEvicted
		runner.Status.JobRepositoryName, runner.Status.WorkflowRunID = "acme/app", int64(i)
		r.Put(runnerKey(name), roster.Owner{UID: types.UID(fmt.Sprint("first-", i))}, roster.Of(runner))
		r.Put(runnerKey(name), roster.Owner{UID: types.UID(fmt.Sprint("second-", i))}, roster.Of(runner))
		r.Remove(runnerKey(name))
	})
}

// rosterModel does what a roster does, in the simplest way.
type rosterModel map[types.NamespacedName]modelMember

type modelMember struct {
	set  roster.Owner
	view roster.Runner
}

func (m rosterModel) of(set types.UID) []*roster.Runner {
	var views []*roster.Runner
	for _, known := range m {
		if known.set.UID == set {
			views = append(views, &known.view)
		}
	}
	slices.SortFunc(views, func(a, b *roster.Runner) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name))
	})
	return views
}

// Runners come, change, disappear, are recreated under their name, and move between sets; in between the roster is
// read.
func TestRosterHoldsWhatTheWatchHasShown(t *testing.T) {
	const seeds, steps = 300, 200
	t.Logf("%d histories of %d events, seeds 0 to %d", seeds, steps, seeds-1)
	sets := []roster.Owner{{}, {UID: "1", Name: "set"}, {UID: "2", Name: "set"}, {UID: "3", Name: "other"}}
	for seed := range uint64(seeds) {
		random, r, model := rand.New(rand.NewPCG(seed, 2)), roster.New(), rosterModel{}
		for step := range steps {
			name := fmt.Sprintf("runner-%d", random.IntN(20))
			key := runnerKey(name)
			if random.IntN(3) == 0 {
				r.Remove(key)
				delete(model, key)
			} else {
				set := sets[random.IntN(len(sets))]
				age := random.IntN(3)
				view := roster.Runner{
					Name: name, UID: types.UID(fmt.Sprint(name, age)),
					CreatedAt: start.Add(time.Duration(age) * time.Second),
					HadJob:    random.IntN(2) == 0,
				}
				r.Put(key, set, view)
				model[key] = modelMember{set: set, view: view}
			}
			if random.IntN(4) > 0 && step < steps-1 {
				continue
			}
			for _, set := range sets[1:] {
				if got, want := r.Of(set.UID), model.of(set.UID); !slices.EqualFunc(got, want,
					func(a, b *roster.Runner) bool { return *a == *b }) {
					t.Fatalf("seed %d, step %d: set %s has %v, want %v", seed, step, set.UID, names(got), names(want))
				}
			}
		}
		for key := range model {
			r.Remove(key)
			if set := r.SetOf(key); set != (roster.Owner{}) {
				t.Fatalf("seed %d: runner %s, which is gone, belongs to %v", seed, key, set)
			}
		}
		left := r.Others(types.NamespacedName{}, "")
		for _, set := range sets[1:] {
			if views := r.Of(set.UID); len(views)+len(left) > 0 {
				t.Fatalf("seed %d: something is left of runners that are gone: %v, owners %v", seed, names(views), left)
			}
		}
	}
}

// A pass may read its views while the watch continues.
func TestViewsOfAPassDoNotChange(t *testing.T) {
	r := roster.New()
	put := func(i int, hadJob bool) {
		name := fmt.Sprint(i)
		r.Put(runnerKey(name), roster.Owner{UID: "set"}, roster.Runner{Name: name, UID: types.UID(name), HadJob: hadJob})
	}
	const runners = 100
	for i := range runners {
		put(i, false)
	}
	views := r.Of("set")
	var watch sync.WaitGroup
	watch.Go(func() {
		for i := range runners {
			put(i, true)
			r.Remove(runnerKey(fmt.Sprint(i)))
		}
	})
	for range runners {
		r.Of("set")
		for _, view := range views {
			if view.HadJob {
				t.Fatalf("runner %s has changed during a pass", view.Name)
			}
		}
	}
	watch.Wait()
}

func TestJobsOfARunThatWereLostOnOtherSets(t *testing.T) {
	all := roster.New()
	run := feedback.Run{Repository: "acme/app", ID: 7}
	put := func(namespace, name string, set types.UID, phase v1alpha1.EphemeralRunnerPhase, run int64) {
		runner := &v1alpha1.EphemeralRunner{}
		runner.Namespace, runner.Name, runner.UID = namespace, name, types.UID(namespace+name)
		runner.Status.Phase, runner.Status.LostCause, runner.Status.JobRepositoryName,
			runner.Status.WorkflowRunID = phase,
			"Evicted", "acme/app", run
		all.Put(types.NamespacedName{Namespace: namespace, Name: name}, roster.Owner{UID: set}, roster.Of(runner))
	}
	put("ours", "a", "here", v1alpha1.EphemeralRunnerPhaseFailed, 7)
	put("ours", "b", "there", v1alpha1.EphemeralRunnerPhaseFailed, 7)
	put("ours", "c", "there", v1alpha1.EphemeralRunnerPhaseRunning, 7)
	put("ours", "d", "there", v1alpha1.EphemeralRunnerPhaseFailed, 8)
	put("theirs", "e", "elsewhere", v1alpha1.EphemeralRunnerPhaseFailed, 7)
	if beside := all.LostBeside("ours", run, "here"); len(beside) != 1 || beside[0].Runner != "b" {
		t.Errorf("beside it: %v, want b", beside)
	}
	put("ours", "b", "there", v1alpha1.EphemeralRunnerPhaseFailed, 9)
	all.Remove(types.NamespacedName{Namespace: "ours", Name: "a"})
	if beside := all.LostBeside("ours", run, ""); len(beside) != 0 {
		t.Errorf("left: %v, want none", beside)
	}
}
