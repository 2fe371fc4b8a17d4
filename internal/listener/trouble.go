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

// Reasons of status.listener by which nothing else decides. The manager repeats them in the AutoscalingRunnerSet's conditions.
const (
	reasonListening        = "Listening"
	reasonStarting         = "Starting"
	reasonStopped          = "Stopped"
	reasonSessionLost      = "SessionLost"
	reasonMalformedMessage = "MalformedMessage"
)

const (
	// conflictPatience is how long a session conflict is no news: a session whose listener was killed goes by itself
	// after about 90 s.
	conflictPatience = 2 * time.Minute
	// patience is how long a failure that may pass by itself is no news.
	patience = 30 * time.Second
)

// trouble is a cause for which the listener doesn't do its work at the moment.
type trouble struct {
	reason, message string
	// since is when it began, last when it was seen last.
	since, last time.Time
	// assumed is a rate limit whose end GitHub did not name.
	assumed bool
}

// again is the trouble after one more failure: the same reason began when it first came.
func (t *trouble) again(reason string, err error, now time.Time) *trouble {
	next := &trouble{reason: reason, message: err.Error(), since: now, last: now}
	var limited *actions.RateLimitedError
	next.assumed = errors.As(err, &limited) && limited.Assumed
	if t == nil || t.reason != reason {
		return next
	}
	next.since = t.since
	if t.assumed && next.assumed {
		next.message = t.message // nothing but the answer's ids is new
	}
	return next
}

// patience is how long the trouble has to last before it is told: not at all where waiting alone will not help.
func (t *trouble) patience() time.Duration {
	if t.assumed {
		return patience
	}
	switch t.reason {
	case v1alpha1.ReasonUnauthorized, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonInvalidConfiguration, v1alpha1.ReasonRateLimited, v1alpha1.ReasonScaleSetNotFound:
		return 0
	case v1alpha1.ReasonSessionConflict:
		return conflictPatience
	}
	return patience
}

// status is what to tell; nil leaves what was told last. Time that passes without another failure does not count: a
// poll that is held may be a good one.
func (t *trouble) status() *v1alpha1.ListenerStatus {
	if t.last.Sub(t.since) < t.patience() {
		return nil
	}
	state := v1alpha1.ListenerStateRetrying
	if t.reason == v1alpha1.ReasonSessionConflict {
		state = v1alpha1.ListenerStateConflict
	}
	since := metav1.NewTime(t.since)
	return &v1alpha1.ListenerStatus{State: state, Reason: t.reason, Message: t.message, Since: &since}
}

// explain names the reason of a failed call to GitHub and adds to the error what follows from it.
func explain(err error) (reason string, explained error) {
	var limited *actions.RateLimitedError
	var malformed *actions.MalformedMessageError
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
	case errors.As(err, &limited):
		return v1alpha1.ReasonRateLimited, err
	case errors.Is(err, actions.ErrUnauthorized):
		return v1alpha1.ReasonUnauthorized, err
	case errors.As(err, &malformed):
		return reasonMalformedMessage, fmt.Errorf("%w; it is asked for again without end, as it can't be deleted without its id; "+
			"check the proxy or gateway on the way, and tell GitHub's support if it stays", err)
	case errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.ReasonTimeout, unreached(err)
	}
	return v1alpha1.ReasonGitHubUnavailable, unreached(err)
}

// unreached adds what to look at where GitHub did not answer, or not as itself.
func unreached(err error) error {
	return fmt.Errorf("%w; it is tried again without end; check proxy, githubServerTLS, and that the cluster's network lets the listener reach GitHub", err)
}
