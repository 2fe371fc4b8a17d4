package podstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Disruption is what somebody said of a pod before he took it away.
type Disruption struct {
	Cause v1alpha1.LostCause
	// What happened, for people, and Detail in the words of whoever did it.
	What, Detail string
	// Reason is one that this project knows.
	Reason string
	At     time.Time
}

// announcement is a condition by which a program says on a pod that it takes the pod away. Only programs with the right
// to write a pod's status can: kubelets, schedulers, and those that stand in for them.
type announcement struct {
	condition corev1.PodConditionType
	status    corev1.ConditionStatus
	// reasons have a meaning of their own, others that of otherwise. Without otherwise, others mean nothing.
	reasons   map[string]meaningOf
	otherwise func(pod *corev1.Pod, reason string) meaningOf
}

type meaningOf struct {
	cause v1alpha1.LostCause
	what  string
}

const outranked = "the pod made room for one of higher priority"

// announcements are in the order of their weight: the first that a pod has counts.
//
// Programs that use the eviction API need no row, because the API server sets DisruptionTarget for them: kubectl drain,
// the cluster autoscaler, Karpenter, the descheduler, draino, kured, and the handlers of cloud providers. Koordinator
// writes what the default scheduler does. Of programs that only delete pods nothing can be known: YuniKorn's
// preemption, Karpenter at the end of a node's terminationGracePeriod, and kubectl drain with --disable-eviction.
var announcements = []announcement{
	{
		condition: corev1.DisruptionTarget, status: corev1.ConditionTrue,
		reasons: map[string]meaningOf{
			"EvictionByEvictionAPI":     {v1alpha1.LostCauseEvicted, "the pod was evicted, as by a node drain or an autoscaler"},
			"PreemptionByScheduler":     {v1alpha1.LostCausePreempted, outranked},
			"PreemptionByKubeScheduler": {v1alpha1.LostCausePreempted, outranked},
			"DeletionByPodGC":           {v1alpha1.LostCauseNodeLost, "the node is gone"},
		},
		otherwise: ofDisruptionTarget,
	},
	{
		// Kueue, before it deletes a pod. Up to 0.7 there was a single reason, whose message had the cause.
		condition: "TerminationTarget", status: corev1.ConditionTrue,
		reasons: map[string]meaningOf{
			"StoppedByKueue":                   {v1alpha1.LostCausePreempted, "Kueue took its quota back from the pod"},
			"WorkloadEvictedDueToPreempted":    {v1alpha1.LostCausePreempted, "Kueue gave the pod's quota to another workload"},
			"WorkloadEvictedDueToNodeFailures": {v1alpha1.LostCauseNodeLost, "Kueue evicted the pod because its node failed"},
		},
		otherwise: func(_ *corev1.Pod, reason string) meaningOf {
			return meaningOf{v1alpha1.LostCauseEvicted, "Kueue evicted the pod (" + reason + ")"}
		},
	},
	{
		// Volcano, before it deletes a pod whose room it needs, or whose queue has to give some back. A kubelet replaces
		// the condition within seconds.
		condition: corev1.PodReady, status: corev1.ConditionFalse,
		reasons: map[string]meaningOf{
			"Evict": {v1alpha1.LostCausePreempted, "Volcano gave the pod's room to another"},
		},
	},
}

// ofDisruptionTarget reads the reasons of Kubernetes that mean more than one thing.
func ofDisruptionTarget(pod *corev1.Pod, reason string) meaningOf {
	if reason == "DeletionByTaintManager" {
		if ready := kube.PodCondition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
			// a node that still answers
			return meaningOf{v1alpha1.LostCauseEvicted, "the pod was evicted by a taint on its node"}
		}
		return meaningOf{v1alpha1.LostCauseNodeLost, "the node stopped answering"}
	}
	if ending, known := kubeletEndings[pod.Status.Reason]; known { // TerminationByKubelet has several causes
		return meaningOf(ending)
	}
	return meaningOf{v1alpha1.LostCauseEvicted, "the pod was evicted (" + reason + ")"}
}

// DisruptionOf returns what the conditions of a pod say of who takes it away, nil if they say nothing.
func DisruptionOf(pod *corev1.Pod) *Disruption {
	for i := range announcements {
		a := &announcements[i]
		said := kube.PodCondition(pod, a.condition)
		if said == nil || said.Status != a.status {
			continue
		}
		means, known := a.reasons[said.Reason]
		switch {
		case known:
		case a.otherwise == nil:
			continue
		default:
			means = a.otherwise(pod, said.Reason)
		}
		d := &Disruption{Cause: means.cause, What: means.what, Detail: said.Message, At: said.LastTransitionTime.Time,
			Reason: string(means.cause)}
		if a.condition == corev1.DisruptionTarget { // whose reasons are known
			d.Reason = said.Reason
		}
		return d
	}
	return nil
}
