package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Variables of the runner container: the container hooks that run a job's containers as pods, and the file that they merge into
// these pods.
const (
	EnvContainerHooks = "ACTIONS_RUNNER_CONTAINER_HOOKS"
	EnvHookTemplate   = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"
)

// What the hooks append to the runner's name, of which they keep at most 54 and 49 characters: to that of a job's pod, and, with
// eight characters more, to that of a step's pod or Job, which the Job's pod continues.
const (
	jobPodSuffix = "-workflow"
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

// IsJobPod reports whether a pod that belongs to a scale set is one of container hooks, and not a runner's or a listener's, whatever
// labels these were given. Hooks set no owner; the pod of a Job has the Job, and no label of the hooks.
func IsJobPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return pod.Labels[v1alpha1.LabelRunnerPod] != ""
	}
	return owner.Kind == "Job" && IsJobPodName(pod.Name)
}

// IsJobPodName reports whether a pod that is named after a runner is one of container hooks.
func IsJobPodName(name string) bool {
	return strings.HasSuffix(name, jobPodSuffix) || strings.Contains(name, stepInfix)
}

// RunnerOfJobPod returns the name of the runner whose job a pod of container hooks is for, or its beginning if it is a Job's pod.
func RunnerOfJobPod(pod *corev1.Pod) string {
	if runner := pod.Labels[v1alpha1.LabelRunnerPod]; runner != "" {
		return runner
	}
	if i := strings.LastIndex(pod.Name, stepInfix); i >= 0 {
		return pod.Name[:i]
	}
	return ""
}
