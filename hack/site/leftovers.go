package site

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Kinds that must be gone after both charts are uninstalled.
var (
	ourKinds = []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), v1alpha1.GroupVersion.WithKind("AutoscalingListener"),
		v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"), v1alpha1.GroupVersion.WithKind("EphemeralRunner"),
	}
	namespacedKinds = append([]schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	}, ourKinds...)
	clusterKinds = []schema.GroupVersionKind{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	}
)

// List returns the objects of a kind. If the cluster does not have the kind, there are none.
func List(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	var found unstructured.UnstructuredList
	found.SetGroupVersionKind(kind)
	if err := c.List(ctx, &found, options...); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	return found.Items, nil
}

// RunnersLeft lists what is left of runners in a namespace: EphemeralRunners, their pods, and the Secrets with JIT configs.
func RunnersLeft(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	var left []string
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("EphemeralRunner"), {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"},
	} {
		objects, err := List(ctx, c, kind, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		for i := range objects {
			if kind.Group == v1alpha1.GroupVersion.Group || ownedByRunner(&objects[i]) {
				left = append(left, Describe(&objects[i]))
			}
		}
	}
	return left, nil
}

func ownedByRunner(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "EphemeralRunner" })
}

// EverythingLeft lists what is left of the charts and the controller, in these namespaces and among cluster-scoped objects.
func EverythingLeft(ctx context.Context, c client.Client, namespaces ...string) ([]string, error) {
	var left []string
	for _, namespace := range namespaces {
		found, err := NamespaceLeft(ctx, c, namespace)
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	for _, kind := range clusterKinds {
		objects, err := List(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			if name := objects[i].GetName(); strings.HasPrefix(name, ControllerName) || strings.HasSuffix(name, "."+v1alpha1.GroupVersion.Group) {
				left = append(left, Describe(&objects[i]))
			}
		}
	}
	return left, nil
}

// NamespaceLeft lists what is in a namespace, without what Kubernetes puts into every namespace.
func NamespaceLeft(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	var left []string
	for _, kind := range namespacedKinds {
		objects, err := List(ctx, c, kind, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		for i := range objects {
			if !ofEveryNamespace(&objects[i]) {
				left = append(left, Describe(&objects[i]))
			}
		}
	}
	return left, nil
}

// ofEveryNamespace recognizes what Kubernetes itself puts into each namespace.
func ofEveryNamespace(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "ServiceAccount":
		return object.GetName() == "default"
	case "ConfigMap":
		return object.GetName() == "kube-root-ca.crt"
	default:
		return false
	}
}

// Describe names an object and, if it is being deleted, the finalizers that it waits for.
func Describe(object *unstructured.Unstructured) string {
	text := object.GetKind() + " " + object.GetName()
	if object.GetNamespace() != "" {
		text = object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
	}
	if object.GetDeletionTimestamp() == nil {
		return text
	}
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		return fmt.Sprintf("%s (being deleted, waits for %s)", text, strings.Join(finalizers, ", "))
	}
	return text + " (being deleted)"
}

// LeftOnGitHub lists the runners on GitHub and, if setsToo, scale sets and sessions.
func LeftOnGitHub(snapshot fakegithub.Snapshot, setsToo bool) []string {
	var left []string
	for _, runner := range snapshot.Runners {
		left = append(left, fmt.Sprintf("runner %s on GitHub (online %t, busy %t)", runner.Name, runner.Online, runner.Busy))
	}
	if !setsToo {
		return left
	}
	for _, set := range snapshot.ScaleSets {
		left = append(left, "scale set "+set.Name+" on GitHub")
	}
	for _, session := range snapshot.Sessions {
		left = append(left, "session of "+session.Owner+" on GitHub")
	}
	return left
}

// Shorten joins the items and only counts those after the first few, to keep messages readable.
func Shorten(items []string, most int) string {
	if len(items) <= most {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:most], "; "), len(items)-most)
}
