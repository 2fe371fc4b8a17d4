package ephemeralrunner

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// exitCodeOutdated is the runner's exit code if GitHub refuses its version. The runner uses it only with
// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1.
const exitCodeOutdated = 7

// stuckAfter is how long after its grace period a pod that is being deleted may stay before its node is treated as lost. A
// healthy kubelet removes it within a second or two.
const stuckAfter = 30 * time.Second

// The kubelet's reasons if nothing keeps a container from starting: it is being created, or init containers run first.
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
	// podBlocked: the kubelet can't start the runner container but keeps trying, so it may start at any moment.
	podBlocked
	// podRunning: the runner container runs.
	podRunning
	// podSucceeded: the runner container exited with 0, which means "finished or refused", not "the job succeeded".
	podSucceeded
	// podOutdated: the runner container exited with 7.
	podOutdated
	// podNeverStarted: the pod failed before its runner container started, so the JIT config is unused.
	podNeverStarted
	// podFailed: the runner container started, and then failed or was lost.
	podFailed
)

// outcome is a pod's state and, in Kubernetes' own words, the reason why it is no better.
type outcome struct {
	state           podState
	ready           bool
	reason, message string
	// passing is set if what blocks the container may be over when the kubelet tries again.
	passing bool
	// outside is set if the end came from outside the runner, and fault says whose fault it is: see podstatus.Ending.
	outside bool
	fault   podstatus.Fault
	// sidecar describes another container that has died while the runner container runs; empty if none has.
	sidecar string
}

// over reports whether the runner container has ended for good or can no longer start.
func (o outcome) over() bool {
	switch o.state {
	case podSucceeded, podOutdated, podNeverStarted, podFailed:
		return true
	default:
		return false
	}
}

// outcomeOf reads a pod, which may be nil. Only the container named runner counts: the sidecars depend on its outcome, not
// the other way round.
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
		// The last status from a node that does not answer may predate the start.
		return failed(started || pod.Status.Phase != corev1.PodFailed || collected(pod), reason, message)
	}
	if init := podstatus.FailedInit(pod); init != nil && !started {
		t := init.State.Terminated
		return failed(false, v1alpha1.ReasonInitContainerFailed,
			fmt.Sprintf("init container %s exited with code %d: %s", init.Name, t.ExitCode, cmp.Or(t.Message, t.Reason)))
	}
	if started {
		return outcome{state: podRunning, ready: isReady(pod), sidecar: deadSidecar(pod)}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		// Its node does not report how the container ended, as some virtual nodes don't.
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

// isRunning reports whether the runner container runs. If its status says nothing, as on some virtual nodes, the pod's phase
// decides; a kubelet always says whether a container is waiting.
func isRunning(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	if status == nil || status.State == (corev1.ContainerState{}) {
		return pod.Status.Phase == corev1.PodRunning
	}
	return status.State.Running != nil
}

// couldNotStart reports whether the container ended because the runtime could not start it. Such a container has no start
// time, or containerd's: the beginning of 1970. But other containers may lack a start time too: one that containerd has lost
// track of (reason Unknown), or the kubelet (ContainerStatusUnknown), and all containers of some nodes. So the reason must
// say it as well.
func couldNotStart(t *corev1.ContainerStateTerminated) bool {
	return t.StartedAt.Unix() <= 0 && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun")
}

// terminated reads how the runner container ended.
func terminated(pod *corev1.Pod, t *corev1.ContainerStateTerminated) outcome {
	switch {
	case couldNotStart(t):
		return failed(false, t.Reason, t.Message)
	case t.ExitCode == 0:
		reason, message := podstatus.Explanation(pod)
		return outcome{state: podSucceeded, reason: reason, message: message}
	case t.ExitCode == exitCodeOutdated:
		return outcome{state: podOutdated, reason: "Outdated",
			message: fmt.Sprintf("GitHub refuses the runner version in image %s", kube.Image(&pod.Spec, v1alpha1.RunnerContainerName))}
	}
	reason, message := podstatus.Explanation(pod)
	if reason == "" {
		reason, message = t.Reason, t.Message
	}
	if message == "" {
		message = fmt.Sprintf("the runner container exited with code %d", t.ExitCode)
	}
	return failed(true, reason, message)
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

// podLost reports whether the pod failed as a whole, was evicted or rejected, or hangs in its deletion because its node is
// gone.
func podLost(pod *corev1.Pod, now time.Time) (lost bool, reason, message string) {
	if pod.Status.Phase == corev1.PodFailed {
		reason, message = podstatus.Explanation(pod)
		return true, reason, message
	}
	if stuck(pod, now) {
		return true, v1alpha1.ReasonNodeLost, fmt.Sprintf("the pod is being deleted, but node %s does not confirm it", pod.Spec.NodeName)
	}
	return false, "", ""
}

// stuck reports whether the pod hangs in its deletion. now is by the clock that dated the deletion: see memory.apiServerTime.
func stuck(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !now.Before(pod.DeletionTimestamp.Add(stuckAfter))
}

// collected reports whether the pod was failed by the pod garbage collector because its node is gone, and not by its kubelet.
func collected(pod *corev1.Pod) bool {
	disrupted := kube.PodCondition(pod, corev1.DisruptionTarget)
	return disrupted != nil && disrupted.Reason == "DeletionByPodGC"
}

// blocked returns what keeps the kubelet from starting the runner container, or an init container before it, so that another
// pod, perhaps on another node, has a better chance. Call it only for pods whose runner container has not started.
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

// blockedBy returns what keeps the kubelet from starting a container. ErrImagePull does not count, because the kubelet tries
// again by itself; after that the reason is ImagePullBackOff. The other causes that may pass keep one name for every try.
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

// deadSidecar describes another container that has failed, which may be why the job fails; empty if none has. The kubelet
// restarts a sidecar that is an init container, so only its last termination shows.
func deadSidecar(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			t := status.State.Terminated
			if t == nil {
				t = status.LastTerminationState.Terminated
			}
			if t != nil && t.ExitCode != 0 && status.Name != v1alpha1.RunnerContainerName {
				return fmt.Sprintf("container %s exited with code %d (%s) while the runner keeps running", status.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return ""
}

// whyPending returns the scheduler's or kubelet's own reason why the runner container does not run yet.
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
