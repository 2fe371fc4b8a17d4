package autoscalinglistener

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// lostAfter is how long a node has to be lost before its listener is replaced. The node controller has waited 40 s and
// more by then; this is for nodes that come back right away.
const lostAfter = 10 * time.Second

// Reasons of the condition Ready.
const (
	reasonReady         = "PodReady"
	reasonStarting      = v1alpha1.ReasonListenerPodStarting
	reasonNotListening  = v1alpha1.ReasonListenerNotListening
	reasonReplacing     = "PodReplaced"
	reasonPredecessor   = "WaitingForPredecessor"
	reasonBackOff       = "BackOff"
	reasonPodFailed     = "PodFailed"
	reasonNodeLost      = v1alpha1.ReasonNodeLost
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonStopping      = "Stopping"
	reasonUnschedulable = "Unschedulable"
	reasonNameTaken     = v1alpha1.ReasonPodNameTaken
)

// treatment is what is done about a pod.
type treatment int

const (
	keep treatment = iota
	// replace: deleted with its grace period.
	replace
	// abandon: deleted without waiting for a node that doesn't answer.
	abandon
	// discard: it has ended, is deleted, and its successor waits for a while.
	discard
)

// podState is what there is to say about a pod, and what to do about it.
type podState struct {
	treatment       treatment
	ready           bool
	reason, message string
	// again is when time alone will change the answer, zero for never.
	again time.Duration
}

// unwanted is the hash to assess a pod with that should not be there. An empty one would suit pods of ARC 0.14.
const unwanted = "unwanted"

// assess looks at a pod that should have been made with this hash.
func assess(pod *corev1.Pod, hash string, now time.Time) podState {
	lost, since := lostNode(pod)
	gone := now.Sub(since)
	if gone < -lostAfter {
		gone = lostAfter // our clock is behind, or was set back, perhaps by hours: jobs must not wait for it
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return assessTerminating(pod, lost, now)
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return podState{treatment: discard, reason: ended(pod), message: fmt.Sprintf("pod ended (%s): %s", pod.Status.Phase, endMessage(pod))}
	case lost && gone >= lostAfter:
		return podState{treatment: abandon, reason: reasonNodeLost, message: fmt.Sprintf("node %s stopped reporting; the listener is started elsewhere", pod.Spec.NodeName)}
	case pod.Annotations[v1alpha1.AnnotationIntegrityHash] != hash:
		return podState{treatment: replace, reason: reasonReplacing, message: "image, template, proxy, address, group or scale set changed"}
	case lost:
		return podState{reason: reasonNodeLost, message: fmt.Sprintf("node %s stopped reporting", pod.Spec.NodeName), again: lostAfter - gone}
	}
	return describe(pod)
}

// assessTerminating waits for the grace period, which deletionTimestamp is the end of, unless the node is lost.
func assessTerminating(pod *corev1.Pod, lost bool, now time.Time) podState {
	state := podState{reason: reasonReplacing, message: "the previous pod ends its session"}
	overdue := pod.DeletionTimestamp.Add(lostAfter)
	if lost || !now.Before(overdue) {
		state.treatment = abandon
		state.message = fmt.Sprintf("node %s does not confirm that the pod has ended; it is no longer waited for", pod.Spec.NodeName)
		return state
	}
	state.again = overdue.Sub(now)
	return state
}

// lostNode says whether, and since when, the pod's node no longer reports: the node controller then sets Ready to False
// and leaves ContainersReady, which the kubelet would have changed as well, True. Readiness gates look the same.
func lostNode(pod *corev1.Pod) (bool, time.Time) {
	ready, containers := kube.PodCondition(pod, corev1.PodReady), kube.PodCondition(pod, corev1.ContainersReady)
	if ready == nil || containers == nil || len(pod.Spec.ReadinessGates) > 0 {
		return false, time.Time{}
	}
	return ready.Status == corev1.ConditionFalse && containers.Status == corev1.ConditionTrue, ready.LastTransitionTime.Time
}

// describe says how far a pod is that is left alone.
func describe(pod *corev1.Pod) podState {
	if ready := kube.PodCondition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
		return podState{ready: true, reason: reasonReady}
	}
	if scheduled := kube.PodCondition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return podState{reason: cmp.Or(scheduled.Reason, reasonUnschedulable), message: scheduled.Message}
	}
	running := false
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if waiting := status.State.Waiting; waiting != nil && !ordinaryWait(waiting.Reason) {
			return podState{reason: waiting.Reason, message: waitMessage(pod, status)}
		}
		running = running || status.Name == v1alpha1.ListenerContainerName && status.State.Running != nil
	}
	if running {
		return podState{reason: reasonNotListening, message: fmt.Sprintf("the listener runs and has no session on GitHub yet, or GitHub has left its polls without an answer; "+
			"kubectl logs -n %s %s says which", pod.Namespace, pod.Name)}
	}
	return podState{reason: reasonStarting, message: "the pod is starting"}
}

// ordinaryWait tells the waits of every start from trouble.
func ordinaryWait(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

// waitMessage adds to the kubelet's message what it leaves out: how often, how it ended, and where to look.
func waitMessage(pod *corev1.Pod, status corev1.ContainerStatus) string {
	message := fmt.Sprintf("container %s: %s", status.Name, cmp.Or(status.State.Waiting.Message, status.State.Waiting.Reason))
	if last := status.LastTerminationState.Terminated; last != nil {
		message += fmt.Sprintf("; %d restarts, the last ended with exit code %d (%s)%s; see kubectl logs -n %s %s -c %s --previous",
			status.RestartCount, last.ExitCode, last.Reason, prefixed(": ", last.Message), pod.Namespace, pod.Name, status.Name)
	}
	return message
}

// ended names why a pod ended: Evicted, NodeShutdown and the like, or that it failed.
func ended(pod *corev1.Pod) string { return cmp.Or(pod.Status.Reason, reasonPodFailed) }

// endMessage is the node's own explanation, or how the container exited where the node gave none.
func endMessage(pod *corev1.Pod) string {
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	for _, status := range pod.Status.ContainerStatuses {
		if end := status.State.Terminated; end != nil {
			return fmt.Sprintf("container %s exited with code %d (%s)", status.Name, end.ExitCode, end.Reason)
		}
	}
	return "its node gave no reason"
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
