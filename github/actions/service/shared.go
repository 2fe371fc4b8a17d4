package service

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// Shared is a value that many callers read. It is replaced as a whole, by one fetch for all callers that need it at the
// same time. Its lock is not held during a fetch, so readers can use the old value.
type Shared[T any] struct {
	// Fetch returns a new value. stale is the value to be replaced, nil at first. It never runs twice at a time.
	Fetch func(ctx context.Context, stale *T) (*T, error)
	// Limit is the longest time that a fetch may take.
	Limit time.Duration

	flight  singleflight.Group
	mu      sync.Mutex
	current *T
}

// Get returns the current value, nil if there is none yet.
func (s *Shared[T]) Get() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Set replaces the current value.
func (s *Shared[T]) Set(value *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = value
}

// Replace returns a value other than stale: the current one if it has been replaced already, or else a fetched one. If
// a caller's context ends, the caller leaves immediately and the fetch goes on for the others.
func (s *Shared[T]) Replace(ctx context.Context, stale *T) (*T, error) {
	if current := s.Get(); current != stale {
		return current, nil
	}
	fetched := s.flight.DoChan("", func() (any, error) {
		if current := s.Get(); current != stale {
			return current, nil // another fetch has ended since the check above
		}
		ctx, cancel := failure.WithTimeout(context.WithoutCancel(ctx), s.Limit)
		defer cancel()
		fresh, err := s.Fetch(ctx, stale)
		if err != nil {
			return nil, err
		}
		s.Set(fresh)
		return fresh, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-fetched:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*T), nil
	}
}

// WithRenewal makes a call with a shared value. If GitHub refuses the credential in it, which is of the given kind, the
// value is replaced once and the call is repeated once. A refusal of another credential, such as one that a renewal
// used, changes nothing.
func WithRenewal[T any](ctx context.Context, values *Shared[T], value *T, credential string,
	call func(*T) (*exchange.Response, error),
) (*exchange.Response, error) {
	answer, err := call(value)
	if !failure.IsRefused(err, credential) {
		return answer, err
	}
	value, err = values.Replace(ctx, value)
	if err != nil {
		return nil, err
	}
	answer, err = call(value)
	return answer, failure.MarkRenewal(err, credential)
}

// unlessLimited returns the function that fetches a value, except while GitHub is rate limiting us: otherwise every
// runner's call would try again, and GitHub extends the limit of clients that do. The function's state needs no lock
// because it never runs twice at a time.
func unlessLimited[T any](
	clk clock.PassiveClock, fetch func(context.Context, *T) (*T, error),
) func(context.Context, *T) (*T, error) {
	var failed error
	return func(ctx context.Context, stale *T) (fresh *T, err error) {
		if now := clk.Now(); failure.RetryAt(failed, now).After(now) {
			return nil, failed
		}
		fresh, failed = fetch(ctx, stale)
		return fresh, failed
	}
}
