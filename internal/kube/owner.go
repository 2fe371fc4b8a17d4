package kube

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// OwnedBy returns the owner references of an object that belongs to owner alone. Owner is of one of our kinds and lives
// in the same namespace.
//
// The reference does not block the owner's deletion, which our finalizers hold until the right moment. A blocking one
// would make creation depend on the admission plugin OwnerReferencesPermissionEnforcement, which OpenShift has on: it
// looks the owner's kind up in a copy of discovery, and where a restarted API server made that copy before it served
// custom resources, it refuses the object with 403 until the copy is renewed, after 30 s.
func OwnedBy(owner client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       reflect.TypeOf(owner).Elem().Name(), // schemes derive it in the same way
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
		Controller: new(true),
	}}
}

// A list of objects is given up after listTimeout. That leaves most of a pass's minute for what can be done without the
// answer, and for reporting that there is none.
const listTimeout = 10 * time.Second

// ListMetadata returns the metadata of objects of a kind of ours, which costs little however large they are.
func ListMetadata(
	ctx context.Context, reader client.Reader, kind string, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	return ListMetadataOf(ctx, reader, v1alpha1.GroupVersion.WithKind(kind), options...)
}

// ListMetadataOf does the same for any kind.
func ListMetadataOf(
	ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := reader.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// Standing is the ownership of an object that has the name of an object we need.
type Standing int

// Standings. Only Ours is ever changed.
const (
	// Foreign belongs to somebody else, or to nobody.
	Foreign Standing = iota
	// Ours belongs to the owner.
	Ours
	// Former belonged to an earlier owner of the same name, which is gone, as two can't exist: garbage collection
	// deletes it.
	Former
)

// StandingWith returns the standing of an object, given the owner that it should have. An owner without a UID is gone,
// and only its name is known.
func StandingWith(owner metav1.OwnerReference, object client.Object) Standing {
	found := metav1.GetControllerOf(object)
	switch {
	case found == nil || found.APIVersion != owner.APIVersion || found.Kind != owner.Kind || found.Name != owner.Name:
		return Foreign
	case owner.UID == "" || found.UID == owner.UID:
		return Ours
	}
	return Former
}

// NewestFirst orders objects by creation, and by name within a second, which is the resolution of timestamps. Objects
// that are being deleted come last, because they can't be used any more.
func NewestFirst(a, b client.Object) int {
	return cmp.Or(
		cmp.Compare(rank(a.GetDeletionTimestamp() != nil), rank(b.GetDeletionTimestamp() != nil)),
		b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}

// rank makes bools comparable: false comes first.
func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}
