package actions

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared is a value that many callers read. It is replaced as a whole, by one fetch for all callers that need it at the
// same time. Its lock is not held during a fetch, so readers can use the old value.
type shared[T any] struct {
	// fetch returns a new value. stale is the value to be replaced, nil at first. It never runs twice at a time.
	fetch func(ctx context.Context, stale *T) (*T, error)
	// limit is how long a fetch may take.
	limit time.Duration

	flight  singleflight.Group
	mu      sync.Mutex
	current *T
}

func (s *shared[T]) get() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *shared[T]) set(value *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = value
}

// replace returns a value other than stale: the current one if it has been replaced already, or else a fetched one. If a
// caller's context ends, the caller leaves at once and the fetch goes on for the others.
func (s *shared[T]) replace(ctx context.Context, stale *T) (*T, error) {
	if current := s.get(); current != stale {
		return current, nil
	}
	fetched := s.flight.DoChan("", func() (any, error) {
		if current := s.get(); current != stale {
			return current, nil // another fetch has ended since the check above
		}
		ctx, cancel := withTimeout(context.WithoutCancel(ctx), s.limit)
		defer cancel()
		fresh, err := s.fetch(ctx, stale)
		if err != nil {
			return nil, err
		}
		s.set(fresh)
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

// withRenewal makes a call with a shared value. If GitHub refuses the credential in it, the value is replaced once and
// the call is repeated once. A refusal of another credential, such as one that a renewal used, changes nothing.
func withRenewal[T any](ctx context.Context, values *shared[T], value *T, credential string,
	call func(*T) (*response, error),
) (*response, error) {
	answer, err := call(value)
	if !isRefused(err, credential) {
		return answer, err
	}
	value, err = values.replace(ctx, value)
	if err != nil {
		return nil, err
	}
	answer, err = call(value)
	return answer, noteRenewal(err, credential)
}

// noteRenewal marks a call's error: the refused credential had been renewed just before.
func noteRenewal(err error, credential string) error {
	if refused, ok := errors.AsType[*Error](err); ok && refused.Credential == credential {
		refused.renewed = true
	}
	return err
}

func isRefused(err error, credential string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.StatusCode == http.StatusUnauthorized && refused.Credential == credential
}
