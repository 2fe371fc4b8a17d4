package dryrun

import (
	"context"
	"fmt"
	"time"
)

// timeout limits what is done with values of others.
const timeout = time.Minute

// ErrTooLong says that the time is over: templates have no limit of their own, and values can be made so that one doesn't end in a day.
var ErrTooLong = fmt.Errorf("it has not ended within %v: give it fewer files or smaller ones at a time", timeout)

// InTime returns what work does, or ErrTooLong if that takes more than a minute. What is left of the work ends with the program.
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
