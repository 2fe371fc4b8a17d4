package journal

import (
	"maps"
	"strconv"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationDeregistered holds the set's UID after the deregistration is over: a scale set that is found by the set's
// name after that is not ours, or was released. A copy of the set has another UID.
const annotationDeregistered = "actions.github.com/deregistered"

// RegistrationOf returns the scale set as which the set is registered. It is nil after the deregistration is over,
// which an annotation says before the status does.
func RegistrationOf(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if IsDeregistered(set) {
		return nil
	}
	return kube.Registration(set)
}

// IsDeregistered reports whether the deregistration of a set is over.
func IsDeregistered(set *v1alpha1.AutoscalingRunnerSet) bool {
	uid := set.Annotations[annotationDeregistered]
	return uid != "" && uid == string(set.UID)
}

// Register writes the registration to the annotations and labels that ARC knows.
func Register(set *v1alpha1.AutoscalingRunnerSet, now v1alpha1.ScaleSetRegistration) {
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetID, strconv.Itoa(now.ID))
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerGroupName, now.Group)
	kube.SetAnnotation(set, v1alpha1.AnnotationRunnerScaleSetName, now.Name)
	set.Labels = kube.Labels(nil, WithoutScope(set.Labels), kube.ScopeLabels(now.URL))
}

// Release takes the registration out of ARC's annotations, because the scale set is another set's.
func Release(set *v1alpha1.AutoscalingRunnerSet) {
	for _, key := range []string{v1alpha1.AnnotationRunnerScaleSetID, v1alpha1.AnnotationRunnerGroupName,
		v1alpha1.AnnotationRunnerScaleSetName} {
		delete(set.Annotations, key)
	}
}

// WithoutScope returns the labels without those of kube.ScopeLabels, because the address may have changed.
func WithoutScope(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	for _, key := range []string{v1alpha1.LabelEnterprise, v1alpha1.LabelOrganization, v1alpha1.LabelRepository} {
		delete(rest, key)
	}
	return rest
}
