package autoscalingrunnerset

import (
	"maps"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// withoutScope returns the labels without those of kube.ScopeLabels, because the address may have changed.
func withoutScope(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	for _, key := range []string{v1alpha1.LabelEnterprise, v1alpha1.LabelOrganization, v1alpha1.LabelRepository} {
		delete(rest, key)
	}
	return rest
}

// childLabels returns the labels of an object created for the set: the labels in the spec's metadata, overridden by those inherited
// from the set, overridden by the controller's. No label is inherited for which an installer deletes objects that others own.
func (c *Controller) childLabels(
	set *v1alpha1.AutoscalingRunnerSet, inherited map[string]string, meta *v1alpha1.ResourceMeta, component string,
) map[string]string {
	labels, _ := kube.Metadata(meta)
	inherited = withoutScope(inherited)
	maps.DeleteFunc(inherited, func(key, _ string) bool { return kube.ForPruning(key) })
	return kube.Labels(c.options.ExcludedLabelPrefixes, labels, inherited, kube.ScopeLabels(set.Spec.GitHubConfigUrl),
		kube.ScaleSetLabels(set, component))
}

// childAnnotations returns the annotations in the spec's metadata, and the names on GitHub.
func childAnnotations(p *pass, meta *v1alpha1.ResourceMeta) map[string]string {
	_, annotations := kube.Metadata(meta)
	return kube.Annotations(annotations, map[string]string{
		v1alpha1.AnnotationRunnerGroupName:    p.registration.Group,
		v1alpha1.AnnotationRunnerScaleSetName: p.registration.Name,
	})
}
