package ephemeralrunner

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// tidyingAtOnce is how many passes at once remove what is left of runners that have done their work. Each makes three
// requests that nobody waits for: at 10 ms a request six see 200 runners a second off. With all workers at it, pods that
// had ended waited up to 0.9 s for a free one.
const tidyingAtOnce = 6

// tidyingPause is how long a runner waits at most before it asks for its turn again.
const tidyingPause = 2 * time.Second

// turns bound the passes that tidy up. Who gets no turn is woken when one is free.
type turns struct {
	wake func(types.NamespacedName)

	mu    sync.Mutex
	taken int
	// waiting have got no turn since they asked, in the order of line, where some stand that have had theirs since.
	waiting sets.Set[types.NamespacedName]
	line    []types.NamespacedName
}

func newTurns(wake func(types.NamespacedName)) *turns {
	return &turns{wake: wake, waiting: sets.New[types.NamespacedName]()}
}

// take returns what ends the runner's turn, nil where it gets none. A runner that was woken may not come any more, and its
// turn with it: whoever waits asks again after tidyingPause.
func (t *turns) take(runner types.NamespacedName) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken < tidyingAtOnce {
		t.taken++
		t.waiting.Delete(runner)
		return t.end
	}
	if !t.waiting.Has(runner) {
		t.waiting.Insert(runner)
		t.line = append(t.line, runner)
	}
	return nil
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	for len(t.line) > 0 {
		next := t.line[0]
		t.line = t.line[1:]
		if t.waiting.Has(next) {
			t.waiting.Delete(next)
			t.wake(next)
			return
		}
	}
}
