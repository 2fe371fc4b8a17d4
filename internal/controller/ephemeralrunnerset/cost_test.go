package ephemeralrunnerset_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/kube"
)

const exampleURL = "https://github.com/my-org"

// many returns n busy runners, as the cache has them.
func many(n int) []v1alpha1.EphemeralRunner {
	runners := make([]v1alpha1.EphemeralRunner, n)
	for i := range runners {
		name := fmt.Sprintf("runner-%05d", i)
		runners[i] = v1alpha1.EphemeralRunner{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: setKey.Namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start),
				OwnerReferences: kube.OwnedBy(newSet(0)),
			},
			Spec: v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: exampleURL},
			Status: v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RunnerID: i + 1,
				JobID:      name,
				JobPatchID: 1},
		}
	}
	return runners
}

// populate returns a controller whose watch has shown n busy runners of a set.
func populate(n int) (*ephemeralrunnerset.Controller, *v1alpha1.EphemeralRunnerSet, []v1alpha1.EphemeralRunner) {
	c, set, runners := ephemeralrunnerset.NewController(ephemeralrunnerset.Options{Clock: clock.RealClock{}}),
		newSet(n), many(n)
	set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = exampleURL
	watch := controllertest.RunnerWatch{Handler: c.RunnerEvents()}
	watch.Show(context.Background(), runners)
	return c, set, runners
}

// planner has what a pass plans with.
func planner(n int) (*roster.Roster, *v1alpha1.EphemeralRunnerSet, *scaling.History) {
	seen, set := roster.New(), newSet(n)
	set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = exampleURL
	for _, r := range many(n) {
		seen.Put(runnerKey(r.Name), roster.OwnerOf(&r), roster.Of(&r))
	}
	return seen, set, scaling.New(creations.New(clock.RealClock{}))
}

// onePass does everything that a pass does with the runners of a set, except for requests to the API server.
func onePass(seen *roster.Roster, set *v1alpha1.EphemeralRunnerSet, s *scaling.History) {
	views := seen.Of(set.UID)
	s.Remember(scaling.Seen{
		Now: start, Runners: views, PatchID: set.Spec.PatchID, Template: "template",
		ConfigURL: roster.ConfigURLOf(&set.Spec.EphemeralRunnerSpec),
	})
	s.RememberAnswers(views)
	s.Creations.Observe(views)
	p := s.Plan(views, scaling.DemandOf(&set.Spec), s.Creations.Unseen(start))
	s.Follow(p)
	s.Creations.Keep(p.Repeat)
	s.Describe(&set.Status, set, views, p)
}

// A set has at most ten passes a second (see gatherInterval), whatever happens to its runners. So the time of one pass
// bounds the cost of a large set.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			seen, set, s := planner(n)
			b.ReportAllocs()
			for b.Loop() {
				onePass(seen, set, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/runner")
		})
	}
}

// change makes a change of the runner that could affect a decision.
func change(runner *v1alpha1.EphemeralRunner) { runner.Status.JobPatchID++ }

// BenchmarkRunnerEvent measures the cost of one runner event, without the pass that it shares with all other events of
// a tenth of a second.
func BenchmarkRunnerEvent(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, _, runners := populate(n)
			handler, queue := c.RunnerEvents(), &controllertest.Queue{}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				runner := &runners[i%n]
				change(runner)
				handler.Update(b.Context(), event.UpdateEvent{ObjectOld: runner, ObjectNew: runner}, queue)
				queue.Requests = queue.Requests[:0]
			}
		})
	}
}

// An event allocates the same in a set of any size: one new view of its own runner.
func TestAllocationsOfARunnerEvent(t *testing.T) {
	for _, n := range []int{10, 5000} {
		c, _, runners := populate(n)
		handler, queue := c.RunnerEvents(), &controllertest.Queue{Requests: make([]reconcile.Request, 0, 1)}
		if got := testing.AllocsPerRun(100, func() {
			change(&runners[n/2])
			handler.Update(t.Context(), event.UpdateEvent{ObjectOld: &runners[n/2], ObjectNew: &runners[n/2]}, queue)
			queue.Requests = queue.Requests[:0]
		}); got > 1 {
			t.Errorf("an event of one of %d runners allocates %.0f times, want once", n, got)
		}
	}
}

// A pass allocates nothing per runner; it allocates only slices and maps of all runners. A few more allocations are due
// to pools that the garbage collector has emptied.
func TestAllocationsOfAPass(t *testing.T) {
	allocations := func(n int) float64 {
		seen, set, s := planner(n)
		onePass(seen, set, s)
		return testing.AllocsPerRun(10, func() { onePass(seen, set, s) })
	}
	if few, many := allocations(10), allocations(5000); many > few+10 {
		t.Errorf("a pass over 10 runners allocates %.0f times, over 5000 %.0f times", few, many)
	}
}
