package listener

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
)

// Reasons in status.listener on which no other component acts. The manager copies them to the AutoscalingRunnerSet's conditions.
const (
	reasonListening        = "Listening"
	reasonStarting         = "Starting"
	reasonStopped          = "Stopped"
	reasonSessionLost      = "SessionLost"
	reasonMalformedMessage = "MalformedMessage"
)

const (
	// conflictGracePeriod is how long the status does not show a session conflict. GitHub ends the session of a killed listener by
	// itself after about 90 s.
	conflictGracePeriod = 2 * time.Minute
	// failureGracePeriod is how long the status does not show a failure that may pass by itself.
	failureGracePeriod = 30 * time.Second
)

// failure is why the listener can't do a part of its work at the moment.
type failure struct {
	reason, message string
	// firstAt and lastAt are the times of its first and last error.
	firstAt, lastAt time.Time
	// assumed is set for a rate limit whose end GitHub did not name.
	assumed bool
	// pause is the pause that the answer asked for, zero if it named none.
	pause time.Duration
}

// next returns the failure after one more error. If the reason is the same, it keeps firstAt. f may be nil.
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
		next.message = f.message // only the answer's IDs are new
	}
	return next
}

// gracePeriod returns how long the failure must last before the status shows it. It is 0 if waiting alone does not help, or if
// the next attempt comes only after failureGracePeriod.
func (f *failure) gracePeriod() time.Duration {
	switch {
	case f.assumed:
		return failureGracePeriod
	case f.pause > failureGracePeriod:
		return 0
	case isRefusal(f.reason):
		return 0
	}
	switch f.reason {
	case v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonInvalidConfiguration,
		v1alpha1.ReasonRateLimited, v1alpha1.ReasonScaleSetNotFound, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonInsecureRedirect:
		return 0
	case v1alpha1.ReasonSessionConflict:
		return conflictGracePeriod
	}
	return failureGracePeriod
}

// status returns the status that shows the failure, or nil to leave the last status as it is. Time since the last error does not
// count: a poll that is being held may turn out well.
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

// isRefusal reports whether GitHub refuses the credentials: there may be others already.
func isRefusal(reason string) bool { return actions.RefusalClass(reason).IsKnown() }

// explain returns the reason of a failed call to GitHub, and the error with what happens next or what to do about it.
func explain(err error) (reason string, explained error) {
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	_, malformed := errors.AsType[*actions.MalformedMessageError](err)
	_, notAllowed := errors.AsType[*addresses.NotAllowedError](err)
	_, insecure := errors.AsType[*actions.InsecureRedirectError](err)
	refusal, refused := actions.RefusalOf(err)
	switch {
	case notAllowed:
		return v1alpha1.ReasonAddressNotAllowed, err
	case insecure:
		return v1alpha1.ReasonInsecureRedirect, err
	case errors.Is(err, actions.ErrSessionConflict):
		return v1alpha1.ReasonSessionConflict, fmt.Errorf("%w; the listener asks again at least every 15 s; "+
			"if no second installation uses this scale set, GitHub ends the session of a killed listener within 2 min", err)
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
	case refused:
		return string(refusal.Class), err
	case malformed:
		return reasonMalformedMessage, fmt.Errorf("%w; it has no ID and can't be deleted, so the listener keeps polling for it; "+
			"check the proxy or gateway on the way, and contact GitHub's support if it persists", err)
	case actions.IsRejected(err) && !isNetworkError(err):
		return v1alpha1.ReasonRefusedByGitHub, fmt.Errorf("%w; the listener keeps trying; "+
			"if the answer doesn't say what to correct, give its IDs to GitHub's support", err)
	case errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.ReasonTimeout, unreached(err)
	}
	return v1alpha1.ReasonGitHubUnavailable, unreached(err)
}

// unreached adds what to check if GitHub did not answer, or something else answered in its place.
func unreached(err error) error {
	return fmt.Errorf("%w; the listener keeps trying; "+
		"check proxy, githubServerTLS, and that the cluster's network lets the listener reach GitHub", err)
}
