package kube

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// WithAdvice returns the text of an error with the next step, where the API server has refused an object: the refusal itself
// only says what is wrong. A permission that is missing, and an object that Pod Security, a quota or an admission policy
// does not let in, are both Forbidden and differ in their text alone, so both next steps are named.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; if it is the manager that cannot do this, grant it: the charts' Roles do, and a scale set made without its chart needs such a Role and RoleBinding in its namespace; " +
			"if Pod Security, a quota or a policy forbids the object, change that or the object's template in the AutoscalingRunnerSet"
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
