package ephemeralrunnerset

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// many returns objects of n busy runners, as the cache has them.
func many(n int) []v1alpha1.EphemeralRunner {
	runners := make([]v1alpha1.EphemeralRunner, n)
	for i := range runners {
		name := fmt.Sprintf("runner-%05d", i)
		runners[i] = v1alpha1.EphemeralRunner{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start)},
			Status:     v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseRunning, RunnerID: i + 1, JobID: name, JobPatchID: 1},
		}
	}
	return runners
}

// onePass is everything a pass does with the runners of a set but asking the API server.
func onePass(h *history, runners []v1alpha1.EphemeralRunner) {
	h.runners = observe(runners, "template")
	h.pass()
}

// A set has at most ten passes a second (see gather), whatever happens to its runners, so the time of one pass is what
// bounds the cost of a large set.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h, runners := newHistory(n), many(n)
			b.ReportAllocs()
			for b.Loop() {
				onePass(h, runners)
			}
		})
	}
}

// A pass may allocate a view of each runner, and nothing else for each.
func TestAllocationsOfAPass(t *testing.T) {
	const n = 1000
	h, runners := newHistory(n), many(n)
	onePass(h, runners)
	if got := testing.AllocsPerRun(10, func() { onePass(h, runners) }); got > 1.2*n {
		t.Errorf("a pass over %d runners allocates %.0f times", n, got)
	}
}

func TestAllocationsOfANewRunner(t *testing.T) {
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: "runners"}}
	if got := testing.AllocsPerRun(100, func() { newRunner(set, "runner", "template", "") }); got > 40 {
		t.Errorf("a new runner allocates %.0f times", got)
	}
}
