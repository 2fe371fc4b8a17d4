package kube

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefused reports whether the API server rejected a request and would reject it again a moment later. Forbidden means that the
// manager may not do it; the others mean that the object is invalid, or that an admission policy (Invalid) or webhook
// (BadRequest) denies it.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// IsNamespaceTerminating reports whether a request was refused because its namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// IsBehind reports whether a request was refused because it was based on an old state.
func IsBehind(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
