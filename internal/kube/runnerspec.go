package kube

import (
	"strconv"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Registration returns where an AutoscalingRunnerSet is registered on GitHub: according to its status or, if ARC registered it, to ARC's
// annotations. It returns nil if it is registered nowhere. The result is the caller's own.
func Registration(set *v1alpha1.AutoscalingRunnerSet) *v1alpha1.ScaleSetRegistration {
	if set.Status.Registration != nil {
		return set.Status.Registration.DeepCopy()
	}
	id, err := strconv.Atoi(set.Annotations[v1alpha1.AnnotationRunnerScaleSetID])
	if err != nil || id <= 0 {
		return nil
	}
	return &v1alpha1.ScaleSetRegistration{
		URL:   set.Spec.GitHubConfigUrl,
		ID:    id,
		Group: set.Annotations[v1alpha1.AnnotationRunnerGroupName],
		Name:  set.Annotations[v1alpha1.AnnotationRunnerScaleSetName],
	}
}

// RunnerSpec returns what an AutoscalingRunnerSet says of its runners: who they are, what they run, and where they register. Its
// EphemeralRunnerSet must say the same. The id is the scale set's on GitHub.
func RunnerSpec(set *v1alpha1.AutoscalingRunnerSet, scaleSetID int) v1alpha1.EphemeralRunnerSpec {
	spec := &set.Spec
	return v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl:                     spec.GitHubConfigUrl,
		GitHubConfigSecret:                  spec.GitHubConfigSecret,
		GitHubServerTLS:                     spec.GitHubServerTLS,
		RunnerScaleSetID:                    scaleSetID,
		Proxy:                               spec.Proxy,
		VaultConfig:                         spec.VaultConfig,
		EphemeralRunnerConfigSecretMetadata: spec.EphemeralRunnerConfigSecretMetadata,
		RunnerTimeouts:                      spec.RunnerTimeouts,
		PodMetadata:                         spec.Template.ObjectMeta,
		PodSpec:                             spec.Template.Spec,
	}
}

// RunnerSpecHash identifies what an EphemeralRunnerSet says of its runners. The AutoscalingRunnerSet keeps it in its status, which a
// listener can't write.
func RunnerSpecHash(spec *v1alpha1.EphemeralRunnerSetSpec) string {
	return Hash(struct {
		Spec     v1alpha1.EphemeralRunnerSpec
		Metadata *v1alpha1.ResourceMeta
	}{spec.EphemeralRunnerSpec, spec.EphemeralRunnerMetadata})
}
