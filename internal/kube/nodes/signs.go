package nodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Signs are those by which a node shows that it is about to go away: one bit for each entry of announcements and of
// notices, and beingDeleted. Zero means that it stays.
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
	"cloudprovider.azure.microsoft.com/draining",    // Azure's cloud controller manager, before a spot machine ends
}

// notices are the types of conditions that are True when the machine of a node is about to be ended, or restarted: seconds
// to minutes before it happens. Nothing but the condition may say so, and the scheduler doesn't read it.
var notices = []corev1.NodeConditionType{
	"PreemptionScheduled", // AKS (node problem detector), before a spot machine ends
	"PreemptScheduled",    // the same in earlier releases
	"TerminateScheduled",  // the same, before a machine is deleted
	"RedeployScheduled",   // the same, before it moves to other hardware
	"RebootScheduled",     // the same, before it restarts
	"VMEventScheduled",    // AKS, for all of these; also if the machine freezes for seconds, which moves idle runners only
	"Terminating",         // OpenShift's machine termination handler
}

// firstNotice is the bit of the first of notices. There is room for 16 taints before them, and 15 conditions.
const firstNotice = 16

// byTaint are the signs that keep the scheduler from a node, or that its deletion does.
const byTaint Signs = 1<<firstNotice - 1 | beingDeleted

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
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Status == corev1.ConditionTrue {
			if at := slices.Index(notices, condition.Type); at >= 0 {
				found |= 1 << (firstNotice + at)
			}
		}
	}
	return found
}

// Unmarked reports whether nothing but a condition says that the node goes away, so that pods may still come to it.
func (s Signs) Unmarked() bool { return s != 0 && s&byTaint == 0 }

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
	for at, condition := range notices {
		if s&(1<<(firstNotice+at)) != 0 {
			all = append(all, "has the condition "+string(condition))
		}
	}
	return strings.Join(all, " and ")
}
