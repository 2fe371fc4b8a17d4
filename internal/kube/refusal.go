package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Refusal returns the message of a request that the API server rejects and will reject again, so that what runs is not what
// the spec asks for. It is empty where failure, the error of the pass, passes by itself. A pass that was cut short before it
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
