package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the difference in status between before and object, if there is one, and reports whether it wrote. object is
// updated with the server's answer.
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

// Patch writes the difference in everything but status, if there is one, and reports whether it wrote. object is updated with the
// server's answer.
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

// difference returns the merge patch that turns before into object, nil if they are alike.
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

// AddFinalizer adds a finalizer to an object that lacks it, and takes away those that it replaces. It fails with a conflict, after which
// the caller tries again, if somebody has changed the object: a merge patch replaces the whole list and must not drop somebody else's
// finalizer.
func AddFinalizer(ctx context.Context, c client.Client, object client.Object, finalizer string, replaced ...string) error {
	before := object.DeepCopyObject().(client.Object)
	wanted := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return slices.Contains(replaced, f) })
	if !slices.Contains(wanted, finalizer) {
		wanted = append(wanted, finalizer)
	}
	if slices.Equal(wanted, object.GetFinalizers()) {
		return nil
	}
	object.SetFinalizers(wanted)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("add finalizer %s: %w", finalizer, err)
	}
	return nil
}

// RemoveFinalizers removes the given finalizers in one request. Each removal is conditional on the finalizer being where it was
// seen, not on the resourceVersion, which the listener's status patches change all the time. It succeeds if the object is gone,
// and fails if a new object has taken its name.
func RemoveFinalizers(ctx context.Context, c client.Client, object client.Object, finalizers ...string) error {
	return removeFinalizers(ctx, c, object, finalizers)
}

// RemoveFinalizersAndManagedFields also drops metadata.managedFields, for an object that is being or about to be deleted and
// that nobody else writes. The cost of a write grows with the object, and without that record the API server compares no fields:
// the deletion of a runner costs it half as much.
func RemoveFinalizersAndManagedFields(ctx context.Context, c client.Client, object client.Object, finalizers ...string) error {
	forget := operation{Op: "add", Path: "/metadata/managedFields", Value: ClearedManagedFields()}
	return removeFinalizers(ctx, c, object, finalizers, forget)
}

// ClearedManagedFields returns the value of metadata.managedFields in a patch that makes the API server forget who wrote which
// field, and keep no new record until somebody applies something. It is a single empty entry; null would change nothing.
func ClearedManagedFields() any { return []struct{}{{}} }

// IsApplied reports whether an entry of metadata.managedFields comes from server-side apply. Without such an entry, fields that
// its manager no longer applies would stay.
func IsApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}

// removeFinalizers removes the finalizers that the object has. If it has any, it carries out the operations in more, too.
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

// DropInherited removes the labels and annotations for which the predicate holds from an object that has them and isn't to. ARC copied all of
// an AutoscalingRunnerSet's labels, and server-side apply leaves what others have written.
func DropInherited(ctx context.Context, c client.Client, live, wanted client.Object, unwanted func(key string) bool) error {
	after := live.DeepCopyObject().(client.Object)
	rest := func(has, kept map[string]string) map[string]string {
		has = maps.Clone(has)
		maps.DeleteFunc(has, func(key, _ string) bool { _, keep := kept[key]; return !keep && unwanted(key) })
		return has
	}
	after.SetLabels(rest(live.GetLabels(), wanted.GetLabels()))
	after.SetAnnotations(rest(live.GetAnnotations(), wanted.GetAnnotations()))
	if _, err := Patch(ctx, c, after, live); err != nil {
		return fmt.Errorf("drop what %s has inherited from an installer: %w", client.ObjectKeyFromObject(live), err)
	}
	return nil
}

// UIDPrecondition makes a deletion fail unless it meets this very object: one that was recreated under its name stays.
func UIDPrecondition(object client.Object) client.Preconditions {
	return client.Preconditions{UID: new(object.GetUID())}
}

// UnchangedPrecondition makes a deletion fail, also if somebody has written to the object since it was read.
func UnchangedPrecondition(object client.Object) client.Preconditions {
	unchanged := UIDPrecondition(object)
	unchanged.ResourceVersion = new(object.GetResourceVersion())
	return unchanged
}

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// removals returns the operations that remove unwanted from have, each preceded by a test that the finalizer is still where it was
// seen. They work from the end, so that positions stay valid.
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
