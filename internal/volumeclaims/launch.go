package volumeclaims

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// snapshotGroup is the API group of VolumeSnapshots.
const snapshotGroup = "snapshot.storage.k8s.io"

// Missing returns the claims that a runner names and that don't exist, ready to be created. find returns the claim of
// that name, nil if there is none. Templates that the set no longer has make no claim.
func Missing(
	set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner,
	find func(name string) *corev1.PersistentVolumeClaim,
) []*corev1.PersistentVolumeClaim {
	var missing []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		name := runner.Spec.VolumeClaims[template.Metadata.Name]
		if _, ours := suffixOf(set.Name, template.Metadata.Name, name); !ours || find(name) != nil {
			continue
		}
		claim := newClaim(set, template, name, scopeAt(set, runner))
		claim.Spec.DataSource = cmp.Or(sourceOf(set, template, runner, find), claim.Spec.DataSource)
		missing = append(missing, claim)
	}
	return missing
}

// sourceOf returns the source that a runner's new claim is a copy of according to seedFrom, nil if it is a copy of
// nothing. The bundle that the plan has picked counts only if it exists and has the content of the same address and
// group.
func sourceOf(
	set *v1alpha1.AutoscalingRunnerSet, template *v1alpha1.VolumeClaimTemplate, runner *v1alpha1.EphemeralRunner,
	find func(name string) *corev1.PersistentVolumeClaim,
) *corev1.TypedLocalObjectReference {
	if fixed := fixedSource(&set.Spec); fixed != nil {
		return fixed
	}
	seed := runner.Annotations[v1alpha1.AnnotationVolumeClaimSeed]
	if !set.Spec.EffectiveVolumeClaimPool().SeedFrom.Newest || seed == "" {
		return nil
	}
	source := find(claimName(set.Name, template.Metadata.Name, seed))
	if source == nil || source.DeletionTimestamp != nil ||
		source.Labels[v1alpha1.LabelVolumeClaimScope] != scopeAt(set, runner) {
		return nil
	}
	return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
}

// fixedSource returns the source that every new claim is a copy of according to seedFrom, nil if it names none.
func fixedSource(set *v1alpha1.AutoscalingRunnerSetSpec) *corev1.TypedLocalObjectReference {
	switch from := set.EffectiveVolumeClaimPool().SeedFrom; {
	case from.PersistentVolumeClaim != "":
		return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: from.PersistentVolumeClaim}
	case from.VolumeSnapshot != "":
		return &corev1.TypedLocalObjectReference{
			APIGroup: new(snapshotGroup),
			Kind:     "VolumeSnapshot",
			Name:     from.VolumeSnapshot,
		}
	}
	return nil
}

// newClaim returns a claim of the template.
func newClaim(
	set *v1alpha1.AutoscalingRunnerSet, template *v1alpha1.VolumeClaimTemplate, name, scope string,
) *corev1.PersistentVolumeClaim {
	metadata := &template.Metadata
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Labels: kube.Labels(nil, metadata.Labels, map[string]string{
				v1alpha1.LabelPartOf:              v1alpha1.PartOfScaleSet,
				v1alpha1.LabelVolumeClaimTemplate: metadata.Name,
				v1alpha1.LabelVolumeClaimScope:    scope,
				v1alpha1.LabelScaleSetName:        set.Name,
				v1alpha1.LabelScaleSetNamespace:   set.Namespace,
			}),
			Annotations:     maps.Clone(metadata.Annotations),
			OwnerReferences: Owners(set),
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// Owners returns the owner references that the set's claims should have: none if they outlive the set.
func Owners(set *v1alpha1.AutoscalingRunnerSet) []metav1.OwnerReference {
	if set.Spec.Retained() {
		return nil
	}
	return kube.OwnedBy(set)
}

// SetOwners makes the set the owner of a claim, or no longer if its claims outlive it. Owners that others have added
// stay.
func SetOwners(claim *corev1.PersistentVolumeClaim, set *v1alpha1.AutoscalingRunnerSet) {
	others := slices.DeleteFunc(slices.Clone(claim.OwnerReferences),
		func(owner metav1.OwnerReference) bool { return owner.UID == set.UID })
	claim.OwnerReferences = slices.Concat(others, Owners(set))
}

// Mount gives the pod the volumes of a runner's claims, its spec.volumeClaims. As in a StatefulSet, a claim replaces
// the volume of the same name. A claim without a name is an emptyDir.
func Mount(pod *corev1.PodSpec, claims map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		volume := corev1.Volume{Name: name}
		if claim := claims[name]; claim == "" {
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		} else {
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if at < 0 {
			pod.Volumes = append(pod.Volumes, volume)
		} else {
			pod.Volumes[at] = volume
		}
	}
}

// MountedBy returns the names of the claims that a pod mounts, none if it has ended.
func MountedBy(pod *corev1.Pod) []string {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return slices.Sorted(maps.Values(VolumesOf(pod)))
}

// VolumesOf returns the claims that a pod mounts by the names of its volumes.
func VolumesOf(pod *corev1.Pod) map[string]string {
	claims := map[string]string{}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			claims[pod.Spec.Volumes[i].Name] = claim.ClaimName
		}
	}
	return claims
}
