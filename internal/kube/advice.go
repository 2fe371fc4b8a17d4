package kube

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// IsRefused reports whether the API server rejected a request and would reject it again a moment later. Forbidden means that the
// manager may not do it; the others mean that the object is invalid, or that an admission policy (Invalid) or webhook
// (BadRequest) denies it.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// WithAdvice returns the text of an error and, if the API server refused an object, the next step: the refusal itself only says
// what is wrong. A missing permission, and an object that Pod Security, a quota or an admission policy rejects, are both
// Forbidden and differ only in their text, so both next steps are named.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; if the manager lacks the permission, grant it: the charts' Roles do, and a scale set created without its chart needs such a Role and RoleBinding in its namespace; " +
			"if Pod Security, a quota or a policy forbids the object, change that or the object's template in the AutoscalingRunnerSet"
	}
	if IsRefused(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
