package autoscalingrunnerset

import (
	"maps"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
)

// scopeLabels name the enterprise, organization or repository of an address. There are none for an invalid address.
func scopeLabels(address string) map[string]string {
	url, err := actions.ParseConfigURL(address)
	if err != nil {
		return nil
	}
	labels := map[string]string{
		v1alpha1.LabelEnterprise:   kube.LabelValue(url.Enterprise),
		v1alpha1.LabelOrganization: kube.LabelValue(url.Organization),
		v1alpha1.LabelRepository:   kube.LabelValue(url.Repository),
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// withoutScope returns the labels without those of scopeLabels, because the address may have changed.
func withoutScope(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	for _, key := range []string{v1alpha1.LabelEnterprise, v1alpha1.LabelOrganization, v1alpha1.LabelRepository} {
		delete(rest, key)
	}
	return rest
}

// childLabels returns the labels of an object made for the set: those of the metadata in the spec, then the set's own, then
// ours, which nothing overrides.
func (c *Controller) childLabels(set *v1alpha1.AutoscalingRunnerSet, meta *v1alpha1.ResourceMeta, component string) map[string]string {
	labels, _ := kube.Metadata(meta)
	return kube.Labels(c.options.ExcludedLabelPrefixes, labels, withoutScope(set.Labels), scopeLabels(set.Spec.GitHubConfigUrl),
		kube.ScaleSetLabels(set, component))
}

// childAnnotations adds the names on GitHub to the annotations of the metadata in the spec.
func childAnnotations(p *pass, meta *v1alpha1.ResourceMeta) map[string]string {
	_, annotations := kube.Metadata(meta)
	return kube.Annotations(annotations, map[string]string{
		v1alpha1.AnnotationRunnerGroupName:    p.registration.Group,
		v1alpha1.AnnotationRunnerScaleSetName: p.registration.Name,
	})
}
