package kube

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// OwnedBy returns the owner references of an object that belongs to owner alone. Owner is of one of our kinds and lives in the same
// namespace.
//
// The reference does not block the owner's deletion, which our finalizers hold until the right moment. A blocking one would make
// creation depend on the admission plugin OwnerReferencesPermissionEnforcement, which OpenShift has on: it looks the owner's kind
// up in a copy of discovery, and where a restarted API server made that copy before it served custom resources, it refuses the
// object with 403 until the copy is renewed, after 30 s.
func OwnedBy(owner client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       reflect.TypeOf(owner).Elem().Name(), // schemes derive it in the same way
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
		Controller: new(true),
	}}
}
