package launch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// avoid keeps a new pod from nodes, by their names: a node of which only a condition says that it is about to go away has
// no taint that keeps pods from it. A pod that names its node goes there. The terms of a node selector are alternatives,
// so each of them gets the exceptions; the API server takes one name for each.
func avoid(spec *corev1.PodSpec, nodes []string) {
	if len(nodes) == 0 || spec.NodeName != "" {
		return
	}
	var exceptions []corev1.NodeSelectorRequirement
	for _, node := range nodes {
		exceptions = append(exceptions, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: exceptions}}}
		return
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // an empty term matches no node
			terms[i].MatchFields = slices.Concat(terms[i].MatchFields, exceptions)
		}
	}
}
