package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Refusal returns a message if the API server rejects a request and will reject it again, so that the object can't become what its
// spec asks for. The message is empty if failure, the error of the pass, will pass by itself. A pass that was cut short before it
// came to the rejected request keeps the message of the previous condition.
func Refusal(failure error, cutShort bool, previous *metav1.Condition) string {
	switch {
	case IsNamespaceTerminating(failure):
		return "" // the whole namespace is being deleted
	case IsRefused(failure):
		return WithAdvice(failure)
	case cutShort && previous != nil && previous.Reason == v1alpha1.ReasonReconcileFailed:
		return previous.Message
	}
	return ""
}
