package kube

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

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
