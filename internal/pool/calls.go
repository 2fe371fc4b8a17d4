package pool

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Call is the state of the last call for a key.
type Call[R any] struct {
	// Result and Err are what the call returned, zero while it is in progress.
	Result R
	Err    error
	// Started is when the call was requested. Finished is when it returned, zero while it is in progress or waits for its turn.
	Started, Finished time.Time
	// Failures counts the failed calls since the last successful one, including this one.
	Failures int
}

// Running reports whether the call was requested and has not returned yet.
func (c Call[R]) Running() bool { return !c.Started.IsZero() && c.Finished.IsZero() }

// Calls remembers, by key, the calls that reconcilers requested and how they ended. It is kept only in memory: after a restart
// everything is requested again, so every call must be safe to repeat.
type Calls[K comparable, R any] struct {
	pool  *Pool
	clock clock.PassiveClock
	done  func(K)

	mu    sync.Mutex
	calls map[K]*Call[R]
}

// NewCalls returns an empty memory of calls that run in the pool. After each call, done is called with its key, so that the
// controller reconciles the object again. done must not block.
func NewCalls[K comparable, R any](pool *Pool, clk clock.PassiveClock, done func(K)) *Calls[K, R] {
	return &Calls[K, R]{pool: pool, clock: clk, done: done, calls: map[K]*Call[R]{}}
}

// Go requests a call on behalf of a group (a scale set). While a call for the same key is in progress, it requests nothing and
// returns false.
func (c *Calls[K, R]) Go(group string, key K, call func(context.Context) (R, error)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &Call[R]{Started: c.clock.Now()}
	if last, known := c.calls[key]; known {
		if last.Running() {
			return false
		}
		next.Failures = last.Failures
	}
	c.calls[key] = next
	c.pool.Go(group, func(ctx context.Context) {
		result, err := call(ctx)
		c.finish(next, result, err)
		c.done(key)
	})
	return true
}

// finish records how a call ended. A call that was forgotten in the meantime is no longer in the map, so nobody sees the record.
func (c *Calls[K, R]) finish(call *Call[R], result R, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Result, call.Err, call.Finished = result, err, c.clock.Now()
	if err != nil {
		call.Failures++
	} else {
		call.Failures = 0
	}
}

// Last returns the last call for the key, and whether there was one.
func (c *Calls[K, R]) Last(key K) (Call[R], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, known := c.calls[key]; known {
		return *call, true
	}
	return Call[R]{}, false
}

// Forget drops what is remembered for the key, which must be done when its object is gone. A call in progress continues, but its
// result is not kept.
func (c *Calls[K, R]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, key)
}
