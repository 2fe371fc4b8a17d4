package kube

import (
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsRefused reports whether the API server rejected a request and will most likely reject it again. Forbidden means
// that the manager may not do it, or that Pod Security, a quota or a policy forbids the object; an API server that has
// just started also forbids what it allows a second later. The others mean that the object is invalid, or that an
// admission policy (Invalid) or webhook (BadRequest) denies it.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// IsQuotaExceeded reports whether a ResourceQuota has no room, or its use has not been counted yet, which both pass.
// The API server gives refusals of a quota no cause, so apart from the type only their text identifies them. It has
// begun like this for as long as quotas have existed. A quota that asks for requests or limits which the pod lacks says
// something else: that doesn't pass.
func IsQuotaExceeded(err error) bool {
	return apierrors.IsForbidden(err) &&
		(strings.Contains(err.Error(), "exceeded quota: ") ||
			strings.Contains(err.Error(), "status unknown for quota: "))
}

// IsDeniedByAuthorizer reports whether the request to create an object was forbidden to who sent it, before anybody
// looked at the object. Only then does the answer not name the object, whose name the path of such a request lacks.
func IsDeniedByAuthorizer(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Kind != "" && details.Name == ""
}

// IsUnanswered reports whether the API server is away: a request to it got no answer, or one of a proxy in front of it,
// of an overload, or that etcd can't be reached. It may have done what was asked. Any other error counts as unanswered
// too, for example one of GitHub: err must come from a request to the API server.
func IsUnanswered(err error) bool {
	var answer apierrors.APIStatus // an interface without Error, so not for errors.AsType
	switch {
	case err == nil:
		return false
	case !errors.As(err, &answer):
		return true
	case apierrors.IsServerTimeout(err):
		return true
	}
	switch answer.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default: // a plain 500 is often a webhook's
		return false
	}
}

// IsNamespaceTerminating reports whether a request was refused because its namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsBehind reports whether a request was refused because it was based on an old state.
func IsBehind(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// IgnoreOvertaken drops the error of a write to an object that is gone, or that somebody has changed since it was read:
// the watch brings what has become of it.
func IgnoreOvertaken(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
