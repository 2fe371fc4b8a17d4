// Package failure decides what a failed call to GitHub means to a listener: why it failed and what to do about it, as
// users read it in status.listener, and whether the session, the offers or only this attempt is to be given up. All of
// it is pure.
package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// Reasons in status.listener on which no other component acts. The manager copies them to the AutoscalingRunnerSet's
// conditions.
const (
	ReasonSessionLost      = "SessionLost"
	ReasonMalformedMessage = "MalformedMessage"
)

// ErrUnusable marks a configuration that is well-formed but can't work.
var ErrUnusable = errors.New("unusable configuration")

const (
	// The status shows a failure that may pass by itself when no good news has come for Grace.
	Grace = 30 * time.Second
	// conflictGrace is the same for a session conflict. GitHub ends the session of a killed listener by itself after
	// about 90 s.
	conflictGrace = 2 * time.Minute
)

// Failure explains that the listener can't do a part of its work at the moment.
type Failure struct {
	Reason, Message string
	// FirstAt and lastAt are the times of its first and last error.
	FirstAt, lastAt time.Time
	// assumed is set for a rate limit whose end GitHub did not name.
	assumed bool
	// pause is the pause that the answer asked for, zero if it named none.
	pause time.Duration
}

// Next returns the failure after one more error. If the reason is the same, it keeps FirstAt. f may be nil.
func (f *Failure) Next(reason string, err error, now time.Time) *Failure {
	next := &Failure{Reason: reason, Message: err.Error(), FirstAt: now, lastAt: now}
	limited, ok := errors.AsType[*actions.RateLimitedError](err)
	next.assumed = ok && limited.Assumed
	next.pause = AskedBackoff(err, now)
	if f == nil || f.Reason != reason {
		return next
	}
	next.FirstAt = f.FirstAt
	if f.assumed && next.assumed {
		next.Message = f.Message // only the answer's IDs are new
	}
	return next
}

// The status shows a failure that has lasted for its grace. It is 0 if waiting alone does not help, or
// if the next attempt comes only after Grace.
func (f *Failure) grace() time.Duration {
	switch {
	case f.assumed:
		return Grace
	case f.pause > Grace:
		return 0
	case IsRefusal(f.Reason):
		return 0
	}
	switch f.Reason {
	case v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonInvalidConfiguration, v1alpha1.ReasonRateLimited,
		v1alpha1.ReasonScaleSetNotFound, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ReasonInsecureRedirect:
		return 0
	case v1alpha1.ReasonSessionConflict:
		return conflictGrace
	}
	return Grace
}

// Status returns the status that shows the failure, or nil to leave the last status as it is. Time since the last error
// does not count: a poll that is being held may turn out well.
func (f *Failure) Status() *v1alpha1.ListenerStatus {
	if f.lastAt.Sub(f.FirstAt) < f.grace() {
		return nil
	}
	state := v1alpha1.ListenerStateRetrying
	if f.Reason == v1alpha1.ReasonSessionConflict {
		state = v1alpha1.ListenerStateConflict
	}
	since := metav1.NewTime(f.FirstAt)
	return &v1alpha1.ListenerStatus{State: state, Reason: f.Reason, Message: f.Message, Since: &since}
}

// IsRefusal reports whether GitHub refuses the credentials: there may be others already.
func IsRefusal(reason string) bool { return actions.RefusalClass(reason).IsKnown() }

// Explain returns the reason of a failed call to GitHub, and the error with what happens next or what to do about it.
func Explain(err error) (reason string, explained error) {
	_, malformed := errors.AsType[*actions.MalformedMessageError](err)
	cause := causes.Of(err).Row
	switch {
	case errors.Is(err, actions.ErrSessionNotFound):
		return ReasonSessionLost, fmt.Errorf("%w; a new one is opened", err)
	case malformed:
		return ReasonMalformedMessage, fmt.Errorf("%w; it has no ID and can't be deleted, so the listener keeps "+
			"polling for it; check the proxy or gateway on the way, and contact GitHub's support if it persists", err)
	case cause.Reason == "" && errors.Is(err, ErrUnusable):
		cause = meaning.For(v1alpha1.ReasonInvalidConfiguration)
	case cause.Reason == "" || cause.Reason == v1alpha1.ReasonGitHubUnavailable:
		cause = meaning.For(v1alpha1.ReasonGitHubUnavailable)
		if errors.Is(err, context.DeadlineExceeded) {
			cause = meaning.For(v1alpha1.ReasonTimeout)
		}
	}
	return cause.Reason, fmt.Errorf("%w%s", err, cause.Next())
}
