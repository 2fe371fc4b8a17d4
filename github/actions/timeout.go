package actions

import (
	"context"
	"fmt"
	"time"
)

// Deadlines. GitHub's own limits are not published; these come from what its calls take (JIT config ≈ 0.7 s) and from
// how long a caller may be kept waiting.
const (
	// CallTimeout ends a call with all its repetitions and a renewal of credentials. 15 s of pauses (1+2+4+8) leave
	// 15 s for five attempts.
	CallTimeout = 30 * time.Second
	// AttemptTimeout ends one attempt of a call, so that a connection that went dead leaves time for another.
	AttemptTimeout = 15 * time.Second
	// PollTimeout ends one attempt of GetMessage: GitHub holds it for about 50 s, half of that again is for slow networks.
	PollTimeout = 75 * time.Second
)

// Error implements error.
func (e *TimeoutError) Error() string { return fmt.Sprintf("no complete answer within %s", e.After) }

// Timeout makes this a net.Error to those who ask.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap makes it match context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &TimeoutError{After: limit})
}
