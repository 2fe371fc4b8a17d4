package fakenode

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeAddress is the address of every pod and of the node: programs run on this machine and listen there.
const nodeAddress = "127.0.0.1"

// killedExitCode is 128 + SIGKILL.
const killedExitCode = 137

// outcome ends a pod regardless of its containers: rejection, eviction.
type outcome struct {
	reason, message string
	disruption      bool // sets the condition DisruptionTarget
}

// view is everything that determines a pod's status.
type view struct {
	pod        *corev1.Pod
	containers map[string]corev1.ContainerStatus
	outcome    *outcome
	stopped    bool // no container starts any more
	scheduled  bool
	sandbox    bool // volumes are mounted, so that containers may start
	unplaced   string
	started    metav1.Time
	previous   []corev1.PodCondition
	now        metav1.Time
}

// isSidecar reports whether an init container runs beside the other containers instead of before them.
func isSidecar(container corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restartWanted reports whether a container with this restart policy is restarted after the exit code.
func restartWanted(policy corev1.RestartPolicy, exitCode int) bool {
	return policy == corev1.RestartPolicyAlways || (policy == corev1.RestartPolicyOnFailure && exitCode != 0)
}

// status composes what a kubelet would report.
func (v view) status() corev1.PodStatus {
	if !v.scheduled {
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: v.conditions(corev1.PodPending)}
	}
	phase := v.phase()
	status := corev1.PodStatus{
		Phase: phase, Conditions: v.conditions(phase), StartTime: &v.started, QOSClass: v.pod.Status.QOSClass,
		HostIP: nodeAddress, HostIPs: []corev1.HostIP{{IP: nodeAddress}},
		InitContainerStatuses: v.containerStatuses(v.pod.Spec.InitContainers),
		ContainerStatuses:     v.containerStatuses(v.pod.Spec.Containers),
	}
	if v.outcome != nil {
		status.Reason, status.Message = v.outcome.reason, v.outcome.message
	}
	if phase != corev1.PodPending {
		status.PodIP, status.PodIPs = nodeAddress, []corev1.PodIP{{IP: nodeAddress}}
	}
	return status
}

// containerStatuses keeps the order of the spec. A container that the node has not looked at yet has no status.
func (v view) containerStatuses(containers []corev1.Container) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, 0, len(containers))
	for _, container := range containers {
		if status, known := v.containers[container.Name]; known {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// phase follows the kubelet's rules: Pending until every container has started for the first time, then Running until
// the last one that is not restarted has ended, sidecars included.
func (v view) phase() corev1.PodPhase {
	if v.outcome != nil {
		return corev1.PodFailed
	}
	failed := false
	for _, container := range v.pod.Spec.InitContainers {
		if ended := v.containers[container.Name].State.Terminated; ended != nil && !isSidecar(container) &&
			ended.ExitCode != 0 {
			failed = true
		}
	}
	if failed && (v.stopped || v.pod.Spec.RestartPolicy == corev1.RestartPolicyNever) {
		return corev1.PodFailed
	}
	return v.mainPhase()
}

// mainPhase returns the phase of a pod whose init containers may still succeed.
func (v view) mainPhase() corev1.PodPhase {
	started, live, failed := true, false, false
	for _, container := range v.pod.Spec.Containers {
		status := v.containers[container.Name]
		switch ended := status.State.Terminated; {
		case ended != nil:
			failed = failed || ended.ExitCode != 0
			live = live || (!v.stopped && restartWanted(v.pod.Spec.RestartPolicy, int(ended.ExitCode)))
		case status.State.Running != nil || status.LastTerminationState.Terminated != nil:
			live = true
		default:
			started = false
		}
	}
	if !started && !v.stopped {
		return corev1.PodPending
	}
	if started && (live || v.sidecarRuns()) {
		return corev1.PodRunning
	}
	// A pod that was stopped before it had started counts as failed.
	if failed || !started {
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func (v view) sidecarRuns() bool {
	for _, container := range v.pod.Spec.InitContainers {
		if isSidecar(container) && v.containers[container.Name].State.Running != nil {
			return true
		}
	}
	return false
}

// initialized reports whether init containers have exited 0 and sidecars have started (and may have ended since).
func (v view) initialized() bool {
	for _, container := range v.pod.Spec.InitContainers {
		status := v.containers[container.Name]
		ended := status.State.Terminated
		done := ended != nil && ended.ExitCode == 0
		if isSidecar(container) {
			done = ended != nil || (status.Started != nil && *status.Started)
		}
		if !done {
			return false
		}
	}
	return true
}

func (v view) ready() bool {
	for _, container := range v.pod.Spec.Containers {
		if !v.containers[container.Name].Ready {
			return false
		}
	}
	return true
}

// conditions composes the conditions. Those that don't change keep their transition time.
func (v view) conditions(phase corev1.PodPhase) []corev1.PodCondition {
	if !v.scheduled {
		return []corev1.PodCondition{v.condition(corev1.PodScheduled, false, corev1.PodReasonUnschedulable, v.unplaced)}
	}
	notReady := "ContainersNotReady"
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		notReady = "PodCompleted"
	}
	ready := phase == corev1.PodRunning && v.ready()
	conditions := []corev1.PodCondition{
		v.condition(corev1.PodScheduled, true, "", ""),
		v.condition(corev1.PodReadyToStartContainers, v.sandbox && notReady != "PodCompleted", "", ""),
		v.condition(corev1.PodInitialized, v.initialized(), "ContainersNotInitialized", ""),
		v.condition(corev1.ContainersReady, ready, notReady, ""),
		v.condition(corev1.PodReady, ready, notReady, ""),
	}
	if v.outcome != nil && v.outcome.disruption {
		disrupted := v.condition(corev1.DisruptionTarget, true, "", v.outcome.message)
		disrupted.Reason = corev1.PodReasonTerminationByKubelet
		conditions = append(conditions, disrupted)
	}
	return conditions
}

// condition composes one condition. Its reason is used only if the condition does not hold.
func (v view) condition(kind corev1.PodConditionType, holds bool, reason, message string) corev1.PodCondition {
	condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Message: message,
		LastTransitionTime: v.now}
	if !holds {
		condition.Status, condition.Reason = corev1.ConditionFalse, reason
	}
	for _, previous := range v.previous {
		if previous.Type == kind && previous.Status == condition.Status {
			condition.LastTransitionTime = previous.LastTransitionTime
		}
	}
	return condition
}
