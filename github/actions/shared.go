package actions

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared holds a value that many callers read and that is replaced as a whole, by one fetch for all who ask at the
// same time. Its lock is never held during a fetch: readers go on with the old value.
type shared[T any] struct {
	// fetch makes a new value; stale is the one to be replaced, nil at first. It never runs twice at a time.
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

// replace returns a value other than stale: the current one if it is another already, else a fetched one. A caller
// whose context ends leaves at once; the fetch goes on for the others.
func (s *shared[T]) replace(ctx context.Context, stale *T) (*T, error) {
	if current := s.get(); current != stale {
		return current, nil
	}
	fetched := s.flight.DoChan("", func() (any, error) {
		if current := s.get(); current != stale {
			return current, nil // another fetch ended between the look above and here
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

// withRenewal makes a call with a shared value. When GitHub refuses the credential in it, the value is replaced once
// and the call repeated once. Another credential that was refused on the way (a renewal's own) is not ours to renew.
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

// noteRenewal has the failure of a call say that its credential was renewed before.
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
