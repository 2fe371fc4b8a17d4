package kube

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefused reports whether the API server rejected a request and would reject it again a moment later. Forbidden means that the
// manager may not do it; the others mean that the object is invalid, or that an admission policy (Invalid) or webhook
// (BadRequest) denies it.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// IsUnanswered reports whether a request failed without an answer by the API server: it may be away, and may have done what was asked.
func IsUnanswered(err error) bool {
	var answer apierrors.APIStatus // an interface without Error, so not for errors.AsType
	return err != nil && !errors.As(err, &answer)
}

// IsNamespaceTerminating reports whether a request was refused because its namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsBehind reports whether a request was refused because it was based on an old state.
func IsBehind(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
