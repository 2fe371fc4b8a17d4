package scaleset

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// RetryFirstBackoff and RetryLongestBackoff are the shortest and the longest pause after a failed call. Each further
// failure doubles the pause.
const (
	RetryFirstBackoff   = 5 * time.Second
	RetryLongestBackoff = time.Minute
)

// RetryAt returns the time at which a failed call may be repeated: after a pause, and not before the time that GitHub
// has asked for. There was at least one failure.
func RetryAt[T any](last pool.Call[T]) time.Time {
	return actions.RetryAt(last.Err, last.Finished.Add(reconcile.Backoff(RetryFirstBackoff, RetryLongestBackoff,
		last.Failures)))
}

// FailureReason returns the condition reason for an error. Scripts and alerts rely on it.
func FailureReason(err error) string {
	return cmp.Or(causes.Of(err).Reason, v1alpha1.ReasonGitHubUnavailable)
}

// RejectsDesired reports whether GitHub has accepted the credentials but rejected the scale set that was requested with
// them.
func RejectsDesired(err error) bool {
	return slices.Contains([]string{
		v1alpha1.ReasonRunnerGroupNotFound, v1alpha1.ReasonScaleSetInUse, v1alpha1.ReasonScaleSetNotFound,
		v1alpha1.ReasonRefusedByGitHub,
	}, FailureReason(err))
}

// RefusedByUs returns the reason why the credentials were not sent on, "" if they were: the address may not be used, or
// leads away from TLS before GitHub has accepted the credentials. What leads away from TLS later concerns the
// registration only.
func RefusedByUs(err error) string {
	insecure, leadsAway := errors.AsType[*actions.InsecureRedirectError](err)
	connecting := []string{actions.EndpointInstallationToken, actions.EndpointRegistrationToken,
		actions.EndpointRegister}
	switch {
	case causes.Of(err).Reason == v1alpha1.ReasonAddressNotAllowed:
		return v1alpha1.ReasonAddressNotAllowed
	case leadsAway && slices.Contains(connecting, insecure.Endpoint):
		return v1alpha1.ReasonInsecureRedirect
	}
	return ""
}

// CredentialsRefused reports whether asking again with these credentials is pointless.
func CredentialsRefused(err error) bool {
	return credentials.Unusable(err) ||
		errors.Is(err, actions.ErrUnauthorized) || errors.Is(err, actions.ErrInvalidCredentials)
}
