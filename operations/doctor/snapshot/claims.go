package snapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// claims reads the claims of volumeClaimTemplates, and gives each set its own. all are all sets there: a claim whose
// set is not among them is kept as left over. Volumes and nodes are read only while a set has claims. A caller who may
// read claims in some namespaces only still learns of those of the requested one.
func (g *gathering) claims(ctx context.Context, all []v1alpha1.AutoscalingRunnerSet) {
	claims := &corev1.PersistentVolumeClaimList{}
	err := g.list(ctx, claims, client.InNamespace(g.Namespace), client.HasLabels{v1alpha1.LabelVolumeClaimTemplate})
	wanted := slices.ContainsFunc(g.Sets, func(s Set) bool { return len(s.Spec.VolumeClaimTemplates) > 0 })
	if wanted || err != nil && !apierrors.IsForbidden(err) {
		g.note("PersistentVolumeClaims", err)
	}
	exist := sets.New[types.NamespacedName]()
	for i := range all {
		exist.Insert(client.ObjectKeyFromObject(&all[i]))
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		owner := kube.LabelledSet(claim)
		at := slices.IndexFunc(g.Sets, func(s Set) bool { return client.ObjectKeyFromObject(&s) == owner })
		switch {
		case owner.Namespace != claim.Namespace: // somebody else's
		case at >= 0:
			g.Sets[at].Claims = append(g.Sets[at].Claims, *claim)
			wanted = true
		case !exist.Has(owner) && (g.Name == "" || g.Name == owner.Name):
			g.LeftClaims = append(g.LeftClaims, *claim)
		}
	}
	if wanted {
		g.volumes(ctx)
	}
}

// storageClasses reads the StorageClasses, if a set's runners need new volumes.
func (g *gathering) storageClasses(ctx context.Context) {
	if !slices.ContainsFunc(g.Sets, func(s Set) bool { return len(volumeclaims.NewClaims(&s.Spec)) > 0 }) {
		return
	}
	classes := &metav1.PartialObjectMetadataList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClassList"})
	g.read(ctx, classes, "StorageClasses")
	for i := range g.Sets {
		if !g.wasUnread("StorageClasses") && len(volumeclaims.NewClaims(&g.Sets[i].Spec)) > 0 {
			g.Sets[i].StorageClasses = classes
		}
	}
}

// volumes reads the volumes of the sets' claims, and the nodes.
func (g *gathering) volumes(ctx context.Context) {
	volumes, nodes := &corev1.PersistentVolumeList{}, &corev1.NodeList{}
	g.read(ctx, volumes, "PersistentVolumes")
	g.read(ctx, nodes, "Nodes")
	if g.wasUnread("PersistentVolumes") || g.wasUnread("Nodes") {
		return
	}
	byName := map[string]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		byName[volumes.Items[i].Name] = &volumes.Items[i]
	}
	for i := range g.Sets {
		set := &g.Sets[i]
		for k := range set.Claims {
			if volume := byName[set.Claims[k].Spec.VolumeName]; volume != nil {
				set.Volumes = append(set.Volumes, *volume)
			}
		}
		set.Nodes = nodes.Items
	}
}
