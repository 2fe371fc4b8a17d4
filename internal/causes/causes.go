// Package causes recognizes the errors of GitHub, and of what is read before GitHub can be asked: one word for each,
// whose meaning package meaning has.
//
// Every component that reports such an error takes its reason from here, so that one cause has the same name wherever
// it is met: conditions of scale sets and listeners, the status of runners and of the listener process. Errors of
// GitHub's client are recognized here; those of other packages name their reason themselves (see Named), so that this
// package knows none of them.
package causes

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// Cause is the meaning of an error to a user. Its reason is empty if nothing is known about the error: it is neither
// GitHub's nor Named.
type Cause struct {
	meaning.Row
	// RetryAt is the time of the next call that GitHub, or a gateway in its place, allows; zero if it named no time.
	RetryAt time.Time
}

// Named is an error that knows its reason, one of the API's.
type Named interface {
	error
	CauseReason() string
}

// Of returns the cause of an error. Of errors that are joined or wrapped the outermost Named one counts, then the first
// of the table.
func Of(err error) Cause {
	return Cause{meaning.For(reasonOf(err)), actions.RetryAt(err, time.Time{})}
}

func reasonOf(err error) string {
	var named Named
	if errors.As(err, &named) {
		return named.CauseReason()
	}
	for _, known := range clientErrors {
		if known.is(err) {
			return known.reason
		}
	}
	if refusal, refused := actions.RefusalOf(err); refused {
		return string(refusal.Class)
	}
	switch {
	case isRejected(err):
		return v1alpha1.ReasonRefusedByGitHub
	case isOfGitHub(err):
		return v1alpha1.ReasonGitHubUnavailable
	}
	return ""
}

// clientErrors are the errors of GitHub's client that have a reason of their own, apart from refused credentials. A
// rate limit is first: its answer may be a refusal as well.
var clientErrors = []struct {
	reason string
	is     func(error) bool
}{
	{v1alpha1.ReasonRateLimited, is[*actions.RateLimitedError]},
	{v1alpha1.ReasonInsecureRedirect, is[*actions.InsecureRedirectError]},
	{v1alpha1.ReasonInvalidConfigURL, is[*actions.InvalidConfigURLError]},
	{v1alpha1.ReasonCredentialsInvalid, matches(actions.ErrInvalidCredentials)},
	{v1alpha1.ReasonSessionConflict, matches(actions.ErrSessionConflict)},
	{v1alpha1.ReasonScaleSetNotFound, matches(actions.ErrScaleSetNotFound)},
	{v1alpha1.ReasonRunnerGroupNotFound, matches(actions.ErrRunnerGroupNotFound)},
	{v1alpha1.ReasonHostNotFound, isUnknownHost},
}

// isUnknownHost reports whether DNS has answered that there is no such name, rather than not answered.
func isUnknownHost(err error) bool {
	unresolved, found := errors.AsType[*net.DNSError](err)
	return found && unresolved.IsNotFound && is[*actions.NetworkError](err)
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

func matches(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// isRejected reports whether GitHub itself has answered the call last, and neither done what was asked nor failed at
// it: a refusal, or a redirect that was not followed. 408 comes from proxies.
func isRejected(err error) bool {
	answer, answered := errors.AsType[*actions.Error](err)
	return answered && !is[*actions.NetworkError](err) && !errors.Is(err, actions.ErrForeignAnswer) &&
		answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusRequestTimeout
}

// isOfGitHub reports whether a call to GitHub has failed, rather than what comes before it.
func isOfGitHub(err error) bool {
	return is[*actions.Error](err) || is[*actions.NetworkError](err) || is[*actions.UnexpectedResponseError](err)
}
