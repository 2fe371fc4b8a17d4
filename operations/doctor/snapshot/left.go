package snapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

// leftKinds are the kinds of which a backup may bring back objects of a scale set that is gone, and which the manager
// doesn't remove: it may not list Secrets in all namespaces, and Roles may be what somebody wrote.
var leftKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Secret"), rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// left reads the metadata of the objects without an owner whose labels name a scale set of their namespace that is not
// among all. What has an owner is garbage collected. Of a kind that the cluster doesn't have, or that the caller may not
// list, nothing is learnt. VolumeSnapshots were meant to stay.
func (g *gathering) left(ctx context.Context, all []v1alpha1.AutoscalingRunnerSet) {
	exist := sets.New[types.NamespacedName]()
	for i := range all {
		exist.Insert(client.ObjectKeyFromObject(&all[i]))
	}
	for _, kind := range append(slices.Clone(leftKinds), volumesnapshots.Kind) {
		found, err := kube.ListMetadataOf(ctx, g.cluster, kind, client.InNamespace(g.Namespace),
			client.HasLabels{v1alpha1.LabelScaleSetName})
		if err != nil {
			continue
		}
		for i := range found {
			object := &found[i]
			object.SetGroupVersionKind(kind)
			set := kube.LabelledSet(object)
			if set.Namespace != object.Namespace || exist.Has(set) || (g.Name != "" && g.Name != set.Name) ||
				metav1.GetControllerOfNoCopy(object) != nil || object.DeletionTimestamp != nil {
				continue
			}
			if kind == volumesnapshots.Kind {
				g.LeftSnapshots = append(g.LeftSnapshots, *object)
			} else {
				g.Left = append(g.Left, *object)
			}
		}
	}
}
