package kube

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// LivePod reads the pod from the API server, through its status subresource, and returns nil if that very pod is gone.
// Use it before an irreversible step that a stale cache could get wrong. If reading is forbidden (the Role lacks get on
// pods/status, or Helm has just deleted it), it returns known, the cached pod.
func LivePod(ctx context.Context, c client.SubResourceClientConstructor, known *corev1.Pod) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	switch err := c.SubResource("status").Get(ctx, known, live); {
	case apierrors.IsForbidden(err):
		return known, nil
	case apierrors.IsNotFound(err) || (err == nil && live.UID != known.UID):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the status of pod %s: %w", known.Name, err)
	default:
		return live, nil
	}
}

// NoRunnerContainer is the message about a template whose pod would never receive its JIT config.
const NoRunnerContainer = "the pod template has no container named " + v1alpha1.RunnerContainerName +
	", so no container would receive the registration: in spec.template of the AutoscalingRunnerSet, name the " +
	"container that runs the runner \"" + v1alpha1.RunnerContainerName + "\""

// Container returns the container of a pod by its name, nil if there is none.
func Container(spec *corev1.PodSpec, name string) *corev1.Container {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Containers[i]
}

// Image returns the image of a container for a message, "(none)" if there is no such container.
func Image(spec *corev1.PodSpec, name string) string {
	if container := Container(spec, name); container != nil {
		return container.Image
	}
	return "(none)"
}

// ContainerStatus returns what the kubelet reports about a container, nil if it hasn't reported yet. Nothing is copied,
// because every event of a pod leads here.
func ContainerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// PodCondition returns a pod's condition, nil if it has none of the type.
func PodCondition(pod *corev1.Pod, about corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == about {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// UnwritableWork returns the reason why the container may be unable to write its work folder, with what to do about it,
// "" if nothing suggests it: the folder is on a volume that may belong to root, and the container doesn't run as root.
func UnwritableWork(spec *corev1.PodSpec, name string) string {
	container := Container(spec, name)
	if container == nil {
		return ""
	}
	pod := ptr.Deref(spec.SecurityContext, corev1.PodSecurityContext{})
	own := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	if user := cmp.Or(own.RunAsUser, pod.RunAsUser); user != nil && *user == 0 {
		return ""
	}
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == volume.Name && path.Base(m.MountPath) == "_work"
		})
		claim := volume.Ephemeral != nil || volume.PersistentVolumeClaim != nil
		switch {
		case mounted && claim && pod.FSGroup == nil:
			return fmt.Sprintf(
				"if volume %s belongs to root, the runner can't write its work folder: set "+
					"template.spec.securityContext.fsGroup, to 1001 for GitHub's image",
				volume.Name,
			)
		case mounted && volume.HostPath != nil:
			return fmt.Sprintf("if volume %s belongs to root, the runner can't write its work folder: change its "+
				"owner on the node or in an init container, because Kubernetes sets no fsGroup on a hostPath",
				volume.Name)
		}
	}
	return ""
}

// GracePeriod returns the grace period of a pod that is being deleted, zero if it has none. The deletion began that
// long before deletionTimestamp.
func GracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
}

// Termination returns the time by which a pod that is being deleted should be gone, and the finalizers that it waits
// for. It returns zero and nil for any other pod.
func Termination(pod *corev1.Pod) (due time.Time, finalizers []string) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	return pod.DeletionTimestamp.Time, pod.Finalizers
}

// WhyTerminating names what keeps a pod that is being deleted and should be gone, and what to do about it.
func WhyTerminating(pod string, due time.Time, finalizers []string) string {
	since := due.UTC().Format(time.RFC3339)
	if len(finalizers) == 0 {
		return fmt.Sprintf("pod %s should have been gone by %s: delete it with --force if its node is gone", pod, since)
	}
	return fmt.Sprintf("pod %s should have been gone by %s, but its finalizers %s keep it: find out why the program "+
		"that set them doesn't remove them; if there is no such program any more, remove them from the pod's "+
		"metadata: "+
		`kubectl patch pod %s --type merge --patch '{"metadata":{"finalizers":null}}' in its namespace`,
		pod, since, quoteFinalizers(finalizers), pod)
}

// Variables of the runner container: the container hooks that run a job's containers as pods, the file that they merge
// into these pods, and the claim with the work directory that these mount; without it they mount the one that Kubernetes
// makes for the runner's volume work.
const (
	EnvContainerHooks = "ACTIONS_RUNNER_CONTAINER_HOOKS"
	EnvHookTemplate   = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"
	EnvWorkClaim      = "ACTIONS_RUNNER_CLAIM_NAME"
)

// What the hooks append to the runner's name, of which they keep at most 54 and 49 characters: to that of a job's pod,
// and, with eight characters more, to that of a step's pod or Job, which the Job's pod continues.
const (
	JobPodSuffix = "-workflow"
	stepInfix    = "-step-"
)

// RunnerEnv returns the value of a variable of the runner container, and whether there is one.
func RunnerEnv(spec *corev1.PodSpec, name string) (value string, given bool) {
	container := Container(spec, v1alpha1.RunnerContainerName)
	if container == nil {
		return "", false
	}
	i := slices.IndexFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == name })
	if i < 0 {
		return "", false
	}
	return container.Env[i].Value, true
}

// IsJobPod reports whether a pod that belongs to a scale set is one of container hooks, and not a runner's or a
// listener's, whatever labels these were given. Hooks set no owner; the pod of a Job has the Job, and no label of the
// hooks.
func IsJobPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return pod.Labels[v1alpha1.LabelRunnerPod] != ""
	}
	return owner.Kind == "Job" && IsJobPodName(pod.Name)
}

// IsJobPodName reports whether a pod that is named after a runner is one of container hooks.
func IsJobPodName(name string) bool {
	return strings.HasSuffix(name, JobPodSuffix) || strings.Contains(name, stepInfix)
}

// RunnerOfJobPod returns the name of the runner whose job a pod of container hooks is for, or its beginning if it is a
// Job's pod.
func RunnerOfJobPod(pod *corev1.Pod) string {
	if runner := pod.Labels[v1alpha1.LabelRunnerPod]; runner != "" {
		return runner
	}
	if i := strings.LastIndex(pod.Name, stepInfix); i >= 0 {
		return pod.Name[:i]
	}
	return ""
}

// IsHalfDeleted reports whether the API server should have removed the pod by itself. It deletes a pod without a grace
// period in two writes; a request that ends between them, because the manager or the API server is killed, leaves the
// pod as it is.
func IsHalfDeleted(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0 && len(pod.Finalizers) == 0
}
