package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// fieldOwner is the name under which the manager's fields are known to the API server.
const fieldOwner = "harrier-manager"

// Hash returns a short hash of the JSON form of value: two values that serialize alike hash alike, whatever version of
// the Kubernetes libraries made them. Some values hold secrets (a proxy's password) and their hashes end in annotations,
// so it is one that can't be run backwards. It panics where value cannot be serialized, which no API type allows.
func Hash(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("hash %T: %v", value, err))
	}
	const length = 16 // bytes of the hash's 32: no two values of a cluster's life will be alike in 2¹²⁸
	hash := sha256.Sum256(raw)
	return hex.EncodeToString(hash[:length])
}

// Apply brings an object to the wanted state by server-side apply and reports whether it had to. live is the object as the
// cache has it, nil where there is none. Nothing is written when live was made from the same wanted state and still has
// everything in it.
//
// Fields that somebody else writes are left out by naming their paths in omit, such as {"spec", "replicas"}. Labels and
// annotations that others added stay; those of ours that are no longer wanted go.
func Apply(ctx context.Context, c client.Client, wanted, live client.Object, omit ...[]string) (bool, error) {
	hash := Hash(wanted)
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
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return false, fmt.Errorf("apply %s %s: %w", configuration.GetKind(), client.ObjectKeyFromObject(wanted), err)
	}
	return true, nil
}

// holds reports whether live has everything that we would apply. They are compared as what is sent, because there "not ours"
// differs from zero: counts of a status, or the replicas that a listener writes.
func holds(live client.Object, configuration *unstructured.Unstructured) bool {
	content := contentOf(live)
	if content == nil {
		return false // applying tells what is wrong
	}
	wanted := configuration.DeepCopy().Object
	// The cache drops the kind.
	delete(wanted, "kind")
	delete(wanted, "apiVersion")
	return equality.Semantic.DeepDerivative(wanted, content)
}

// contentOf returns an object as it would be sent, nil where it can't be.
func contentOf(live client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil
	}
	return content
}

// dropEmptied leaves out the maps that are wanted empty and have something in them still. The API server makes null of a
// map whose last field goes while the map itself is applied, and then refuses that null where the schema wants an object,
// this time and every time after. Left out, the map goes with its fields; where {} differs from none the next pass applies
// it, since nothing in it has to go by then.
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

// applyConfiguration returns the object as the fields we want to own: without status, server-set metadata, and what is
// to be omitted.
func applyConfiguration(scheme *runtime.Scheme, wanted client.Object, omit [][]string) (*unstructured.Unstructured, error) {
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
