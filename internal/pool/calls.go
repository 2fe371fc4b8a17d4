package pool

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Call is the state of the last call for a key.
type Call[R any] struct {
	// Result and Err are the call's own results, zero while it is in progress.
	Result R
	Err    error
	// Started is the time of the request. Finished is the time of the return, zero while the call is in progress or
	// waits for its turn.
	Started, Finished time.Time
	// Failures counts the failed calls since the last successful one, including this one.
	Failures int
}

// Running reports whether the call was requested and has not returned yet.
func (c Call[R]) Running() bool { return !c.Started.IsZero() && c.Finished.IsZero() }

// Last remembers the last call of one kind about one object, and its result. It is kept only in memory: after a restart
// everything is requested again, so every call must be safe to repeat. The zero value remembers none. Safe for
// concurrent use.
type Last[R any] struct {
	mu   sync.Mutex
	call *Call[R]
}

// Go requests a call that runs in the pool on behalf of a group (a scale set). While the last one is in progress, it
// requests nothing and returns false. After the call, done is called, which must not block, so that the controller
// reconciles the object again.
func (l *Last[R]) Go(
	pool *Pool, clk clock.PassiveClock, group string, call func(context.Context) (R, error), done func(),
) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &Call[R]{Started: clk.Now()}
	if l.call != nil {
		if l.call.Running() {
			return false
		}
		next.Failures = l.call.Failures
	}
	l.call = next
	pool.Go(group, func(ctx context.Context) {
		result, err := call(ctx)
		l.finish(next, result, err, clk.Now())
		done()
	})
	return true
}

// finish records the result of a call. Nobody sees the record of a call that was forgotten in the meantime.
func (l *Last[R]) finish(call *Call[R], result R, err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	call.Result, call.Err, call.Finished = result, err, now
	if err != nil {
		call.Failures++
	} else {
		call.Failures = 0
	}
}

// Get returns the last call, and whether there was one.
func (l *Last[R]) Get() (Call[R], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call == nil {
		return Call[R]{}, false
	}
	return *l.call, true
}

// Take returns the last call if it has ended, and drops it.
func (l *Last[R]) Take() (call Call[R], ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call == nil || l.call.Running() {
		return Call[R]{}, false
	}
	call, l.call = *l.call, nil
	return call, true
}

// Forget drops the last call. If it is in progress it continues, but its result is not kept.
func (l *Last[R]) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call = nil
}

// Calls remembers by key the calls that reconcilers requested, and their results.
type Calls[K comparable, R any] struct {
	pool  *Pool
	clock clock.PassiveClock
	done  func(K)

	mu   sync.Mutex
	last map[K]*Last[R]
}

// NewCalls returns an empty memory of calls that run in the pool. After each call, done is called with its key, so that
// the controller reconciles the object again. done must not block.
func NewCalls[K comparable, R any](pool *Pool, clk clock.PassiveClock, done func(K)) *Calls[K, R] {
	return &Calls[K, R]{pool: pool, clock: clk, done: done, last: map[K]*Last[R]{}}
}

// Go requests a call on behalf of a group (a scale set). While a call for the same key is in progress, it requests
// nothing and returns false.
func (c *Calls[K, R]) Go(group string, key K, call func(context.Context) (R, error)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[key] == nil {
		c.last[key] = &Last[R]{}
	}
	return c.last[key].Go(c.pool, c.clock, group, call, func() { c.done(key) })
}

// Last returns the last call for the key, and whether there was one.
func (c *Calls[K, R]) Last(key K) (Call[R], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[key]; last != nil {
		return last.Get()
	}
	return Call[R]{}, false
}

// Take returns the last call for the key if it has ended, and drops it.
func (c *Calls[K, R]) Take(key K) (call Call[R], ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[key]; last != nil {
		if call, ended = last.Take(); ended {
			delete(c.last, key)
		}
	}
	return call, ended
}

// Forget drops what is remembered for the key, which must be done when its object is gone. A call in progress
// continues, but its result is not kept.
func (c *Calls[K, R]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
}
