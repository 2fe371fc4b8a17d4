package exchange

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// maxRetries allows five attempts of a request.
	maxRetries = 4
	// firstBackoff is doubled after each attempt: 1, 2, 4, 8 s, 15 s in all, half of CallTimeout.
	firstBackoff = time.Second
)

// layer returns the client that makes the attempts.
func (a *attempts) layer() *retryablehttp.Client {
	return &retryablehttp.Client{
		// The transport deliberately lacks CloseIdleConnections: after a failure the retry layer would call it and
		// close the connections of all other calls.
		HTTPClient:     &http.Client{Transport: a, CheckRedirect: a.checkRedirect},
		RetryMax:       maxRetries,
		RequestLogHook: func(_ retryablehttp.Logger, _ *http.Request, repetition int) { a.attempt = repetition + 1 },
		CheckRetry:     a.shouldRepeat,
		// The retry layer can't pause on an injected clock, so a.wait pauses in its place.
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 },
		PrepareRetry: a.wait,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// checkRedirect remembers a redirect that is not followed, and ends the attempt with it.
func (a *attempts) checkRedirect(next *http.Request, before []*http.Request) (err error) {
	if a.redirect, err = refuse(a.request.Endpoint, next, before, a.secrets); a.redirect != nil {
		return http.ErrUseLastResponse
	}
	return err
}

// shouldRepeat is the retry layer's policy. A complete answer counts even if the context has ended in the meantime. A
// pause that would not end before the deadline is not begun: the caller can make better use of the time.
func (a *attempts) shouldRepeat(ctx context.Context, answer *http.Response, err error) (bool, error) {
	if err == nil && !a.worthRepeating(answer) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if a.request.Poll || a.attempt > maxRetries || (err != nil && !worthRepeatingError(ctx, err)) {
		return false, nil
	}
	if a.request.Once && (err != nil || answer.StatusCode >= http.StatusInternalServerError) {
		return false, nil // it may have been carried out
	}
	pause := a.pauseAfter(answer)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false, nil
	}
	a.pause = pause
	a.logRepetition(ctx, answer, err)
	return true, nil
}

// worthRepeating reports whether another attempt may get a better answer.
func (a *attempts) worthRepeating(answer *http.Response) bool {
	switch status := answer.StatusCode; status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	case http.StatusUnauthorized, http.StatusForbidden:
		_, limited := failure.LimitedUntil(status, answer.Header, a.caller.Clock.Now())
		return limited || a.request.RepeatWhenForbidden
	default:
		return status >= http.StatusInternalServerError
	}
}

// worthRepeatingError asks the retry layer's own policy, which knows that certificate errors and the like do not pass.
func worthRepeatingError(ctx context.Context, err error) bool {
	_, tooLarge := errors.AsType[*TooLargeError](err)
	if tooLarge || errors.Is(err, errProxy) || failure.IsRefusedAddress(err) {
		return false
	}
	repeat, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	return repeat
}

// pauseAfter returns the pause that GitHub asked for and up to 20 % more, or else an exponential one that varies by ±20
// %: calls that failed together, of this process or of others, must not be repeated together.
func (a *attempts) pauseAfter(answer *http.Response) time.Duration {
	now := a.caller.Clock.Now()
	if answer != nil {
		if until, limited := failure.LimitedUntil(answer.StatusCode, answer.Header, now); limited && until.After(now) {
			return varied(until.Sub(now), 1, 1.2)
		}
	}
	return varied(firstBackoff<<(a.attempt-1), 0.8, 1.2)
}

// varied returns a pause between least and most times the given one.
func varied(pause time.Duration, least, most float64) time.Duration {
	return time.Duration(float64(pause) * (least + (most-least)*rand.Float64())) //nolint:gosec // pauses need no secrecy
}

// wait pauses. The retry layer calls it before each repetition.
func (a *attempts) wait(outgoing *http.Request) error {
	timer := a.caller.Clock.NewTimer(a.pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-outgoing.Context().Done():
		return context.Cause(outgoing.Context())
	}
}

func (a *attempts) logRepetition(ctx context.Context, answer *http.Response, err error) {
	log := a.log(ctx, answer).WithValues("pause", a.pause)
	if err != nil {
		log.Info("Call to GitHub failed and will be repeated", "reason", a.networkError(err).Error())
		return
	}
	log.Info("Call to GitHub failed and will be repeated", "status", answer.StatusCode)
}
