package watch

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/operations/history/prices"
)

// After a refusal no node is read for nodeRefusalBackoff: somebody has to change a role first.
const nodeRefusalBackoff = 10 * time.Minute

// node is what is kept of one.
type node struct{ kind, labels string }

// NodeLabels returns the type of a node, such as m7i.4xlarge, and the labels on which prices may depend, in the form of the
// ledger. Both are empty if the node is gone or the API server does not say. Nodes are only read by name, once each.
func (o *Objects) NodeLabels(ctx context.Context, name string) (kind, labels string) {
	if known, ok := o.nodes.Get(name); ok {
		return known.(node).kind, known.(node).labels
	}
	if o.Nodes == nil || o.Clock.Since(o.nodesRefused) < nodeRefusalBackoff {
		return "", ""
	}
	read := metav1.PartialObjectMetadata{}
	read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := o.Nodes.Get(bounded, client.ObjectKey{Name: name}, &read)
	var of node
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		o.nodesRefused = o.Clock.Now()
		return "", ""
	default:
		of = node{read.Labels[corev1.LabelInstanceTypeStable], o.Prices.NodeLabels(read.Labels)}
	}
	o.nodes.Add(name, of)
	return of.kind, of.labels
}

// began reports whether a container of a pod runs or has run: whoever may create pods makes up what they request, and even
// their node, but a node without a resource runs none that requests it.
func began(object any) bool {
	pod, is := object.(*corev1.Pod)
	return is && slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
	})
}

// extendedResources returns what a pod requests besides CPU and memory, with the most that one of the job's other pods
// requests of each that has begun, in the form of the ledger. Those that wait don't count: a job could make its cost
// unknown by a pod with a resource that nobody has a price for.
func extendedResources(pod *corev1.Pod, jobPods []corev1.Pod) string {
	named := map[corev1.ResourceName]bool{}
	note := func(spec *corev1.PodSpec) {
		for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
			for i := range containers {
				for name := range containers[i].Resources.Requests {
					named[name] = prices.IsExtended(string(name))
				}
			}
		}
	}
	jobPods = slices.DeleteFunc(slices.Clone(jobPods), func(other corev1.Pod) bool { return !began(&other) })
	note(&pod.Spec)
	for i := range jobPods {
		note(&jobPods[i].Spec)
	}
	requested := map[string]int64{}
	for name, extended := range named {
		if number := together(pod, jobPods, name); extended {
			requested[string(name)] = number.Value()
		}
	}
	return prices.ExtendedResources(requested)
}
