package pool

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Call is what is known of the last call for a key.
type Call[R any] struct {
	// Result and Err are what the call returned; they are zero while it is under way.
	Result R
	Err    error
	// Started is when it was asked for and Finished when it returned, zero while it is under way or waits for its turn.
	Started, Finished time.Time
	// Failures counts the failed calls since the last good one, this one included.
	Failures int
}

// Running reports whether the call was asked for and has not returned yet.
func (c Call[R]) Running() bool { return !c.Started.IsZero() && c.Finished.IsZero() }

// Calls remembers, by key, the calls that reconcilers asked for and how they ended. It is memory only: after a restart
// nothing is known and everything is asked again, so every call must be safe to repeat.
type Calls[K comparable, R any] struct {
	pool  *Pool
	clock clock.PassiveClock
	done  func(K)

	mu    sync.Mutex
	calls map[K]*Call[R]
}

// NewCalls returns an empty memory of calls that run in the pool. After each call done is told its key; a controller
// reconciles the object again there. done must not block.
func NewCalls[K comparable, R any](pool *Pool, clk clock.PassiveClock, done func(K)) *Calls[K, R] {
	return &Calls[K, R]{pool: pool, clock: clk, done: done, calls: map[K]*Call[R]{}}
}

// Go asks for a call in the name of a group (a scale set). It returns false, and asks for nothing, while one for the
// same key is under way.
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

// finish notes how a call ended. A call that was forgotten meanwhile is no longer in the map, so nobody sees the note.
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

// Forget drops what is known for the key, which must be done when its object is gone. A call under way goes on; its
// result is not kept.
func (c *Calls[K, R]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, key)
}
