package actions

import (
	"context"
	"fmt"
	"time"
)

// Deadlines of calls. GitHub does not publish its own limits. These follow from how long its calls take (a JIT config about
// 0.7 s) and how long a caller can wait.
const (
	// CallTimeout ends a call, including all its repetitions and a renewal of credentials. 15 s of pauses (1+2+4+8) leave
	// 15 s for five attempts.
	CallTimeout = 30 * time.Second
	// AttemptTimeout ends one attempt of a call, so that a dead connection leaves time for another attempt.
	AttemptTimeout = 15 * time.Second
	// PollTimeout ends one attempt of GetMessage. GitHub holds a poll for about 50 s; half as much again is for slow networks.
	PollTimeout = 75 * time.Second
)

// Error says how long was allowed.
func (e *TimeoutError) Error() string { return fmt.Sprintf("no complete answer within %s", e.After) }

// Timeout returns true. With it, the error is recognized as a timeout by code that expects a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap makes the error match context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &TimeoutError{After: limit})
}
