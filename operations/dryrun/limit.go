package dryrun

import (
	"context"
	"fmt"
	"time"
)

// Work on values of others gives up after timeout.
const timeout = time.Minute

// ErrTooLong says that the time is over: templates have no limit of their own, and values can keep one busy for a day.
var ErrTooLong = fmt.Errorf("it has not ended within %v: give it fewer files or smaller ones at a time", timeout)

// InTime returns the result of work, or ErrTooLong after a minute. The rest of the work ends with the program.
func InTime[T any](ctx context.Context, work func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrTooLong)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		value, err := work()
		ended <- result{value, err}
	}()
	select {
	case <-ctx.Done():
		return result{}.value, context.Cause(ctx)
	case found := <-ended:
		return found.value, found.err
	}
}
