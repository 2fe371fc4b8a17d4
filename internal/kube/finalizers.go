package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// AddFinalizer adds a finalizer to an object that lacks it, and takes away those that it replaces. It fails with a
// conflict, after which the caller tries again, if somebody has changed the object: a merge patch replaces the whole
// list and must not drop somebody else's finalizer.
func AddFinalizer(
	ctx context.Context, c client.Client, object client.Object, finalizer string, replaced ...string,
) error {
	before := object.DeepCopyObject().(client.Object)
	wanted := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool {
		return slices.Contains(replaced, f)
	})
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

// RemoveFinalizers removes the given finalizers in one request. Each removal is conditional on the finalizer being
// where it was seen, not on the resourceVersion, which the listener's status patches change all the time. It succeeds
// if the object is gone, and fails if a new object has taken its name.
func RemoveFinalizers(ctx context.Context, c client.Client, object client.Object, finalizers ...string) error {
	return removeFinalizers(ctx, c, object, finalizers)
}

// RemoveFinalizersAndManagedFields also drops metadata.managedFields, for an object that is being or about to be
// deleted and that nobody else writes. The cost of a write grows with the object, and without that record the API
// server compares no fields: the deletion of a runner costs it half as much.
func RemoveFinalizersAndManagedFields(
	ctx context.Context, c client.Client, object client.Object, finalizers ...string,
) error {
	forget := operation{Op: "add", Path: "/metadata/managedFields", Value: ClearedManagedFields()}
	return removeFinalizers(ctx, c, object, finalizers, forget)
}

// ClearedManagedFields returns the value of metadata.managedFields in a patch that makes the API server forget who
// wrote which field, and keep no new record until somebody applies something. It is a single empty entry; null would
// change nothing.
func ClearedManagedFields() any { return []struct{}{{}} }

// IsApplied reports whether an entry of metadata.managedFields comes from server-side apply. Without such an entry,
// fields that its manager no longer applies would stay.
func IsApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply
}

// removeFinalizers removes the finalizers that the object has. If it has any, it carries out the operations in more,
// too.
func removeFinalizers(
	ctx context.Context, c client.Client, object client.Object, finalizers []string, more ...operation,
) error {
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

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// removals returns the operations that remove unwanted from have, each preceded by a test that the finalizer is still
// where it was seen. They work from the end, so that positions stay valid.
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

// served are the finalizers that this manager's controllers remove when they are done with an object, ARC's among them.
var served = []string{
	v1alpha1.FinalizerAutoscalingRunnerSet, v1alpha1.FinalizerAutoscalingListener, v1alpha1.FinalizerEphemeralRunner,
	v1alpha1.FinalizerRunnerRegistration, v1alpha1.FinalizerFormerRunnerSet,
}

// IsOurFinalizer reports whether the manager removes the finalizer in the end. All others are for those who have set
// them.
func IsOurFinalizer(finalizer string) bool { return slices.Contains(served, finalizer) }

// Keepers returns the finalizers that keep an object in deletion with which the manager is done, nil for any other
// object.
func Keepers(object client.Object) []string {
	finalizers := object.GetFinalizers()
	if object.GetDeletionTimestamp() == nil || slices.ContainsFunc(finalizers, IsOurFinalizer) {
		return nil
	}
	return finalizers
}

// PodKeepers returns the finalizers that keep a pod in deletion after its containers have ended, or before it has got a
// node.
func PodKeepers(pod *corev1.Pod) []string {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if ended || pod.Spec.NodeName == "" {
		return Keepers(pod)
	}
	return nil
}

// KeptGrace passes before somebody is told that others keep an object. Whoever still serves a finalizer removes it in a
// second or two, or after a restart that takes a quarter of a minute. What blocks a deletion is to be told within a
// minute, which leaves as long again to those that have to look for it.
const KeptGrace = 20 * time.Second

// Kept remembers since when objects have been kept by nothing but others' finalizers. The zero value is ready for use.
// After a restart of the manager the time begins anew.
type Kept struct{ since, before map[types.UID]time.Time }

// Begin begins a pass: what the pass doesn't look at is forgotten.
func (k *Kept) Begin() { k.since, k.before = map[types.UID]time.Time{}, k.since }

// Look is called for each object that has keepers. It returns the time after which the object is to be reported, zero
// or less if it is to be reported now.
func (k *Kept) Look(uid types.UID, now time.Time) time.Duration {
	since, known := k.before[uid]
	if !known {
		since = now
	}
	k.since[uid] = since
	return since.Add(KeptGrace).Sub(now)
}

// A message quotes at most quotedFinalizers characters of finalizers, which leaves room for the next step. One may have
// 317.
const quotedFinalizers = 340

// WhyKept names the finalizers that keep an object of a kind, and the next step.
func WhyKept(kind string, key types.NamespacedName, keepers []string) string {
	return fmt.Sprintf("%s %s is deleted, and nothing of it is left to do but for its finalizers %s, which the "+
		"controller doesn't serve: %s",
		kind, key, quoteFinalizers(keepers), nextStep(strings.ToLower(kind), key, keepers))
}

// nextStep returns what to do about finalizers that keep an object. The garbage collector serves its own: it waits for
// other objects.
func nextStep(kind string, key types.NamespacedName, keepers []string) string {
	collectors := []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
	if !slices.ContainsFunc(keepers, func(f string) bool { return !slices.Contains(collectors, f) }) {
		return fmt.Sprintf("they are the garbage collector's of the cluster, which waits for objects that %s %s "+
			"owns; find out what keeps those, or, if the cluster has no garbage collector that works, %s", kind,
			key.Name, removal(kind, key))
	}
	return "find out why the program that set them doesn't remove them; if there is no such program any more, " +
		removal(kind, key)
}

// removal is the command after which no finalizer keeps an object. The manager's own are gone by then.
func removal(kind string, key types.NamespacedName) string {
	const command = `run kubectl patch %s %s --namespace %s --type merge --patch '{"metadata":{"finalizers":null}}'`
	return fmt.Sprintf(command, kind, key.Name, key.Namespace)
}

// quoteFinalizers lists as many finalizers as fit into quotedFinalizers, at least one.
func quoteFinalizers(finalizers []string) string {
	text := finalizers[0]
	for i, next := range finalizers[1:] {
		if len(text)+len(next) > quotedFinalizers {
			return fmt.Sprintf("%s and %d more", text, len(finalizers)-i-1)
		}
		text += ", " + next
	}
	return text
}
