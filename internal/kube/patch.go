package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the difference in status between before and object, and nothing where there is none. It says
// whether it wrote. object takes the server's answer.
func PatchStatus(ctx context.Context, c client.Client, object, before client.Object) (bool, error) {
	patch, err := difference(object, before)
	if err != nil || patch == nil {
		return false, err
	}
	if err := c.Status().Patch(ctx, object, patch); err != nil {
		return false, fmt.Errorf("patch status: %w", err)
	}
	return true, nil
}

// Patch writes the difference in everything but status, and nothing where there is none. It reports whether it wrote.
// object takes the server's answer.
func Patch(ctx context.Context, c client.Client, object, before client.Object) (bool, error) {
	patch, err := difference(object, before)
	if err != nil || patch == nil {
		return false, err
	}
	if err := c.Patch(ctx, object, patch); err != nil {
		return false, fmt.Errorf("patch: %w", err)
	}
	return true, nil
}

// difference returns the merge patch that makes object of before, nil where they are alike.
func difference(object, before client.Object) (client.Patch, error) {
	data, err := client.MergeFrom(before).Data(object)
	if err != nil {
		return nil, fmt.Errorf("compare with what was read: %w", err)
	}
	if string(data) == "{}" {
		return nil, nil
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// AddFinalizer adds a finalizer to an object that lacks it. It is refused, and tried again by the caller, when somebody
// changed the object meanwhile: a merge patch replaces the whole list and must not drop another's finalizer.
func AddFinalizer(ctx context.Context, c client.Client, object client.Object, finalizer string) error {
	if slices.Contains(object.GetFinalizers(), finalizer) {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	object.SetFinalizers(append(object.GetFinalizers(), finalizer))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("add finalizer %s: %w", finalizer, err)
	}
	return nil
}

// RemoveFinalizers removes those of the finalizers that the object has, in one request. A finalizer is removed only
// where it stands when the request arrives, so the listener's status patches, which change the object's resourceVersion
// all the time, do not get in the way. An object that is gone already is no error; one that was made anew under its name
// keeps its finalizers, and is one.
func RemoveFinalizers(ctx context.Context, c client.Client, object client.Object, finalizers ...string) error {
	return removeFinalizers(ctx, c, object, finalizers)
}

// RemoveFinalizersAndManagedFields does what RemoveFinalizers does, for an object that goes next, or is going, and that
// nobody else writes, and drops metadata.managedFields with them. What the API server spends on a write grows with the
// object, and without that record it compares no fields either: the deletion of a runner costs it half as much.
func RemoveFinalizersAndManagedFields(ctx context.Context, c client.Client, object client.Object, finalizers ...string) error {
	forget := operation{Op: "add", Path: "/metadata/managedFields", Value: ClearedManagedFields()}
	return removeFinalizers(ctx, c, object, finalizers, forget)
}

// ClearedManagedFields is what a patch sets metadata.managedFields to so that the API server forgets who wrote which field,
// and keeps no new record until somebody applies something. One empty entry asks for that; null would change nothing.
func ClearedManagedFields() any { return []struct{}{{}} }

// IsApplied reports whether an entry of metadata.managedFields is of server-side apply. Without that entry, what its manager
// does not apply any more would stay.
func IsApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}

// removeFinalizers removes them and, where there are any, does what comes with it.
func removeFinalizers(ctx context.Context, c client.Client, object client.Object, finalizers []string, more ...operation) error {
	operations := removals(object.GetFinalizers(), finalizers)
	if len(operations) == 0 {
		return nil
	}
	sameObject := operation{Op: "test", Path: "/metadata/uid", Value: object.GetUID()}
	patch, err := json.Marshal(slices.Concat([]operation{sameObject}, operations, more))
	if err == nil {
		err = c.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizers %v: %w", finalizers, err)
	}
	return nil
}

// UIDPrecondition makes a deletion fail unless it meets this very object: one that was made anew under its name stays.
func UIDPrecondition(object client.Object) client.Preconditions {
	return client.Preconditions{UID: new(object.GetUID())}
}

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// removals returns the steps of a JSON patch that removes unwanted from have, each preceded by a test that it still
// stands where it was seen. They work from the end, so that positions stay right.
func removals(have, unwanted []string) []operation {
	var operations []operation
	for i, finalizer := range slices.Backward(have) {
		if slices.Contains(unwanted, finalizer) {
			path := fmt.Sprintf("/metadata/finalizers/%d", i)
			operations = append(operations,
				operation{Op: "test", Path: path, Value: finalizer},
				operation{Op: "remove", Path: path})
		}
	}
	return operations
}
