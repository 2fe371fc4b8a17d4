package check

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/dryrun"
)

// asked are kinds by whose groups the charts' templates find out what the cluster is.
var asked = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"),
	{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"},
}

// seen returns the cluster as Helm's templates see it. Where it has no controller, one is supposed, so that the rest can
// be tried, and that is said.
func (x *examination) seen(ctx context.Context) *dryrun.Cluster {
	seen := &dryrun.Cluster{}
	for _, kind := range asked {
		if _, err := x.cluster.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
			seen.APIVersions = append(seen.APIVersions, kind.GroupVersion().String())
		}
	}
	said := sync.Once{}
	seen.Lookup = func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		found, err := x.find(ctx, schema.FromAPIVersionAndKind(apiVersion, kind), namespace, name)
		if kind != "Deployment" {
			return found, err
		}
		line := Line{Check: "controller", Status: Unknown, Reason: "ControllerUnknown", Whose: meaning.Administrator.String(),
			Message: fmt.Sprintf("whether there is one is not known: %v", err),
			Fix:     "name its account by controllerServiceAccount, or list Deployments of all namespaces as who may"}
		if err == nil && len(found) > 0 {
			return found, nil
		}
		if err == nil {
			line.Status, line.Reason, line.Message = Problem, "ControllerMissing", "no controller is installed in this cluster"
			line.Fix = "install the chart gha-runner-scale-set-controller first"
		}
		said.Do(func() { x.add(line) })
		return dryrun.OneController(apiVersion, kind, namespace, name)
	}
	return seen
}

// find returns an object, or those of the controller if it has no name, as Helm's function lookup does: empty if there
// is none.
func (x *examination) find(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	if name != "" {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		err := x.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return map[string]any{}, nil
		}
		return object.Object, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := x.cluster.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelPartOf: "gha-rs-controller"})
	if err != nil || len(list.Items) == 0 {
		return map[string]any{}, err
	}
	return list.UnstructuredContent(), nil
}
