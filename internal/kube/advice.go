package kube

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// WithAdvice returns the text of an error for people, with what to do about it: what the API server refuses for want of a permission, or because it is
// not valid, gets the next step, since the refusal itself only says what is wrong.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; grant it to the manager: the charts' Roles do, and a scale set made without its chart needs such a Role and RoleBinding in its namespace"
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
