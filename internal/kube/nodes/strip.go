package nodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Places reports whether a label says where a node is, or which one it is: volumes are bound to nodes by such labels.
// Storage drivers have their own, such as topology.ebs.csi.aws.com/zone and topology.topolvm.io/node.
func Places(label string) bool {
	return label == corev1.LabelHostname || strings.HasPrefix(label, "topology.") ||
		strings.HasPrefix(label, "failure-domain.beta.kubernetes.io/")
}

// Strip drops everything of a Node but its name, its place, its signs and what a watch needs: 1 KiB instead of 10 KiB or
// more. It is a transform for a cache.
func Strip(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok { // otherwise it is a tombstone
		*node = corev1.Node{
			TypeMeta: node.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Name:              node.Name,
				UID:               node.UID,
				ResourceVersion:   node.ResourceVersion,
				CreationTimestamp: node.CreationTimestamp,
				DeletionTimestamp: node.DeletionTimestamp,
				Labels:            placesOf(node),
			},
			Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
			Status: corev1.NodeStatus{Conditions: noticesOf(node)},
		}
	}
	return object, nil
}

// placesOf returns the labels that say where a node is, nil if there are none. The strings are copies, so that they
// don't keep the whole answer in which they came.
func placesOf(node *corev1.Node) map[string]string {
	var found map[string]string
	for label, value := range node.Labels {
		if !Places(label) {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[strings.Clone(label)] = strings.Clone(value)
	}
	return found
}

// noticesOf returns the conditions that say that a node is about to go away, nil if there are none.
func noticesOf(node *corev1.Node) (found []corev1.NodeCondition) {
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Status == corev1.ConditionTrue && slices.Contains(notices, condition.Type) {
			found = append(found, corev1.NodeCondition{
				Type: corev1.NodeConditionType(strings.Clone(string(condition.Type))), Status: corev1.ConditionTrue})
		}
	}
	return found
}
