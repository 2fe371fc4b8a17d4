package listenerpod

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// LostTimeout ends the life of a listener whose node is lost. The node controller has already waited for 40 s or more;
// this is for nodes that come back right away.
const LostTimeout = 10 * time.Second

// Reasons of the condition Ready that follow from the pod.
const (
	ReasonReady         = "PodReady"
	ReasonStarting      = v1alpha1.ReasonListenerPodStarting
	reasonNotListening  = v1alpha1.ReasonListenerNotListening
	ReasonReplacing     = "PodReplaced"
	reasonPodFailed     = "PodFailed"
	reasonNodeLost      = v1alpha1.ReasonNodeLost
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonUnschedulable = "Unschedulable"
)

// Action says what to do about a pod.
type Action int

// What is done about a pod.
const (
	// Keep leaves the pod as it is.
	Keep Action = iota
	// Replace deletes the pod with its grace period.
	Replace
	// ForceDelete deletes the pod without waiting for its node, which has stopped reporting.
	ForceDelete
	// DeleteEnded deletes a pod that has ended. Its successor waits for the back-off.
	DeleteEnded
)

// State has the status' words about a pod, and the action to take.
type State struct {
	Action Action
	// Ready, Reason and Message are those of the listener's condition Ready.
	Ready           bool
	Reason, Message string
	// After RequeueAfter the state will change without an event, never if it is zero.
	RequeueAfter time.Duration
}

// Demand has the requirements that a pod must meet to be kept.
type Demand struct {
	// Hash is that of Builder.Hash.
	Hash string
	// Since is the time at which the pod's ServiceAccount was created, zero if the cache doesn't have it. Tokens of an
	// earlier account of that name are refused.
	Since time.Time
}

// Unwanted is the demand on a pod that should not exist: no pod meets it. An empty hash would match pods of ARC 0.14.
var Unwanted = Demand{Hash: "unwanted"}

// Assess decides what to do about a pod, given the demand on it. If the pod is being deleted, that was first seen at
// deletingSince.
func Assess(pod *corev1.Pod, wanted Demand, deletingSince, now time.Time) State {
	lost, since := lostNode(pod)
	gone := now.Sub(since)
	if gone < -LostTimeout {
		gone = LostTimeout // our clock is behind or was set back, perhaps by hours, and jobs must not wait that long
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return assessTerminating(pod, lost, now.Sub(deletingSince))
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return State{
			Action:  DeleteEnded,
			Reason:  ended(pod),
			Message: fmt.Sprintf("pod ended (%s): %s", pod.Status.Phase, endMessage(pod)),
		}
	case finalExit(pod) != nil:
		return State{Action: DeleteEnded, Reason: reasonPodFailed,
			Message: fmt.Sprintf("%s, and its restartPolicy doesn't start it again",
				exitMessage(v1alpha1.ListenerContainerName, finalExit(pod)))}
	case lost && gone >= LostTimeout:
		return State{
			Action:  ForceDelete,
			Reason:  reasonNodeLost,
			Message: fmt.Sprintf("node %s stopped reporting; the listener is started elsewhere", pod.Spec.NodeName),
		}
	case pod.Annotations[v1alpha1.AnnotationIntegrityHash] != wanted.Hash:
		return State{
			Action:  Replace,
			Reason:  ReasonReplacing,
			Message: "image, template, its policy, proxy, address, group, scale set or metrics port changed",
		}
	case pod.CreationTimestamp.Time.Before(wanted.Since):
		return State{
			Action:  Replace,
			Reason:  ReasonReplacing,
			Message: "its ServiceAccount was deleted and recreated; the API server refuses the pod's token",
		}
	case lost:
		return State{
			Reason:       reasonNodeLost,
			Message:      fmt.Sprintf("node %s stopped reporting", pod.Spec.NodeName),
			RequeueAfter: LostTimeout - gone,
		}
	}
	return Describe(pod)
}

// assessTerminating waits until the grace period has ended, unless the node is lost. The period is measured by our
// clock, from the moment at which the deletion was first seen: deletionTimestamp is the API server's time, which may
// differ, and a pod that is force-deleted too early doesn't close its session.
func assessTerminating(pod *corev1.Pod, lost bool, terminating time.Duration) State {
	state := State{Reason: ReasonReplacing, Message: "the previous pod is closing its session"}
	left := kube.GracePeriod(pod) + LostTimeout - terminating
	if len(kube.PodKeepers(pod)) > 0 {
		left = min(left, kube.KeptGrace-terminating)
	}
	switch {
	case !lost && left > 0:
		state.RequeueAfter = left
	case len(pod.Finalizers) > 0: // a forced deletion would not remove them
		state.Reason, state.Message = v1alpha1.ReasonPodTerminating,
			kube.WhyTerminating(pod.Name, pod.DeletionTimestamp.Time, pod.Finalizers)
	default:
		state.Action = ForceDelete
		state.Message = fmt.Sprintf("node %s has not confirmed that the pod ended; no longer waiting for it",
			pod.Spec.NodeName)
	}
	return state
}

// lostNode reports whether, and since when, the pod's node has stopped reporting. The node controller then sets Ready
// to False and leaves ContainersReady True; the kubelet would have changed both. An unmet readiness gate looks the
// same, so a pod with gates never counts as lost.
func lostNode(pod *corev1.Pod) (bool, time.Time) {
	ready, containers := kube.PodCondition(pod, corev1.PodReady), kube.PodCondition(pod, corev1.ContainersReady)
	if ready == nil || containers == nil || len(pod.Spec.ReadinessGates) > 0 {
		return false, time.Time{}
	}
	return ready.Status == corev1.ConditionFalse &&
		containers.Status == corev1.ConditionTrue, ready.LastTransitionTime.Time
}

// Describe returns the state of a pod that is kept.
func Describe(pod *corev1.Pod) State {
	if ready := kube.PodCondition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
		return State{Ready: true, Reason: ReasonReady}
	}
	if scheduled := kube.PodCondition(pod, corev1.PodScheduled); scheduled != nil &&
		scheduled.Status == corev1.ConditionFalse {
		return State{Reason: cmp.Or(scheduled.Reason, reasonUnschedulable), Message: scheduled.Message}
	}
	running := false
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if waiting := status.State.Waiting; waiting != nil && !ordinaryWait(waiting.Reason) {
			return State{Reason: waiting.Reason, Message: waitMessage(pod, status)}
		}
		running = running || (status.Name == v1alpha1.ListenerContainerName && status.State.Running != nil)
	}
	if running {
		return State{Reason: reasonNotListening,
			Message: fmt.Sprintf("the listener is running but has no session on GitHub yet, or GitHub leaves "+
				"its polls unanswered; kubectl logs -n %s %s shows which", pod.Namespace, pod.Name)}
	}
	return State{Reason: ReasonStarting, Message: "the pod is starting"}
}

// ordinaryWait reports whether the reason is one for which every container waits when it starts.
func ordinaryWait(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

// waitMessage adds to the kubelet's message what it leaves out: the number of restarts, how the last run ended, and
// where to look.
func waitMessage(pod *corev1.Pod, status corev1.ContainerStatus) string {
	message := fmt.Sprintf("container %s: %s", status.Name,
		cmp.Or(status.State.Waiting.Message, status.State.Waiting.Reason))
	if last := status.LastTerminationState.Terminated; last != nil {
		message += fmt.Sprintf("; %d restarts, the last ended with exit code %d (%s)%s; see kubectl logs -n %s "+
			"%s -c %s --previous",
			status.RestartCount, last.ExitCode, last.Reason, prefixed(": ", last.Message), pod.Namespace, pod.Name,
			status.Name)
	}
	return message
}

// ended returns the reason why a pod ended: Evicted, DeletionByPodGC, NodeShutdown and the like, or PodFailed.
func ended(pod *corev1.Pod) string {
	reason, _ := podstatus.Explanation(pod)
	return cmp.Or(reason, reasonPodFailed)
}

// endMessage returns the explanation of whoever ended the pod or, if there is none, how the container exited.
func endMessage(pod *corev1.Pod) string {
	if _, message := podstatus.Explanation(pod); message != "" {
		return message
	}
	for _, status := range pod.Status.ContainerStatuses {
		if end := status.State.Terminated; end != nil {
			return exitMessage(status.Name, end)
		}
	}
	return "its node gave no reason"
}

func exitMessage(container string, end *corev1.ContainerStateTerminated) string {
	return fmt.Sprintf("container %s exited with code %d (%s)", container, end.ExitCode, end.Reason)
}

// finalExit returns the end of the listener's container if the kubelet will not restart it, nil otherwise. Another
// container can keep such a pod in phase Running forever. If the container has restart rules, only the kubelet can
// tell.
func finalExit(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	status, container := kube.ContainerStatus(pod, v1alpha1.ListenerContainerName),
		kube.Container(&pod.Spec, v1alpha1.ListenerContainerName)
	if status == nil || status.State.Terminated == nil || container == nil || len(container.RestartPolicyRules) > 0 {
		return nil
	}
	end, policy := status.State.Terminated, pod.Spec.RestartPolicy
	if own := container.RestartPolicy; own != nil {
		policy = corev1.RestartPolicy(*own)
	}
	if policy == corev1.RestartPolicyNever || (policy == corev1.RestartPolicyOnFailure && end.ExitCode == 0) {
		return end
	}
	return nil
}

// prefixed returns the text with the prefix, or nothing if there is no text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
