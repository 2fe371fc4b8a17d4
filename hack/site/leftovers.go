package site

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/installation"
)

// Kinds that must be gone after both charts are uninstalled.
var (
	namespacedKinds = append([]schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "PersistentVolumeClaim"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	}, installation.OurKinds...)
	clusterKinds = []schema.GroupVersionKind{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	}
)

// list returns the objects of a kind, as installation.List does.
type list func(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error)

// listKnown finds no objects of a kind that the cluster does not have: the kinds go with the controller's chart.
func listKnown(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	objects, err := installation.List(ctx, c, kind, options...)
	if installation.IsUnknownKind(err) {
		return nil, nil
	}
	return objects, err
}

// left describes the objects of the kinds of which keep is false.
func (l list) left(
	ctx context.Context, c client.Client, kinds []schema.GroupVersionKind, keep func(metav1.PartialObjectMetadata) bool,
	options ...client.ListOption,
) ([]string, error) {
	var found []string
	for _, kind := range kinds {
		objects, err := l(ctx, c, kind, options...)
		if err != nil {
			return nil, err
		}
		found = append(found, installation.Describe(slices.DeleteFunc(objects, keep)...)...)
	}
	return found, nil
}

// RunnersLeft lists what is left of runners in a namespace: EphemeralRunners, their pods, and the Secrets with JIT
// configs.
func RunnersLeft(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	return list(installation.List).left(ctx, c, installation.RunnerKinds,
		func(object metav1.PartialObjectMetadata) bool {
			ofRunner := slices.ContainsFunc(object.OwnerReferences,
				func(owner metav1.OwnerReference) bool { return owner.Kind == "EphemeralRunner" })
			return object.Kind != "EphemeralRunner" && !ofRunner
		}, client.InNamespace(namespace))
}

// EverythingLeft lists what is left of the charts and the controller, in these namespaces and among cluster-scoped
// objects. The kinds themselves may be gone.
func EverythingLeft(ctx context.Context, c client.Client, namespaces ...string) ([]string, error) {
	found, err := list(listKnown).left(ctx, c, clusterKinds, func(object metav1.PartialObjectMetadata) bool {
		return !strings.HasPrefix(object.Name, ControllerName) &&
			!strings.HasSuffix(object.Name, "."+v1alpha1.GroupVersion.Group)
	})
	for _, namespace := range namespaces {
		if err != nil {
			return nil, err
		}
		var there []string
		there, err = list(listKnown).inNamespace(ctx, c, namespace)
		found = append(found, there...)
	}
	return found, err
}

// NamespaceLeft lists what is in a namespace, without what Kubernetes puts into every namespace.
func NamespaceLeft(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	return list(installation.List).inNamespace(ctx, c, namespace)
}

func (l list) inNamespace(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	return l.left(ctx, c, namespacedKinds, func(object metav1.PartialObjectMetadata) bool {
		return (object.Kind == "ServiceAccount" && object.Name == "default") ||
			(object.Kind == "ConfigMap" && object.Name == "kube-root-ca.crt")
	}, client.InNamespace(namespace))
}
