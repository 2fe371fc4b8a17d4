package autoscalinglistener

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// mergeTemplate merges what the policy leaves of the user's template into the pod as `kubectl patch` would: fields that are set replace
// the defaults or are added to them, by name in lists, and absent fields leave the defaults as they are. The pod's identity can't be
// changed.
func mergeTemplate(pod *corev1.Pod, template *corev1.PodTemplateSpec) error {
	if template == nil {
		return nil
	}
	pod.Labels = kube.Labels(nil, template.Labels, pod.Labels)
	pod.Annotations = kube.Annotations(template.Annotations, pod.Annotations)
	if given := kube.Container(&template.Spec, v1alpha1.ListenerContainerName); given != nil {
		dropConflictingDefaults(&pod.Spec.Containers[0], given)
	}
	account := pod.Spec.ServiceAccountName
	merged, err := merge(pod.Spec, template.Spec)
	if err != nil {
		return fmt.Errorf("merge listenerTemplate into the listener pod: %w", err)
	}
	merged.ServiceAccountName, merged.DeprecatedServiceAccount = account, ""
	merged.AutomountServiceAccountToken = nil
	merged.EphemeralContainers = nil // a pod can't be created with any
	pod.Spec = merged
	return nil
}

// dropConflictingDefaults removes the defaults that can't be merged with the user's container: the API server rejects a probe with
// two handlers and a variable with both a value and a source, and our requests may exceed the user's limits.
func dropConflictingDefaults(ours, given *corev1.Container) {
	if given.StartupProbe != nil {
		ours.StartupProbe = nil
	}
	if given.LivenessProbe != nil {
		ours.LivenessProbe = nil
	}
	if given.ReadinessProbe != nil {
		ours.ReadinessProbe = nil
	}
	if len(given.Resources.Requests) > 0 || len(given.Resources.Limits) > 0 {
		ours.Resources = corev1.ResourceRequirements{}
	}
	ours.Env = slices.DeleteFunc(ours.Env, func(variable corev1.EnvVar) bool {
		return slices.ContainsFunc(given.Env, func(other corev1.EnvVar) bool { return other.Name == variable.Name })
	})
}

// merge returns base with patch merged into it by a strategic merge patch.
func merge(base, patch corev1.PodSpec) (merged corev1.PodSpec, err error) {
	if patch.Containers == nil {
		// "containers" is always serialized, and null would delete ours.
		patch.Containers = []corev1.Container{}
	}
	original, err := json.Marshal(base)
	if err != nil {
		return merged, err
	}
	changes, err := json.Marshal(patch)
	if err != nil {
		return merged, err
	}
	result, err := strategicpatch.StrategicMergePatch(original, changes, corev1.PodSpec{})
	if err != nil {
		return merged, err
	}
	return merged, json.Unmarshal(result, &merged)
}
