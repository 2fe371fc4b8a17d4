package listener

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Reasons of status.listener that no other component acts on. The manager repeats them in the AutoscalingRunnerSet's conditions.
const (
	reasonListening        = "Listening"
	reasonStarting         = "Starting"
	reasonStopped          = "Stopped"
	reasonSessionLost      = "SessionLost"
	reasonMalformedMessage = "MalformedMessage"
)

const (
	// conflictGracePeriod is how long a session conflict is not shown in the status: GitHub ends the session of a listener that
	// was killed by itself after about 90 s.
	conflictGracePeriod = 2 * time.Minute
	// failureGracePeriod is how long a failure that may pass by itself is not shown in the status.
	failureGracePeriod = 30 * time.Second
)

// failure is why the listener can't do a part of its work at the moment.
type failure struct {
	reason, message string
	// firstAt and lastAt are when it came first and last.
	firstAt, lastAt time.Time
	// assumed is set for a rate limit whose end GitHub did not name.
	assumed bool
	// pause is how long what answered has asked to be left alone, zero where it named no time.
	pause time.Duration
}

// next returns the failure after one more error: with the same reason it keeps the time when it came first. f may be nil.
func (f *failure) next(reason string, err error, now time.Time) *failure {
	next := &failure{reason: reason, message: err.Error(), firstAt: now, lastAt: now}
	limited, ok := errors.AsType[*actions.RateLimitedError](err)
	next.assumed = ok && limited.Assumed
	next.pause = untilAllowed(err, now)
	if f == nil || f.reason != reason {
		return next
	}
	next.firstAt = f.firstAt
	if f.assumed && next.assumed {
		next.message = f.message // nothing but the answer's ids is new
	}
	return next
}

// gracePeriod returns how long the failure has to last before the status shows it: 0 where waiting alone does not help, or
// where the next attempt comes after failureGracePeriod.
func (f *failure) gracePeriod() time.Duration {
	switch {
	case f.assumed:
		return failureGracePeriod
	case f.pause > failureGracePeriod:
		return 0
	}
	switch f.reason {
	case v1alpha1.ReasonUnauthorized, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonInvalidConfiguration,
		v1alpha1.ReasonRateLimited, v1alpha1.ReasonScaleSetNotFound:
		return 0
	case v1alpha1.ReasonSessionConflict:
		return conflictGracePeriod
	}
	return failureGracePeriod
}

// status returns the status that shows the failure; nil leaves the last status as it is. Time that passes without another
// error does not count: a poll that is held may be a good one.
func (f *failure) status() *v1alpha1.ListenerStatus {
	if f.lastAt.Sub(f.firstAt) < f.gracePeriod() {
		return nil
	}
	state := v1alpha1.ListenerStateRetrying
	if f.reason == v1alpha1.ReasonSessionConflict {
		state = v1alpha1.ListenerStateConflict
	}
	since := metav1.NewTime(f.firstAt)
	return &v1alpha1.ListenerStatus{State: state, Reason: f.reason, Message: f.message, Since: &since}
}

// explain returns the reason of a failed call to GitHub, and the error with what happens next or what to do about it.
func explain(err error) (reason string, explained error) {
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	_, malformed := errors.AsType[*actions.MalformedMessageError](err)
	switch {
	case errors.Is(err, actions.ErrSessionConflict):
		return v1alpha1.ReasonSessionConflict, fmt.Errorf("%w; it is asked for again at least every 15 s; "+
			"if no second installation uses this scale set, the session of a listener that was killed goes within 2 min", err)
	case errors.Is(err, actions.ErrSessionNotFound):
		return reasonSessionLost, fmt.Errorf("%w; a new one is opened", err)
	case errors.Is(err, actions.ErrScaleSetNotFound):
		return v1alpha1.ReasonScaleSetNotFound, fmt.Errorf("%w; the manager creates it again", err)
	case errors.Is(err, actions.ErrInvalidCredentials):
		return v1alpha1.ReasonCredentialsInvalid, err
	case errors.Is(err, errUnusable):
		return v1alpha1.ReasonInvalidConfiguration, err
	case limited:
		return v1alpha1.ReasonRateLimited, err
	case errors.Is(err, actions.ErrUnauthorized):
		return v1alpha1.ReasonUnauthorized, err
	case malformed:
		return reasonMalformedMessage, fmt.Errorf("%w; it has no id and cannot be deleted, so the listener keeps asking for it; "+
			"check the proxy or gateway on the way, and tell GitHub's support if it stays", err)
	case actions.IsRejected(err) && !isNetworkError(err):
		return v1alpha1.ReasonRefusedByGitHub, fmt.Errorf("%w; it is tried again without end; "+
			"if the answer doesn't say what to correct, give its ids to GitHub's support", err)
	case errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.ReasonTimeout, unreached(err)
	}
	return v1alpha1.ReasonGitHubUnavailable, unreached(err)
}

// unreached adds what to check when GitHub did not answer, or something else answered in its place.
func unreached(err error) error {
	return fmt.Errorf("%w; it is tried again without end; "+
		"check proxy, githubServerTLS, and that the cluster's network lets the listener reach GitHub", err)
}
