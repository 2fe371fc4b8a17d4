package podstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// StuckTimeout after its grace period, a pod that is still being deleted is treated as one whose node is lost. A
// healthy kubelet removes it within a second or two.
const StuckTimeout = 30 * time.Second

// The kubelet's reasons if nothing keeps a container from starting: it is being created, or init containers run first.
const (
	waitingForCreation = "ContainerCreating"
	waitingForInit     = "PodInitializing"
)

// IsUsual reports whether a pending pod's reason says that nothing keeps its container from starting.
func IsUsual(reason string) bool {
	switch reason {
	case "", waitingForCreation, waitingForInit, v1alpha1.ReasonPending:
		return true
	}
	return false
}

// Phase says what a pod means for the one of its containers that matters. The zero value is Missing.
type Phase int

const (
	// Missing: there is no pod.
	Missing Phase = iota
	// Pending: the container has not started yet, and may still.
	Pending
	// Blocked: the kubelet can't start the container but keeps trying, so it may start at any moment.
	Blocked
	// Running: the container runs.
	Running
	// Succeeded: the container exited with 0.
	Succeeded
	// NeverStarted: the pod failed before its container started.
	NeverStarted
	// Failed: the container started, and then failed or was lost.
	Failed
)

// State is a pod's phase and, in Kubernetes' own words, the reason why it is no better.
type State struct {
	Phase Phase
	// ExitCode is the exit code of a container that failed by itself, 0 if it didn't.
	ExitCode        int32
	Ready           bool
	Reason, Message string
	// Passing is set if what blocks the container may be over when the kubelet tries again.
	Passing bool
	// Sidecar describes another container that has died while the container runs; empty if none has.
	Sidecar string
}

// Over reports whether the container has ended and will not start again, or can no longer start.
func (s State) Over() bool {
	switch s.Phase {
	case Succeeded, NeverStarted, Failed:
		return true
	default:
		return false
	}
}

// Started reports whether the container has started, or whether it has can't be told from its pod.
func (s State) Started() bool {
	switch s.Phase {
	case Running, Succeeded, Failed:
		return true
	default:
		return false
	}
}

// Of reads a pod, which may be nil. Only the named container counts: the sidecars depend on its outcome, not the other
// way round. now is by the clock that dated the pod's deletion.
func Of(pod *corev1.Pod, container string, now time.Time) State {
	if pod == nil {
		return State{}
	}
	status := kube.ContainerStatus(pod, container)
	if status != nil && status.State.Terminated != nil {
		return terminated(pod, container, status.State.Terminated)
	}
	started := runs(pod, status)
	if lost, reason, message := podLost(pod, now); lost {
		// The last status from a node that does not answer may predate the start.
		return failed(started || pod.Status.Phase != corev1.PodFailed || collected(pod), reason, message)
	}
	if init := FailedInit(pod); init != nil && !started {
		t := init.State.Terminated
		return failed(false, v1alpha1.ReasonInitContainerFailed,
			fmt.Sprintf("init container %s exited with code %d: %s", init.Name, t.ExitCode, cmp.Or(t.Message, t.Reason)))
	}
	if started {
		ready := kube.PodCondition(pod, corev1.PodReady)
		return State{
			Phase:   Running,
			Ready:   ready != nil && ready.Status == corev1.ConditionTrue,
			Sidecar: deadSidecar(pod, container),
		}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		// Its node does not report how the container ended, as some virtual nodes don't.
		return terminated(pod, container, &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now)})
	}
	if s, found := blocked(pod, status); found {
		return s
	}
	reason, message := whyPending(pod, status)
	return State{Phase: Pending, Reason: reason, Message: message}
}

// Runs reports whether the named container runs.
func Runs(pod *corev1.Pod, container string) bool {
	return runs(pod, kube.ContainerStatus(pod, container))
}

// RunningSince returns the time since which the named container runs, as its node dates it, and no earlier than the
// pod's creation; zero if it doesn't run or its node doesn't say.
func RunningSince(pod *corev1.Pod, container string) time.Time {
	status := kube.ContainerStatus(pod, container)
	if status == nil || status.State.Running == nil || status.State.Running.StartedAt.Unix() <= 0 {
		return time.Time{}
	}
	return kube.LaterOf(status.State.Running.StartedAt.Time, pod.CreationTimestamp.Time)
}

// HasVolumes reports whether a pod's node has attached and mounted all its volumes, as far as its status tells: no
// container starts, and no image is pulled for one, before.
func HasVolumes(pod *corev1.Pod) bool {
	if ready := kube.PodCondition(pod, corev1.PodReadyToStartContainers); ready != nil &&
		ready.Status == corev1.ConditionTrue {
		return true
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			state := &statuses[i].State
			waits := state.Waiting != nil && !IsUsual(state.Waiting.Reason)
			if state.Running != nil || state.Terminated != nil || waits {
				return true
			}
		}
	}
	return false
}

// HasEnded reports whether the named container has ended.
func HasEnded(pod *corev1.Pod, container string) bool {
	status := kube.ContainerStatus(pod, container)
	return status != nil && status.State.Terminated != nil
}

// Alive returns the names of the containers that run, sidecars among the init containers included.
func Alive(pod *corev1.Pod) (names []string) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].State.Running != nil {
				names = append(names, statuses[i].Name)
			}
		}
	}
	return names
}

// IsRunning reports whether a container of the pod has started, and not all have ended.
func IsRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// IsFinished reports whether all containers of the pod have ended and none will start again.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsBlocked reports whether something keeps the kubelet from starting the named container, or an init container before
// it.
func IsBlocked(pod *corev1.Pod, container string) bool {
	_, found := blocked(pod, kube.ContainerStatus(pod, container))
	return found
}

// StartableSince returns the time at which a pod could first start. Time spent waiting for a node does not count.
func StartableSince(pod *corev1.Pod) time.Time {
	scheduled := kube.PodCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue &&
		scheduled.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// AcceptedAt returns the time at which the pod's kubelet accepted it, in whole seconds; until then, the pod's creation.
func AcceptedAt(pod *corev1.Pod) time.Time {
	return ptr.Deref(pod.Status.StartTime, pod.CreationTimestamp).Time
}

// Stuck reports whether the pod hangs in its deletion. now is by the clock that dated the deletion.
func Stuck(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !now.Before(pod.DeletionTimestamp.Add(StuckTimeout))
}

// runs reports whether the container with that status runs. If its status says nothing, as on some virtual nodes, the
// pod's phase decides; a kubelet always says whether a container is waiting.
func runs(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	if status == nil || status.State == (corev1.ContainerState{}) {
		return pod.Status.Phase == corev1.PodRunning
	}
	return status.State.Running != nil
}

// couldNotStart reports whether the container ended because the runtime could not start it. Such a container has no
// start time, or containerd's: the beginning of 1970. But other containers may lack a start time too: one that
// containerd has lost track of (reason Unknown), or the kubelet (ContainerStatusUnknown), and all containers of some
// nodes. So the reason must say it as well.
func couldNotStart(t *corev1.ContainerStateTerminated) bool {
	return t.StartedAt.Unix() <= 0 && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun")
}

// terminated returns the state that follows from the end of the container.
func terminated(pod *corev1.Pod, container string, t *corev1.ContainerStateTerminated) State {
	if couldNotStart(t) {
		return failed(false, t.Reason, t.Message)
	}
	reason, message := Explanation(pod)
	if t.ExitCode == 0 {
		return State{Phase: Succeeded, Reason: reason, Message: message}
	}
	if reason == "" {
		_, words := UsageIn(t.Message)
		reason, message = t.Reason, words
	}
	if message == "" {
		message = fmt.Sprintf("the %s container exited with code %d", container, t.ExitCode)
	}
	s := failed(true, reason, message)
	s.ExitCode = t.ExitCode
	return s
}

func failed(started bool, reason, message string) State {
	if reason == "" {
		reason = "PodFailed"
	}
	phase := NeverStarted
	if started {
		phase = Failed
	}
	return State{Phase: phase, Reason: reason, Message: message}
}

// podLost reports whether the pod failed as a whole, was evicted or rejected, or hangs in its deletion because its node
// is gone.
func podLost(pod *corev1.Pod, now time.Time) (lost bool, reason, message string) {
	if pod.Status.Phase == corev1.PodFailed {
		reason, message = Explanation(pod)
		return true, reason, message
	}
	if Stuck(pod, now) {
		return true, v1alpha1.ReasonNodeLost,
			fmt.Sprintf("the pod is being deleted, but node %s does not confirm it", pod.Spec.NodeName)
	}
	return false, "", ""
}

// collected reports whether the pod was failed by the pod garbage collector because its node is gone, and not by its
// kubelet.
func collected(pod *corev1.Pod) bool {
	disrupted := kube.PodCondition(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == "DeletionByPodGC"
}

// blocked returns what keeps the kubelet from starting the container, or an init container before it, so that another
// pod, perhaps on another node, has a better chance. Call it only for pods whose container has not started.
func blocked(pod *corev1.Pod, status *corev1.ContainerStatus) (s State, found bool) {
	for i := range pod.Status.InitContainerStatuses {
		init := &pod.Status.InitContainerStatuses[i]
		if s, found = blockedBy(init.State.Waiting); found {
			s.Message = initMessage(init.Name, init.State.Waiting)
			return s, true
		}
	}
	if status == nil {
		return State{}, false
	}
	return blockedBy(status.State.Waiting)
}

// blockedBy returns what keeps the kubelet from starting a container. ErrImagePull does not count, because the kubelet
// tries again by itself; after that the reason is ImagePullBackOff. The other causes that may pass keep one name for
// every try.
func blockedBy(waiting *corev1.ContainerStateWaiting) (s State, found bool) {
	if waiting == nil {
		return State{}, false
	}
	s = State{Phase: Blocked, Reason: waiting.Reason, Message: waiting.Message}
	switch s.Reason {
	case "CreateContainerConfigError", "CreateContainerError":
		s.Passing = true
		return s, true
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return s, true
	default:
		return State{}, false
	}
}

// initMessage says which init container waits, and for what.
func initMessage(container string, waiting *corev1.ContainerStateWaiting) string {
	return fmt.Sprintf("init container %s: %s", container, cmp.Or(waiting.Message, waiting.Reason))
}

// deadSidecar describes another container that has failed, which may make the job fail; empty if none has. The kubelet
// restarts a sidecar that is an init container, so only its last termination shows.
func deadSidecar(pod *corev1.Pod, container string) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			t := status.State.Terminated
			if t == nil {
				t = status.LastTerminationState.Terminated
			}
			if t != nil && t.ExitCode != 0 && status.Name != container {
				return fmt.Sprintf("container %s exited with code %d (%s) while the %s keeps running", status.Name, t.ExitCode,
					t.Reason, container)
			}
		}
	}
	return ""
}

// whyPending returns the scheduler's or kubelet's own reason why the container does not run yet.
func whyPending(pod *corev1.Pod, status *corev1.ContainerStatus) (reason, message string) {
	if reason, message := WhyUnplaced(pod); reason != "" {
		return reason, message
	}
	for i := range pod.Status.InitContainerStatuses {
		init := &pod.Status.InitContainerStatuses[i]
		if waiting := init.State.Waiting; waiting != nil && waiting.Reason != waitingForInit {
			return waiting.Reason, initMessage(init.Name, waiting) + lastEnd(init)
		}
	}
	if status != nil && status.State.Waiting != nil {
		return status.State.Waiting.Reason, status.State.Waiting.Message + lastEnd(status)
	}
	return v1alpha1.ReasonPending, "the pod has not started yet"
}

// quotedGates limits the scheduling gates that a message names.
const quotedGates = 3

// WhyUnplaced returns why a pod has no node, "" if it has one or nobody has looked yet. Gates come first, and by their
// names: the API server only says that there are some, and each belongs to somebody who lets the pod through, such as a
// queue.
func WhyUnplaced(pod *corev1.Pod) (reason, message string) {
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 && pod.Spec.NodeName == "" {
		var names []string
		for _, gate := range gates[:min(len(gates), quotedGates)] {
			names = append(names, gate.Name)
		}
		if len(gates) > quotedGates {
			names = append(names, fmt.Sprintf("%d more", len(gates)-quotedGates))
		}
		return corev1.PodReasonSchedulingGated, "the pod waits for whoever set its scheduling gate " +
			strings.Join(names, ", ")
	}
	if scheduled := kube.PodCondition(pod, corev1.PodScheduled); scheduled != nil &&
		scheduled.Status == corev1.ConditionFalse {
		if isUnbound(scheduled) {
			return v1alpha1.ReasonVolumeUnbound, scheduled.Message
		}
		return scheduled.Reason, scheduled.Message
	}
	return "", ""
}

// unbound are the scheduler's words for a pod whose claim has no volume, whatever nodes there are: one that is to be bound
// at once and isn't, also because its StorageClass doesn't exist or there is none, and one of a generic ephemeral volume
// that doesn't exist yet. Nothing else in a pod tells that from a cluster without room; the claim's Event has the cause.
var unbound = []string{"unbound immediate PersistentVolumeClaims",
	"waiting for ephemeral volume controller to create the persistentvolumeclaim"}

func isUnbound(scheduled *corev1.PodCondition) bool {
	return scheduled.Reason == corev1.PodReasonUnschedulable && slices.ContainsFunc(unbound, func(words string) bool {
		return strings.Contains(scheduled.Message, words)
	})
}

// WhyUnable returns what keeps a pending pod from running, in whichever container, "" if it is just starting or being
// deleted.
func WhyUnable(pod *corev1.Pod) (reason, message string) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending {
		return "", ""
	}
	if reason, message := WhyUnplaced(pod); reason != "" {
		return reason, message
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && !IsUsual(waiting.Reason) {
				return waiting.Reason, cmp.Or(waiting.Message, waiting.Reason) + lastEnd(&statuses[i])
			}
		}
	}
	return "", ""
}

// maxLastWords limits the characters of a container's own words in a message.
const maxLastWords = 300

// lastEnd says how a container ended that is to start again, to be appended to a message, with the last line of what it
// said as far as the kubelet has it: a Docker daemon that can't start says why. Empty if it hasn't ended.
func lastEnd(status *corev1.ContainerStatus) string {
	ended := status.LastTerminationState.Terminated
	if ended == nil {
		return ""
	}
	_, said := UsageIn(ended.Message)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return fmt.Sprintf("; it last ended with code %d", ended.ExitCode) +
		words(string(last[:min(len(last), maxLastWords)]))
}
