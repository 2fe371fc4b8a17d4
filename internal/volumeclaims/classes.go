package volumeclaims

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// defaultClass are the annotations of the StorageClass that claims have which name none; Kubernetes still honours the
// older one.
var defaultClass = []string{
	"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class",
}

// NewClaims returns the specs of the claims that are created for a set's runners, by the names of their volumes: those of
// generic ephemeral volumes, and those of volumeClaimTemplates.
func NewClaims(spec *v1alpha1.AutoscalingRunnerSetSpec) map[string]*corev1.PersistentVolumeClaimSpec {
	claims := map[string]*corev1.PersistentVolumeClaimSpec{}
	for i := range spec.Template.Spec.Volumes {
		volume := &spec.Template.Spec.Volumes[i]
		if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
			claims[volume.Name] = &volume.Ephemeral.VolumeClaimTemplate.Spec
		}
	}
	for i := range spec.VolumeClaimTemplates {
		claims[spec.VolumeClaimTemplates[i].Metadata.Name] = &spec.VolumeClaimTemplates[i].Spec
	}
	return claims
}

// WithoutClass says which new claims of a set's runners will have no volume, with these StorageClasses in the cluster: their
// class doesn't exist, or they name none and there is no default. A claim that names its volume needs no class.
func WithoutClass(spec *v1alpha1.AutoscalingRunnerSetSpec, classes []metav1.PartialObjectMetadata) (missing []string) {
	exists, isDefault := map[string]bool{}, false
	for i := range classes {
		exists[classes[i].Name] = true
		isDefault = isDefault || slices.ContainsFunc(defaultClass, func(key string) bool {
			return classes[i].Annotations[key] == "true"
		})
	}
	claims := NewClaims(spec)
	for _, volume := range slices.Sorted(maps.Keys(claims)) {
		switch class := claims[volume].StorageClassName; {
		case claims[volume].VolumeName != "":
		case class == nil && !isDefault:
			missing = append(missing, volume+" names no storageClassName, and the cluster has no default StorageClass")
		case class != nil && *class != "" && !exists[*class]:
			missing = append(missing, fmt.Sprintf("%s names StorageClass %s, which doesn't exist", volume, *class))
		}
	}
	return missing
}
