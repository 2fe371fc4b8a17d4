package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// fieldOwner is the name by which the API server knows the manager as the owner of fields.
const fieldOwner = "harrier-manager"

// Hash returns a short hash of the JSON form of value: values that serialize alike hash alike, whatever version of the
// Kubernetes libraries they come from. Hash panics if value can't be serialized, which no API type allows.
//
// The hash of a secret is a secret: who reads it can try all short passwords. It may be remembered, but not written
// anywhere.
func Hash(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("hash %T: %v", value, err))
	}
	const length = 16 // bytes of the hash's 32: with 2¹²⁸ hashes, no two values in a cluster's life collide
	hash := sha256.Sum256(raw)
	return hex.EncodeToString(hash[:length])
}

// Apply brings an object to the wanted state by server-side apply and reports whether it had to. live is the object as
// the cache has it, nil if there is none. Nothing is written if live was last applied from the same wanted state and
// still contains it. Only live itself is written, not another object that has taken its name since: that is a conflict.
//
// omit names the paths of fields that somebody else writes, such as {"spec", "replicas"}. Labels and annotations that
// others added stay; our own that are no longer wanted are removed.
func Apply(ctx context.Context, c client.Client, wanted, live client.Object, omit ...[]string) (bool, error) {
	hash := integrity(wanted)
	SetAnnotation(wanted, v1alpha1.AnnotationIntegrityHash, hash)
	configuration, err := applyConfiguration(c.Scheme(), wanted, omit)
	if err != nil {
		return false, err
	}
	if live != nil && live.GetAnnotations()[v1alpha1.AnnotationIntegrityHash] == hash && holds(live, configuration) {
		return false, nil
	}
	if live != nil {
		dropEmptied(configuration.Object, contentOf(live))
		configuration.SetUID(live.GetUID())
	}
	err = c.Apply(
		ctx, client.ApplyConfigurationFromUnstructured(configuration), client.FieldOwner(fieldOwner),
		client.ForceOwnership,
	)
	if isOfAnother(err) {
		err = apierrors.NewConflict(
			schema.GroupResource{Group: configuration.GroupVersionKind().Group, Resource: configuration.GetKind()},
			wanted.GetName(), err,
		)
	}
	if err != nil {
		return false, fmt.Errorf("apply %s %s: %w", configuration.GetKind(), client.ObjectKeyFromObject(wanted), err)
	}
	return true, nil
}

// isOfAnother reports whether a write was refused because of its UID, which is another object's. If there is no object
// of the name at all, the API server answers with a conflict itself.
func isOfAnother(err error) bool {
	var answer apierrors.APIStatus // an interface without Error, so not for errors.AsType
	if !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

// Create creates an object by POST, which, unlike apply, never takes over one that exists, and then applies the rest.
// bare is the object with what never changes only: the API server counts POST and apply as two writers, so no apply
// removes what POST wrote. If the second request fails, the next pass finds an object that lacks what is wanted, and
// applies it.
func Create(ctx context.Context, c client.Client, bare, wanted client.Object) error {
	if err := c.Create(ctx, bare); err != nil {
		return fmt.Errorf("create %T %s: %w", bare, client.ObjectKeyFromObject(bare), err)
	}
	_, err := Apply(ctx, c, wanted, bare)
	return err
}

// integrity returns the hash that is written to an object. A Secret's leaves out its data, which tools that hide it
// would otherwise give away; whether the live Secret has it is compared anyway.
func integrity(wanted client.Object) string {
	if secret, ok := wanted.(*corev1.Secret); ok {
		withoutData := *secret
		withoutData.Data, withoutData.StringData = nil, nil
		return Hash(&withoutData)
	}
	return Hash(wanted)
}

// holds reports whether live has everything that we would apply. Both are compared in the form in which they are sent,
// in which a field that isn't ours differs from zero: the counts of a status, or the replicas that a listener writes.
func holds(live client.Object, configuration *unstructured.Unstructured) bool {
	content := contentOf(live)
	if content == nil {
		return false // applying reports what is wrong
	}
	wanted := configuration.DeepCopy().Object
	// The cache drops the kind.
	delete(wanted, "kind")
	delete(wanted, "apiVersion")
	return equality.Semantic.DeepDerivative(wanted, content)
}

// contentOf returns an object as it would be sent, nil if it can't be converted.
func contentOf(live client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil
	}
	return content
}

// dropEmptied removes the maps from wanted that are empty there but not in live. If the last field of a map is removed
// while the map itself is applied, the API server turns the map into null, and then refuses that null because the
// schema requires an object, this time and every time after. A map that is left out is removed together with its
// fields; if {} differs from an absent map, the next pass applies it, because nothing in it is left to remove.
func dropEmptied(wanted, live map[string]any) {
	for key, value := range wanted {
		within, isMap := value.(map[string]any)
		had, _ := live[key].(map[string]any)
		if !isMap || len(had) == 0 {
			continue
		}
		dropEmptied(within, had)
		if len(within) == 0 {
			delete(wanted, key)
		}
	}
}

// applyConfiguration returns the fields of the object that we want to own: without status, without metadata that the
// server sets, and without those in omit.
func applyConfiguration(
	scheme *runtime.Scheme, wanted client.Object, omit [][]string,
) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(wanted, scheme)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", kind.Kind, err)
	}
	for _, path := range append(omit, []string{"status"}, []string{"metadata", "creationTimestamp"}) {
		unstructured.RemoveNestedField(content, path...)
	}
	configuration := &unstructured.Unstructured{Object: content}
	configuration.SetGroupVersionKind(kind)
	return configuration, nil
}

// SetAnnotation sets one annotation of an object.
func SetAnnotation(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// PatchStatus writes the difference in status between before and object, if there is one, and reports whether it wrote.
// object is updated with the server's answer.
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

// Patch writes the difference in everything but status, if there is one, and reports whether it wrote. object is
// updated with the server's answer.
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

// difference returns the merge patch that turns before into object, nil if they are alike. Most often they are the same,
// which is seen without writing both as JSON.
func difference(object, before client.Object) (client.Patch, error) {
	if reflect.DeepEqual(object, before) {
		return nil, nil
	}
	data, err := client.MergeFrom(before).Data(object)
	if err != nil {
		return nil, fmt.Errorf("compare with what was read: %w", err)
	}
	if string(data) == "{}" {
		return nil, nil
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// DropInherited removes the labels and annotations for which the predicate holds from an object that has them and isn't
// to. ARC copied all of an AutoscalingRunnerSet's labels, and server-side apply leaves what others have written.
func DropInherited(
	ctx context.Context, c client.Client, live, wanted client.Object, unwanted func(key string) bool,
) error {
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
