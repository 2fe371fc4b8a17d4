package nodes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Signs are those by which a node shows that it is about to go away: one bit for each entry of announcements, and
// beingDeleted. Zero means that it stays.
type Signs uint32

// announcements are the keys of taints that somebody sets when he has decided to empty a node or to remove it. Key by
// key, with the effects NoSchedule and NoExecute only: PreferNoSchedule is for nodes that may still be kept, such as
// the cluster autoscaler's candidates. A key that ends in / stands for all that begin with it.
//
// Taints that name the purpose of a node (dedicated, spot, GPU), or mean that it isn't ready yet or that it is ill
// (not-ready, unreachable, memory-pressure) aren't here: such a node stays, and often recovers.
var announcements = []string{
	corev1.TaintNodeUnschedulable,                   // kubectl cordon and drain, and most tools that drain; see SignsOf
	corev1.TaintNodeOutOfService,                    // an administrator, when the machine is switched off and stays so
	"node.cloudprovider.kubernetes.io/shutdown",     // cloud controller managers, when the machine has been stopped
	"ToBeDeletedByClusterAutoscaler",                // cluster autoscaler, when it scales down
	"karpenter.sh/disrupted",                        // Karpenter from 1.0 on, for every reason why it removes a node
	"karpenter.sh/disruption",                       // Karpenter 0.33 to 0.37
	"aws-node-termination-handler/",                 // AWS, with taintNode: spot-itn, scheduled-maintenance and others
	"cloud.google.com/impending-node-termination",   // GKE, before spot machines and maintenance end it
	"remediator.kubernetes.azure.com/unschedulable", // AKS, before it drains or repairs
	"remediator.aks.microsoft.com/unschedulable",    // the same in earlier releases
	"medik8s.io/drain",                              // node maintenance operator of OpenShift
}

const (
	cordoned Signs = 1 << 0
	// beingDeleted is a deletion of the Node itself that waits for finalizers, as Karpenter's does.
	beingDeleted Signs = 1 << 31
)

// SignsOf returns the signs of a node.
func SignsOf(node *corev1.Node) Signs {
	var found Signs
	if node.Spec.Unschedulable {
		found |= cordoned // the taint of that name follows a moment later
	}
	if node.DeletionTimestamp != nil {
		found |= beingDeleted
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectNoSchedule && taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		for bit, key := range announcements {
			if taint.Key == key || (strings.HasSuffix(key, "/") && strings.HasPrefix(taint.Key, key)) {
				found |= 1 << bit
			}
		}
	}
	return found
}

// Tolerated returns the signs that don't keep a pod with these tolerations from a node: another pod in its place may be
// given the same node. Values of taints and of tolerations don't count.
func Tolerated(tolerations []corev1.Toleration) Signs {
	var tolerated Signs
	for i := range tolerations {
		t := &tolerations[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		for bit, key := range announcements {
			if t.Key == "" || t.Key == key || (strings.HasSuffix(key, "/") && strings.HasPrefix(t.Key, key)) {
				tolerated |= 1 << bit
			}
		}
	}
	return tolerated
}

// String returns the signs as the rest of a sentence that begins with the node's name.
func (s Signs) String() string {
	var all []string
	if s&cordoned != 0 {
		all = append(all, "is cordoned")
	}
	if s&beingDeleted != 0 {
		all = append(all, "is being deleted")
	}
	for bit, key := range announcements[1:] {
		if s&(1<<(bit+1)) != 0 {
			all = append(all, "has the taint "+strings.TrimSuffix(key, "/"))
		}
	}
	return strings.Join(all, " and ")
}
