package ephemeralrunner

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// exitCodeOutdated is the runner's exit code when GitHub refuses its version. The runner uses it only with
// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1.
const exitCodeOutdated = 7

// stuckAfter is how long after its grace period a pod that is being deleted may stay before its node is taken for
// lost. A kubelet that works removes it within a second or two.
const stuckAfter = 30 * time.Second

// The kubelet's reasons while nothing keeps a container from starting: it is being created, or init containers come first.
const (
	waitingForCreation = "ContainerCreating"
	waitingForInit     = "PodInitializing"
)

// podState is what a pod means for its runner.
type podState int

const (
	// podMissing: there is no pod.
	podMissing podState = iota
	// podPending: the runner container has not started yet, and may still.
	podPending
	// podBlocked: the kubelet can't start the runner container, but keeps trying: it may start at any moment.
	podBlocked
	// podRunning: the runner container runs.
	podRunning
	// podSucceeded: the runner container exited with 0, which means "finished or refused", not "the job succeeded".
	podSucceeded
	// podOutdated: it exited with 7.
	podOutdated
	// podNeverStarted: the pod failed before the runner container had started, so its JIT config is unused.
	podNeverStarted
	// podFailed: the runner container had started, and failed or was lost.
	podFailed
)

// outcome is a pod's state with the reason, in Kubernetes' own words, why it is no better.
type outcome struct {
	state           podState
	ready           bool
	reason, message string
	// passing is set when what blocks the container may be over when the kubelet tries again.
	passing bool
	// disrupted is set when the end came from outside the runner: its pod was evicted, preempted, deleted, past its deadline, or
	// lost with its node.
	disrupted bool
	// sidecar says which other container has died while the runner container runs; empty where none has.
	sidecar string
}

// over reports whether the runner container will not run any more.
func (o outcome) over() bool {
	switch o.state {
	case podSucceeded, podOutdated, podNeverStarted, podFailed:
		return true
	default:
		return false
	}
}

// outcomeOf reads a pod, which may be nil. Only the container named runner counts: what becomes of it decides about
// the sidecars.
func outcomeOf(pod *corev1.Pod, now time.Time) outcome {
	if pod == nil {
		return outcome{state: podMissing}
	}
	status := runnerStatus(pod)
	if status != nil && status.State.Terminated != nil {
		return terminated(pod, status.State.Terminated)
	}
	started := isRunning(pod, status)
	if lost, reason, message := podLost(pod, now); lost {
		// The last status from a node that does not answer may be older than the start.
		ended := failed(started || pod.Status.Phase != corev1.PodFailed || collected(pod), reason, message)
		ended.disrupted = reason != ""
		return ended
	}
	if reason, message, found := initFailure(pod); found && !started {
		return failed(false, reason, message)
	}
	if started {
		return outcome{state: podRunning, ready: isReady(pod), sidecar: deadSidecar(pod)}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		// Its node does not say how, as some virtual ones don't.
		return terminated(pod, &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now)})
	}
	if o, found := blocked(pod, status); found {
		return o
	}
	reason, message := whyPending(pod, status)
	return outcome{state: podPending, reason: reason, message: message}
}

func runnerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	return kube.ContainerStatus(pod, v1alpha1.RunnerContainerName)
}

// isRunning reports whether the runner container runs. Where nothing is said of it, as on some virtual nodes, the pod's
// phase decides; a kubelet always says whether it waits.
func isRunning(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	if status == nil || status.State == (corev1.ContainerState{}) {
		return pod.Status.Phase == corev1.PodRunning
	}
	return status.State.Running != nil
}

// couldNotStart reports whether the container ended because the runtime could not start it. It then has no time of start,
// or containerd's: the beginning of 1970. Others lack the time, too: containerd calls one that it has lost track of
// Unknown, the kubelet ContainerStatusUnknown, and some nodes never give it. So only a reason that says it counts.
func couldNotStart(t *corev1.ContainerStateTerminated) bool {
	return t.StartedAt.Unix() <= 0 && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun")
}

// terminated reads how the runner container ended.
func terminated(pod *corev1.Pod, t *corev1.ContainerStateTerminated) outcome {
	switch {
	case couldNotStart(t):
		return failed(false, t.Reason, t.Message)
	case t.ExitCode == 0:
		reason, message := interruption(pod, t)
		return outcome{state: podSucceeded, disrupted: reason != "", reason: reason, message: message}
	case t.ExitCode == exitCodeOutdated:
		return outcome{state: podOutdated, reason: "Outdated",
			message: fmt.Sprintf("GitHub refuses the runner version in image %s", kube.Image(&pod.Spec, v1alpha1.RunnerContainerName))}
	}
	reason, message := causeOf(pod)
	whole := reason != ""
	if !whole {
		reason, message = t.Reason, t.Message
	}
	if message == "" {
		message = fmt.Sprintf("the runner container exited with code %d", t.ExitCode)
	}
	ended := failed(true, reason, message)
	ended.disrupted = whole
	return ended
}

func failed(started bool, reason, message string) outcome {
	if reason == "" {
		reason = "PodFailed"
	}
	state := podNeverStarted
	if started {
		state = podFailed
	}
	return outcome{state: state, reason: reason, message: message}
}

// podLost reports whether the pod failed as a whole, was evicted or rejected, or hangs in its deletion because its
// node is gone.
func podLost(pod *corev1.Pod, now time.Time) (lost bool, reason, message string) {
	if pod.Status.Phase == corev1.PodFailed {
		reason, message = causeOf(pod)
		return true, reason, message
	}
	if stuck(pod, now) {
		return true, v1alpha1.ReasonNodeLost, fmt.Sprintf("the pod is being deleted, but node %s does not confirm it", pod.Spec.NodeName)
	}
	return false, "", ""
}

// stuck reports whether the pod hangs in its deletion. now is by the clock that dated the deletion: see
// memory.apiServerTime.
func stuck(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !now.Before(pod.DeletionTimestamp.Add(stuckAfter))
}

// causeOf returns why the pod as a whole was ended, in the words of what ended it: a kubelet, the scheduler, an
// eviction.
func causeOf(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Reason != "" {
		return pod.Status.Reason, pod.Status.Message
	}
	if disrupted := kube.PodCondition(pod, corev1.DisruptionTarget); disrupted != nil && disrupted.Status == corev1.ConditionTrue {
		return disrupted.Reason, disrupted.Message
	}
	return "", ""
}

// interruption returns why a container that exited with 0 did not do so of its own accord, empty where it did. Times
// have whole seconds: a container that ends in the second in which its pod is deleted counts as told to.
func interruption(pod *corev1.Pod, t *corev1.ContainerStateTerminated) (reason, message string) {
	if reason, message = causeOf(pod); reason != "" || pod.DeletionTimestamp == nil {
		return reason, message
	}
	if t.FinishedAt.Time.Before(pod.DeletionTimestamp.Add(-kube.GracePeriod(pod))) {
		return "", ""
	}
	return v1alpha1.ReasonPodLost, "the pod was deleted before the runner had a job"
}

// collected reports whether the pod was failed not by its kubelet but by the garbage collector, because its node is
// gone.
func collected(pod *corev1.Pod) bool {
	disrupted := kube.PodCondition(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == "DeletionByPodGC"
}

// blocked returns what keeps the kubelet from starting the runner container, or an init container before it, so that
// another pod, perhaps on another node, is the better try. It is for pods whose runner container has not started.
func blocked(pod *corev1.Pod, status *corev1.ContainerStatus) (o outcome, found bool) {
	for i := range pod.Status.InitContainerStatuses {
		init := &pod.Status.InitContainerStatuses[i]
		if o, found = blockedBy(init.State.Waiting); found {
			o.message = initMessage(init.Name, init.State.Waiting)
			return o, true
		}
	}
	if status == nil {
		return outcome{}, false
	}
	return blockedBy(status.State.Waiting)
}

// blockedBy returns what keeps the kubelet from starting a container. ErrImagePull is left to the kubelet's own second try,
// which is called ImagePullBackOff; the other causes that may pass have one name for every try.
func blockedBy(waiting *corev1.ContainerStateWaiting) (o outcome, found bool) {
	if waiting == nil {
		return outcome{}, false
	}
	o = outcome{state: podBlocked, reason: waiting.Reason, message: waiting.Message}
	switch o.reason {
	case "CreateContainerConfigError", "CreateContainerError":
		o.passing = true
		return o, true
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return o, true
	default:
		return outcome{}, false
	}
}

// initMessage says which init container waits, and for what.
func initMessage(container string, waiting *corev1.ContainerStateWaiting) string {
	return fmt.Sprintf("init container %s: %s", container, cmp.Or(waiting.Message, waiting.Reason))
}

// deadSidecar describes another container that has failed, which may be why the job fails; empty where none has. One
// that is an init container is started again by the kubelet, and only its last termination shows.
func deadSidecar(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			t := status.State.Terminated
			if t == nil {
				t = status.LastTerminationState.Terminated
			}
			if t != nil && t.ExitCode != 0 && status.Name != v1alpha1.RunnerContainerName {
				return fmt.Sprintf("container %s exited with code %d (%s) while the runner goes on", status.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return ""
}

// initFailure returns how an init container failed that is not started again.
func initFailure(pod *corev1.Pod) (reason, message string, found bool) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 && !restartable(pod, status.Name) {
			return v1alpha1.ReasonInitContainerFailed, fmt.Sprintf("init container %s exited with code %d: %s",
				status.Name, t.ExitCode, cmp.Or(t.Message, t.Reason)), true
		}
	}
	return "", "", false
}

// restartable reports whether the kubelet may start an init container again: it is a sidecar, or has a restart policy of its own.
// Where its rules say otherwise for this exit code, the pod as a whole fails.
func restartable(pod *corev1.Pod, initContainer string) bool {
	for i := range pod.Spec.InitContainers {
		if container := &pod.Spec.InitContainers[i]; container.Name == initContainer {
			policy := ptr.Deref(container.RestartPolicy, corev1.ContainerRestartPolicyNever)
			return policy != corev1.ContainerRestartPolicyNever || len(container.RestartPolicyRules) > 0
		}
	}
	return false
}

// whyPending returns the scheduler's or the kubelet's own reason why the runner container does not run yet.
func whyPending(pod *corev1.Pod, status *corev1.ContainerStatus) (reason, message string) {
	if scheduled := kube.PodCondition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return scheduled.Reason, scheduled.Message
	}
	for i := range pod.Status.InitContainerStatuses {
		init := &pod.Status.InitContainerStatuses[i]
		if waiting := init.State.Waiting; waiting != nil && waiting.Reason != waitingForInit {
			return waiting.Reason, initMessage(init.Name, waiting)
		}
	}
	if status != nil && status.State.Waiting != nil {
		return status.State.Waiting.Reason, status.State.Waiting.Message
	}
	return v1alpha1.ReasonPending, "the pod has not started yet"
}

func isReady(pod *corev1.Pod) bool {
	ready := kube.PodCondition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}
