package podstatus

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Fault says whose fault it is that a pod ended before its runner had a job.
type Fault int

const (
	// FaultTemplate: the template has what ended the pod, such as its image, a command or a limit, or nothing shows
	// another cause. Further pods will probably end like this one.
	FaultTemplate Fault = iota
	// FaultCluster: the pod's node refused the pod for lack of something that the scheduler thought the node had, or did
	// nothing with the pod. Further pods may be refused as well, whatever the template says.
	FaultCluster
	// FaultDisruption: somebody took away a pod, or its node, that was in order. That says nothing about further pods.
	FaultDisruption
)

const (
	reasonEvicted          = "Evicted"
	reasonDeadlineExceeded = "DeadlineExceeded"
)

// faultOf says whose fault an ending is: from what ended the pod, and not from how long it ran.
func faultOf(pod *corev1.Pod, container string, e Ending) Fault {
	status := kube.ContainerStatus(pod, container)
	switch {
	case pod.Status.Phase == corev1.PodFailed && Refused(pod.Status.Reason):
		return FaultCluster
	case e.Outside && (pod.Status.Reason == reasonDeadlineExceeded || overItsLimit(pod)):
		return FaultTemplate
	case e.Outside, status != nil && status.State.Terminated != nil && e.Cause == v1alpha1.LostCauseUnknown:
		// as when its node restarts
		return FaultDisruption
	default:
		return FaultTemplate
	}
}

// refusals are the reasons for which a kubelet refuses a pod because of the state of its node; see Refused for reasons
// with the name of a resource. Reasons for which a kubelet refuses every pod of the template, such as SysctlForbidden,
// aren't here.
var refusals = sets.New(
	"UnexpectedAdmissionError", // usually by a device plugin
	"TopologyAffinityError",    // no NUMA node has enough left
	"NodeAffinity", "NodeName", "NodePorts", "TaintToleration",
	"InvalidNodeInfo", "UnknownReason", "UnexpectedPredicateFailureType",
)

// Refused reports whether the reason of a failed pod says that a kubelet refused it because of the state of its node.
// The resource of which a node has too little is part of the reason: OutOfcpu, OutOfpods, OutOfexample.com/gpu.
func Refused(reason string) bool { return refusals.Has(reason) || strings.HasPrefix(reason, "OutOf") }

// overItsLimit reports whether a kubelet evicted the pod because it used more local storage than it may by its own
// limits. The kubelet sets no DisruptionTarget then, but it does if its node runs short. It sets none either on a pod
// that it refuses because the node is short, but nothing of such a pod has started.
func overItsLimit(pod *corev1.Pod) bool {
	return pod.Status.Reason == reasonEvicted && kube.PodCondition(pod, corev1.DisruptionTarget) == nil &&
		anyStarted(pod) && limitsStorage(&pod.Spec)
}

func anyStarted(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.State.Running != nil || s.State.Terminated != nil ||
				s.LastTerminationState.Terminated != nil {
				return true
			}
		}
	}
	return false
}

// limitsStorage reports whether a pod has a limit on the local storage of a container or of an emptyDir.
func limitsStorage(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if _, limited := containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]; limited {
				return true
			}
		}
	}
	for i := range spec.Volumes {
		if volume := spec.Volumes[i].EmptyDir; volume != nil && volume.SizeLimit != nil {
			return true
		}
	}
	return false
}

// Explanation returns why the pod as a whole was ended, in the words of whoever ended it: kubelet, scheduler or an
// eviction.
func Explanation(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Reason != "" {
		return pod.Status.Reason, pod.Status.Message
	}
	if disrupted := DisruptionOf(pod); disrupted != nil {
		return disrupted.Reason, cmp.Or(disrupted.Detail, disrupted.What)
	}
	return "", ""
}

// FailedInit returns the status of an init container that failed and won't be restarted, nil if there is none.
func FailedInit(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 && !restartable(pod, status.Name) {
			return status
		}
	}
	return nil
}

// restartable reports whether the kubelet may restart an init container: it is a sidecar, or has a restart policy of
// its own. If its rules say otherwise for this exit code, the pod as a whole fails.
func restartable(pod *corev1.Pod, initContainer string) bool {
	for i := range pod.Spec.InitContainers {
		if container := &pod.Spec.InitContainers[i]; container.Name == initContainer {
			policy := ptr.Deref(container.RestartPolicy, corev1.ContainerRestartPolicyNever)
			return policy != corev1.ContainerRestartPolicyNever || len(container.RestartPolicyRules) > 0
		}
	}
	return false
}
