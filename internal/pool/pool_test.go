package pool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/pool"
)

// A call that takes longer than slowGrace leaves its place to another.
const slowGrace = 2 * time.Second

// run starts a pool inside a synctest bubble and stops it when the test ends.
func run(t *testing.T, limit int) *pool.Pool {
	t.Helper()
	started := pool.New(limit, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- started.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
	return started
}

func hold(d time.Duration) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

func TestPoolRunsAtMostLimitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := run(t, 3)
		inFlight := make(chan struct{}, 100)
		var mu sync.Mutex
		most := 0
		for range 20 {
			pool.Go("set", func(ctx context.Context) {
				inFlight <- struct{}{}
				mu.Lock()
				most = max(most, len(inFlight))
				mu.Unlock()
				hold(time.Second)(ctx)
				<-inFlight
			})
		}
		start := time.Now()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if most > 3 {
			t.Errorf("%d tasks in flight at once, limit 3", most)
		}
		if len(inFlight) != 0 {
			t.Errorf("%d tasks still run after %s", len(inFlight), time.Since(start))
		}
	})
}

// Sets that have their shares in flight get no more than the limit between them.
func TestPoolSetsShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		pool := run(t, limit)
		started := make(chan struct{}, 100)
		for range 3 {
			for _, set := range []string{"a", "b"} {
				pool.Go(set, func(ctx context.Context) { started <- struct{}{}; hold(time.Second)(ctx) })
			}
		}
		synctest.Wait()
		if len(started) != limit {
			t.Errorf("%d tasks of two sets started at once, limit %d", len(started), limit)
		}
	})
}

func TestPoolGroupsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := run(t, 2)
		for range 100 {
			pool.Go("large", hold(time.Second))
		}
		start, waited := time.Now(), time.Duration(0)
		pool.Go("small", func(context.Context) { waited = time.Since(start) })
		<-time.After(time.Minute)
		synctest.Wait()
		if waited != 0 {
			t.Errorf("the small set's task waited %s behind the large set's", waited)
		}
	})
}

// Whoever may create runners in one namespace may give each a scale set's labels of its own.
func TestPoolNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, groups = 4, 400
		pool := run(t, limit)
		synctest.Wait()
		ran, hangs := map[string]bool{}, hold(30*time.Second)
		var mutex sync.Mutex
		for i := range groups {
			group := fmt.Sprintf("crowd/%d", i)
			pool.Go(group, func(ctx context.Context) {
				mutex.Lock()
				ran[group] = true
				mutex.Unlock()
				hangs(ctx)
			})
		}
		for range 3 {
			start, waited := time.Now(), time.Hour
			pool.Go("other/set", func(context.Context) { waited = time.Since(start) })
			<-time.After(slowGrace)
			synctest.Wait()
			if waited > slowGrace {
				t.Errorf("a task waited %s behind those of another namespace's many sets, want %s at most", waited, slowGrace)
			}
		}
		<-time.After(slowGrace * groups / limit)
		synctest.Wait()
		if len(ran) != groups {
			t.Errorf("%d of %d groups had their turn", len(ran), groups)
		}
	})
}

// Its places are given back only when its calls turn out to be slow.
func TestPoolHangingGroupKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := run(t, 4)
		synctest.Wait()
		for range 4 {
			pool.Go("hangs", hold(30*time.Second))
		}
		start := time.Now()
		for range 8 {
			pool.Go("other", hold(time.Second))
		}
		var waited time.Duration
		pool.Go("other", func(context.Context) { waited = time.Since(start) })
		<-time.After(10 * time.Second)
		synctest.Wait()
		// Two begin at 0 s and at 1 s, and four at 2 s, when the hanging ones have given their places back.
		if want := slowGrace + time.Second; waited != want {
			t.Errorf("the ninth task waited %s beside a set that hangs, want %s", waited, want)
		}
	})
}

func TestPoolIsBoundedBesideAHangingGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 12
		pool := run(t, limit)
		synctest.Wait()
		inFlight := make(chan struct{}, 1000)
		task := func(ctx context.Context) { inFlight <- struct{}{}; hold(slowGrace / 2)(ctx) }
		want := map[string]int{"hangs": limit, "a": limit + 6, "b": limit + 6 + 4, "c": 2 * limit}
		for _, group := range []string{"hangs", "a", "b", "c"} {
			for range 50 {
				pool.Go(group, task)
			}
			synctest.Wait()
			if got := len(inFlight); got != want[group] {
				t.Errorf("%d tasks in flight when %s has come, want %d", got, group, want[group])
			}
		}
	})
}

// The same holds if there are more groups than places.
func TestPoolHangingGroupKeepsNoneOfManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, groups = 4, 4
		pool := run(t, limit)
		synctest.Wait()
		for range limit {
			pool.Go("hangs", hold(time.Hour))
		}
		started := make(chan struct{}, groups)
		for group := range groups {
			pool.Go(string(rune('a'+group)), func(ctx context.Context) { started <- struct{}{}; hold(time.Second)(ctx) })
		}
		synctest.Wait()
		if len(started) != groups {
			t.Errorf("%d of %d groups' tasks started at once", len(started), groups)
		}
	})
}

func TestPoolHangingGroupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := run(t, 4)
		started := make(chan struct{}, 100)
		for range 50 {
			pool.Go("hangs", func(ctx context.Context) { started <- struct{}{}; hold(time.Hour)(ctx) })
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(started) != 4 {
			t.Errorf("%d hanging tasks of one set in flight, want the limit of 4", len(started))
		}
	})
}

// A group that has as many calls in flight as it may, while places are free, waits for nobody but itself.
func TestPoolSaysWhoseTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		pool := run(t, limit)
		want := func(when string, own, others bool) {
			t.Helper()
			synctest.Wait()
			if got, of := pool.Waiting("set"), pool.Waiting("other"); got != own || of != others {
				t.Errorf("%s: Waiting() = %t, of another group %t; want %t, %t", when, got, of, own, others)
			}
		}
		want("nothing runs", false, false)
		for range limit {
			pool.Go("set", hold(time.Hour))
		}
		want("all run", false, false)
		pool.Go("set", hold(time.Hour))
		want("one waits for a place", true, true)
		<-time.After(slowGrace)
		want("all that run are slow, and one waits for them", true, false)
	})
}
