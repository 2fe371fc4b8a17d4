package kube

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// IsRefused reports whether the API server does not want a request, and would not take it a moment later: Forbidden is what
// the manager may not do, the others are an object that is not valid, or what an admission policy (Invalid) or webhook
// (BadRequest) denies.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// WithAdvice returns the text of an error with the next step, where the API server has refused an object: the refusal itself
// only says what is wrong. A permission that is missing, and an object that Pod Security, a quota or an admission policy
// does not let in, are both Forbidden and differ in their text alone, so both next steps are named.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; if it is the manager that cannot do this, grant it: the charts' Roles do, and a scale set made without its chart needs such a Role and RoleBinding in its namespace; " +
			"if Pod Security, a quota or a policy forbids the object, change that or the object's template in the AutoscalingRunnerSet"
	}
	if IsRefused(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
