package report

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Refusal returns a message if the API server rejects a request and will reject it again, so that the object can't become what its
// spec asks for. The message is empty if failure, the error of the pass, will pass by itself. A pass that was cut short before it
// came to the rejected request keeps the message of the previous condition.
func Refusal(failure error, cutShort bool, previous *metav1.Condition) string {
	switch {
	case kube.IsNamespaceTerminating(failure):
		return "" // the whole namespace is being deleted
	case kube.IsRefused(failure):
		return WithAdvice(failure)
	case cutShort && previous != nil && previous.Reason == v1alpha1.ReasonReconcileFailed:
		return previous.Message
	}
	return ""
}

// WithAdvice returns the text of an error and, if the API server refused an object, the next step: the refusal itself only says
// what is wrong. A missing permission, and an object that Pod Security, a quota or an admission policy rejects, are both
// Forbidden and differ only in their text, so both next steps are named.
func WithAdvice(err error) string {
	if apierrors.IsForbidden(err) {
		return err.Error() + "; if the manager lacks the permission, grant it: the charts' Roles do, and a scale set created without its chart needs such a Role and RoleBinding in its namespace; " +
			"if Pod Security, a quota or a policy forbids the object, change that or the object's template in the AutoscalingRunnerSet"
	}
	if kube.IsRefused(err) {
		return err.Error() + "; correct what it names in the AutoscalingRunnerSet"
	}
	return err.Error()
}
