package volumeclaims

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

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
	if set.Spec.OfSnapshots() {
		return snapshotFor(set, template, seed)
	}
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

// snapshotFor returns the source of a claim that is a copy of the template's snapshot with that suffix. The snapshot may
// be gone by now: then the claim gets no volume, and its runner gives way.
func snapshotFor(
	set *v1alpha1.AutoscalingRunnerSet, template *v1alpha1.VolumeClaimTemplate, suffix string,
) *corev1.TypedLocalObjectReference {
	name := claimName(set.Name, template.Metadata.Name, suffix)
	if _, ours := suffixOf(set.Name, template.Metadata.Name, name); !ours {
		return nil
	}
	return ofSnapshot(name)
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

// workVolume is the volume with the work directory, which container hooks share with the pods of a job.
const workVolume = "work"

// Mount gives the pod the volumes of a runner's claims, its spec.volumeClaims. As in a StatefulSet, a claim replaces
// the volume of the same name. A claim without a name is an emptyDir. Container hooks are told of the claim with the work
// directory.
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
	_, hooks := kube.RunnerEnv(pod, kube.EnvContainerHooks)
	_, given := kube.RunnerEnv(pod, kube.EnvWorkClaim)
	if claim := claims[workVolume]; claim != "" && hooks && !given {
		container := kube.Container(pod, v1alpha1.RunnerContainerName)
		container.Env = append(container.Env, corev1.EnvVar{Name: kube.EnvWorkClaim, Value: claim})
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

// UnmountedTemplates returns the names of claim templates that no container of the runners' pods mounts: they cost what they cost,
// and serve nobody.
func UnmountedTemplates(spec *v1alpha1.AutoscalingRunnerSetSpec) []string {
	mounted := map[string]bool{}
	pod := &spec.Template.Spec
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, mount := range container.VolumeMounts {
			mounted[mount.Name] = true
		}
	}
	var unmounted []string
	for i := range spec.VolumeClaimTemplates {
		if name := spec.VolumeClaimTemplates[i].Metadata.Name; name != "" && !mounted[name] {
			unmounted = append(unmounted, name)
		}
	}
	return unmounted
}

// UsedPercent returns how full a pod's volumes were at the end of its job, by their names, as the hook of feedback.jobLog
// has told; nil if it hasn't.
func UsedPercent(pod *corev1.Pod) map[string]int {
	var used map[string]int
	for _, volume := range podstatus.VolumesOf(pod, v1alpha1.RunnerContainerName) {
		if used == nil {
			used = map[string]int{}
		}
		used[volume.Name] = volume.Percent()
	}
	return used
}

// Named reports whether a runner's claims, by the names of their volumes, are any. One without a name is an empty
// directory.
func Named(claims map[string]string) bool {
	for _, name := range claims {
		if name != "" {
			return true
		}
	}
	return false
}
