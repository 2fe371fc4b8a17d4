package podtrial

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// ResourceClaim returns the claim that Kubernetes would make of a ResourceClaimTemplate, in the template's version. It
// stays untyped: its quantities are the API server's to read.
func ResourceClaim(template *unstructured.Unstructured, namespace, name string) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "spec")
	claim := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	claim.SetGroupVersionKind(template.GroupVersionKind().GroupVersion().WithKind("ResourceClaim"))
	claim.SetNamespace(namespace)
	claim.SetName(name)
	return claim
}
