package ephemeralrunner

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func runnerNumber(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("runner-", i)}
}

// Whoever gets no turn is woken once for each that ends, in order, and not any more when it has had one.
func TestTurns(t *testing.T) {
	var woken []types.NamespacedName
	turns := newTurns(func(runner types.NamespacedName) { woken = append(woken, runner) })
	var ends []func()
	for i := range tidyingAtOnce {
		end := turns.take(runnerNumber(i))
		if end == nil {
			t.Fatalf("no turn for runner %d of %d", i, tidyingAtOnce)
		}
		ends = append(ends, end)
	}
	for i := tidyingAtOnce; i < tidyingAtOnce+3; i++ {
		for range 2 { // a pass that something else brought about asks again
			if turns.take(runnerNumber(i)) != nil {
				t.Fatalf("a turn for runner %d, %d at once", i, tidyingAtOnce)
			}
		}
	}
	ends[0]()
	if want := []types.NamespacedName{runnerNumber(tidyingAtOnce)}; !slices.Equal(woken, want) {
		t.Fatalf("woken %v, want %v", woken, want)
	}
	// The second in line is quicker than the first.
	if ends[0] = turns.take(runnerNumber(tidyingAtOnce + 1)); ends[0] == nil {
		t.Fatal("a free turn is not given")
	}
	for _, end := range ends {
		end()
	}
	if want := []types.NamespacedName{runnerNumber(tidyingAtOnce), runnerNumber(tidyingAtOnce + 2)}; !slices.Equal(woken, want) {
		t.Errorf("woken %v, want %v: who had a turn waits no more", woken, want)
	}
	if turns.taken != 0 || len(turns.line)+len(turns.waiting) != 0 {
		t.Errorf("%d taken, %v in line, %v wait, want nothing", turns.taken, turns.line, turns.waiting)
	}
}

// However many tidy up: the pod, which occupies a machine, goes at once, and the rest when there is a turn, even for one that
// nobody woke.
func TestPodOfARunnerThatIsDoneWaitsForNoTurn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		var ends []func()
		for i := range tidyingAtOnce {
			ends = append(ends, f.controller.tidying.take(runnerNumber(i)))
		}
		f.setStatus(jobDone)
		f.setPod(exits(0))
		f.settle()
		if again := f.reconcile().RequeueAfter; again != tidyingPause {
			t.Errorf("it asks again after %s, want %s", again, tidyingPause)
		}
		if f.pod() != nil || f.runner() == nil {
			t.Fatalf("pod %v, runner %v, want the pod gone and the runner there", f.pod(), f.runner())
		}
		for _, end := range ends {
			end()
		}
		f.settle()
		f.wantGone()
	}, newRunner())
}
