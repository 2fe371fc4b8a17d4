package installation

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// Kinds that the product's objects have: ours, and those that a runner consists of.
var (
	OurKinds = []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), v1alpha1.GroupVersion.WithKind("AutoscalingListener"),
		v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"), v1alpha1.GroupVersion.WithKind("EphemeralRunner"),
	}
	RunnerKinds = []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("EphemeralRunner"), corev1.SchemeGroupVersion.WithKind("Pod"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
	}
)

// List returns the objects of a kind. It fails if the cluster does not have the kind; the error says so to
// IsUnknownKind.
func List(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	var found metav1.PartialObjectMetadataList
	found.SetGroupVersionKind(kind)
	if err := c.List(ctx, &found, options...); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	return found.Items, nil
}

// IsUnknownKind reports whether List failed because the cluster does not have the kind.
func IsUnknownKind(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Describe names objects and, if they are being deleted, the finalizers that they wait for.
func Describe(objects ...metav1.PartialObjectMetadata) []string {
	described := make([]string, 0, len(objects))
	for i := range objects {
		text := objects[i].Kind + " " + objects[i].Name
		if objects[i].Namespace != "" {
			text = objects[i].Kind + " " + objects[i].Namespace + "/" + objects[i].Name
		}
		switch finalizers := objects[i].Finalizers; {
		case objects[i].DeletionTimestamp == nil:
		case len(finalizers) > 0:
			text += fmt.Sprintf(" (being deleted, waits for %s)", strings.Join(finalizers, ", "))
		default:
			text += " (being deleted)"
		}
		described = append(described, text)
	}
	return described
}

// LeftOnGitHub lists the runners on GitHub and, if setsToo, scale sets and sessions.
func LeftOnGitHub(snapshot fakegithub.Snapshot, setsToo bool) []string {
	var left []string
	for _, runner := range snapshot.Runners {
		left = append(left, fmt.Sprintf("runner %s on GitHub (online %t, busy %t)", runner.Name, runner.Online,
			runner.Busy))
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
