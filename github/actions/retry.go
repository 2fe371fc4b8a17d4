package actions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	// maxRetries allows five attempts of a call.
	maxRetries = 4
	// firstPause is doubled after each attempt: 1, 2, 4, 8 s, 15 s in all, half of CallTimeout.
	firstPause = time.Second
	// limitedPause is the pause after a rate limit that names no time, as GitHub's documentation asks.
	limitedPause = time.Minute
	// unavailablePause is the longest pause that a 503 or a web page can ask for. Both may come from a gateway, which knows nothing
	// about GitHub's limits, and one call a minute does no harm to a server that is overloaded or in maintenance. Callers that give
	// up after some minutes must have several attempts.
	unavailablePause = time.Minute
	// longestPause is the longest pause that a server can ask for. A limit lasts an hour; a wrong date must not last forever.
	longestPause = 24 * time.Hour
)

// shouldRepeat is the retry layer's policy. A complete answer counts even if the context has ended in the meantime. A pause
// that would not end before the deadline is not begun: the caller can make better use of the time.
func (x *exchange) shouldRepeat(ctx context.Context, answer *http.Response, err error) (bool, error) {
	if err == nil && !x.worthRepeating(answer) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if x.attempt > x.request.retries || err != nil && !worthRepeatingError(ctx, err) {
		return false, nil
	}
	pause := x.pauseAfter(answer)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false, nil
	}
	x.pause = pause
	x.logRepetition(ctx, answer, err)
	return true, nil
}

func (x *exchange) worthRepeating(answer *http.Response) bool {
	switch status := answer.StatusCode; status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	case http.StatusUnauthorized, http.StatusForbidden:
		_, limited := limitedUntil(status, answer.Header, x.client.clock.Now())
		return limited || x.request.repeatWhenForbidden
	default:
		return status >= http.StatusInternalServerError
	}
}

// worthRepeatingError asks the retry layer's own policy, which knows that certificate errors and the like do not pass.
func worthRepeatingError(ctx context.Context, err error) bool {
	if errors.Is(err, errProxy) || errors.Is(err, errTooLarge) || isRefusedAddress(err) {
		return false
	}
	repeat, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	return repeat
}

// pauseAfter returns the pause that GitHub asked for, or else an exponential one. The latter varies by ±20 %: the calls of a
// burst that failed together must not be repeated together.
func (x *exchange) pauseAfter(answer *http.Response) time.Duration {
	now := x.client.clock.Now()
	if answer != nil {
		if until, limited := limitedUntil(answer.StatusCode, answer.Header, now); limited && until.After(now) {
			return until.Sub(now)
		}
	}
	pause := firstPause << (x.attempt - 1)
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // pauses need no secrecy
}

// wait pauses. The retry layer calls it before each repetition.
func (x *exchange) wait(outgoing *http.Request) error {
	timer := x.client.clock.NewTimer(x.pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-outgoing.Context().Done():
		return context.Cause(outgoing.Context())
	}
}

func (x *exchange) logRepetition(ctx context.Context, answer *http.Response, err error) {
	log := x.log(ctx, answer).WithValues("pause", x.pause)
	if err != nil {
		log.Info("Call to GitHub failed and will be repeated", "reason", x.networkError(err).Error())
		return
	}
	log.Info("Call to GitHub failed and will be repeated", "status", answer.StatusCode)
}

// limitedUntil returns until when GitHub is rate limiting us, if it says so: by Retry-After (seconds or a date), or by a primary
// limit that is used up and the time of its reset. These headers mean that only together with some statuses.
func limitedUntil(status int, header http.Header, now time.Time) (until time.Time, limited bool) {
	switch status {
	case http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable:
	default:
		return time.Time{}, false
	}
	until, limited = parseRetryAfter(header, now)
	if !limited && header.Get("X-Ratelimit-Remaining") == "0" && status != http.StatusServiceUnavailable {
		reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64)
		until, limited = onOurClock(time.Unix(reset, 0), header, now), err == nil
	}
	if latest := now.Add(longestPause); until.After(latest) {
		until = latest
	}
	return until, limited
}

func parseRetryAfter(header http.Header, now time.Time) (time.Time, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		seconds = min(seconds, int64(longestPause/time.Second)) // the product below must not overflow
		return now.Add(time.Duration(seconds) * time.Second), seconds >= 0
	}
	date, err := http.ParseTime(value)
	return onOurClock(date, header, now), err == nil
}

// onOurClock converts a time on the server's clock, which the answer's Date header shows, to our clock. The result is relative to
// now, so it stays right if our clock is changed.
func onOurClock(at time.Time, header http.Header, now time.Time) time.Time {
	sent, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		sent = now
	}
	return now.Add(at.Sub(sent))
}

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
