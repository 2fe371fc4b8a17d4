// Package podstatus says what a pod's state means. It is pure: pods come in, and what was seen besides; nothing is read
// or written. The controller of runners decides with it whether a job was lost, and to what, and whether an end before
// a job is held against the runner.
package podstatus

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Ending says what ended a container, or is about to end it. The zero value means that nothing does, or that it ended
// well.
type Ending struct {
	Cause v1alpha1.LostCause
	// Fault says whose fault the end is if the runner had no job.
	Fault Fault
	// Outside is set if the container did not end by itself: its pod was evicted, preempted or deleted, reached its
	// deadline, or was lost with its node.
	Outside bool
	// At is the time at which the container ended, or at which the first sign came from outside, by the clock of
	// whoever dated it; zero if nobody did.
	At time.Time
	// EndedBy is the latest time at which the container can have ended, by the same clocks; zero if nothing dates that.
	EndedBy time.Time
	// Message names the node, and has Kubernetes' own words.
	Message string
}

// Seen adds to a pod's state the facts that it does not tell.
type Seen struct {
	// NodeSilent is set if the pod should have been removed by its node long ago.
	NodeSilent bool
	// DeletedByUs is set if the pod is being deleted because its runner is no longer needed.
	DeletedByUs bool
	// Departure says why the pod's node is about to go away, as the rest of a sentence that begins with its name; empty if
	// it stays, as far as is known.
	Departure string
}

// EndingOf returns what ended the named container of a pod, or is about to, and whose fault that is.
func EndingOf(pod *corev1.Pod, container string, seen Seen) Ending {
	e := endingOf(pod, container, seen)
	e.Fault = faultOf(pod, container, e)
	if e.Cause != "" {
		e.EndedBy = endedBy(pod, container)
	}
	return e
}

// endedBy returns the time at which a container ended or, if that is not dated, the time by which the node has had long
// enough to end the pod; zero if nothing dates either.
func endedBy(pod *corev1.Pod, container string) time.Time {
	if status := kube.ContainerStatus(pod, container); status != nil && status.State.Terminated != nil &&
		status.State.Terminated.FinishedAt.Unix() > 0 {
		return status.State.Terminated.FinishedAt.Time
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Add(StuckTimeout)
	}
	if target := DisruptionOf(pod); target != nil && !target.At.IsZero() {
		return target.At.Add(kube.GracePeriod(pod) + StuckTimeout)
	}
	return time.Time{}
}

func endingOf(pod *corev1.Pod, container string, seen Seen) Ending {
	// first is the end after which the container could not start any more
	var ended, first *corev1.ContainerStateTerminated
	if status := kube.ContainerStatus(pod, container); status != nil {
		ended = status.State.Terminated
	}
	if first = ended; first == nil {
		if init := FailedInit(pod); init != nil {
			first = init.State.Terminated
		}
	}
	outside := fromOutside(pod, seen)
	if outside.Outside && !endedBefore(pod, first, outside.At) {
		return outside
	}
	switch {
	case ended == nil && pod.Status.Phase != corev1.PodFailed, ended != nil && ended.ExitCode == 0:
		return Ending{}
	case ended == nil:
		return ownEnding(pod, container, nil)
	}
	own := ownEnding(pod, container, ended)
	own.At = ended.FinishedAt.Time
	return own
}

// endedBefore reports whether a container had ended by itself before something came from outside at that time. Times
// have whole seconds: what ended in the same second counts as ended from outside, and so does a container that was
// lost, if nobody knows when. A kubelet may date its reason later than the end that it caused; then only a good end or
// one for lack of memory is the container's own.
func endedBefore(pod *corev1.Pod, ended *corev1.ContainerStateTerminated, at time.Time) bool {
	unproven := ended != nil && wasLost(ended) && ended.FinishedAt.Unix() <= 0
	if ended == nil || at.IsZero() || !ended.FinishedAt.Time.Before(at) || unproven {
		return false
	}
	_, byKubelet := kubeletEndings[pod.Status.Reason]
	return !byKubelet || ended.ExitCode == 0 || ended.Reason == reasonOOMKilled
}

// Clearer reports whether what is seen now says more of an ending than what was seen first. Only a mere deletion can be
// explained later, for example by the loss of the node.
func (e Ending) Clearer(first Ending) bool {
	switch first.Cause {
	case "":
		return e.Cause != ""
	case v1alpha1.LostCausePodDeleted, v1alpha1.LostCauseUnknown:
		return e.Outside && e.Cause != v1alpha1.LostCausePodDeleted
	}
	return false
}

const reasonOOMKilled = "OOMKilled"

// fromOutside returns what ended the pod as a whole.
func fromOutside(pod *corev1.Pod, seen Seen) Ending {
	e := Ending{Outside: true}
	if pod.DeletionTimestamp != nil && !seen.DeletedByUs {
		e.At = pod.DeletionTimestamp.Add(-kube.GracePeriod(pod))
	}
	var what string
	detail := pod.Status.Message
	target := DisruptionOf(pod)
	byKubelet, known := kubeletEndings[pod.Status.Reason]
	switch {
	case target != nil:
		e.Cause, what = target.Cause, target.What
		e.At, detail = kube.EarlierOf(e.At, target.At), cmp.Or(detail, target.Detail)
	case known:
		e.Cause, what = byKubelet.cause, byKubelet.what
	case pod.Status.Reason == reasonDeadlineExceeded:
		e.Cause, what = v1alpha1.LostCauseContainerFailed, "the pod reached its activeDeadlineSeconds"
		e.At = kube.EarlierOf(e.At, deadlineOf(pod))
	case seen.NodeSilent:
		e.Cause, what = v1alpha1.LostCauseNodeLost, "the pod is being deleted and its node does not confirm it"
	case !e.At.IsZero() && seen.Departure != "":
		e.Cause, what = v1alpha1.LostCauseEvicted, "the pod was deleted while its node was about to go away"
		detail = cmp.Or(detail, "the node "+seen.Departure)
	case !e.At.IsZero():
		e.Cause, what = v1alpha1.LostCausePodDeleted, "the pod was deleted by hand, or with its owner or namespace"
	default:
		return Ending{}
	}
	e.Message = onNode(pod, e.Cause, what).Message + words(detail)
	return e
}

// deadlineOf returns the time at which a pod reaches its activeDeadlineSeconds, zero if it has none.
func deadlineOf(pod *corev1.Pod) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

type kubeletEnding struct {
	cause v1alpha1.LostCause
	what  string
}

const nodeShutDown = "the node was shut down"

// kubeletEndings are keyed by the reason that a kubelet, or the controller of its node, gives for the end of a pod that
// ran.
var kubeletEndings = map[string]kubeletEnding{
	reasonEvicted:  {v1alpha1.LostCauseEvicted, "the pod was evicted because its node ran short of a resource"},
	"Preempting":   {v1alpha1.LostCausePreempted, "the pod made room for a critical one"},
	"Preempted":    {v1alpha1.LostCausePreempted, outranked},
	"NodeLost":     {v1alpha1.LostCauseNodeLost, "the node stopped answering"},
	"Terminated":   {v1alpha1.LostCauseNodeLost, nodeShutDown},
	"Shutdown":     {v1alpha1.LostCauseNodeLost, nodeShutDown},
	"NodeShutdown": {v1alpha1.LostCauseNodeLost, nodeShutDown},
}

// ShutDown reports whether the reason of a failed pod says that its node was shut down in good order: its containers
// were told to stop.
func ShutDown(reason string) bool {
	return reason == "TerminationByKubelet" || kubeletEndings[reason].what == nodeShutDown
}

// ownEnding returns the ending of a container that neither exited with 0 nor was ended from outside. It may have ended
// because another container, such as the Docker daemon, ran out of memory.
func ownEnding(pod *corev1.Pod, container string, ended *corev1.ContainerStateTerminated) Ending {
	if ended != nil && ended.Reason == reasonOOMKilled {
		return onNode(pod, v1alpha1.LostCauseOOMKilled, outOfMemory(container))
	}
	if other := killedForMemory(pod, container); other != "" {
		return onNode(pod, v1alpha1.LostCauseOOMKilled, outOfMemory(other))
	}
	switch {
	case ended == nil:
		e := onNode(pod, v1alpha1.LostCauseUnknown, "the pod failed, and nothing says how its container ended")
		e.Message += words(cmp.Or(pod.Status.Message, pod.Status.Reason))
		return e
	case wasLost(ended):
		return onNode(pod, v1alpha1.LostCauseUnknown,
			fmt.Sprintf("container %s was lost, as when its node restarts", container))
	}
	e := onNode(pod, v1alpha1.LostCauseContainerFailed,
		fmt.Sprintf("container %s exited with code %d", container, ended.ExitCode))
	e.Message += words(cmp.Or(ended.Message, ended.Reason))
	return e
}

// wasLost reports whether nobody saw how the container ended: its kubelet or runtime found it dead, or not at all. Such
// an end may have no time, or the beginning of 1970.
func wasLost(ended *corev1.ContainerStateTerminated) bool {
	return ended.Reason == "ContainerStatusUnknown" || ended.Reason == "Unknown"
}

// killedForMemory returns the name of another container that ran out of memory, empty if none did. A sidecar that is
// restarted shows it in its last termination only.
func killedForMemory(pod *corev1.Pod, container string) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			for _, state := range []corev1.ContainerState{statuses[i].State, statuses[i].LastTerminationState} {
				if t := state.Terminated; t != nil && t.Reason == reasonOOMKilled && statuses[i].Name != container {
					return statuses[i].Name
				}
			}
		}
	}
	return ""
}

func outOfMemory(container string) string {
	return fmt.Sprintf("container %s ran out of memory", container)
}

// onNode returns an ending whose message says what happened and where.
func onNode(pod *corev1.Pod, cause v1alpha1.LostCause, what string) Ending {
	if pod.Spec.NodeName != "" {
		what += " (node " + pod.Spec.NodeName + ")"
	}
	return Ending{Cause: cause, Message: what}
}

// words returns what Kubernetes says, to be appended to a message, "" if it says nothing.
func words(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
