package ephemeralrunner

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Keys of the Secret that holds a runner's registration. They are ARC's.
const (
	secretKeyJITConfig  = "jitToken"
	secretKeyRunnerName = "runnerName"
	secretKeyRunnerID   = "runnerId"
	secretKeyScaleSetID = "scaleSetId"
)

// Environment of the runner container.
const (
	envJITConfig          = "ACTIONS_RUNNER_INPUT_JITCONFIG"
	envUserAgent          = "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT"
	envReturnOutdatedCode = "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"
)

// newSecret returns the Secret that passes the JIT config to the runner container.
func newSecret(runner *v1alpha1.EphemeralRunner, registered *registration) *corev1.Secret {
	labels, annotations := kube.Metadata(runner.Spec.EphemeralRunnerConfigSecretMetadata)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: runner.Namespace, Name: runner.Name,
			Labels:          kube.Labels(nil, labels, scaleSetLabels(runner)),
			Annotations:     annotations,
			OwnerReferences: kube.OwnedBy(runner),
		},
		Data: map[string][]byte{
			secretKeyJITConfig:  []byte(registered.config),
			secretKeyRunnerName: []byte(runner.Name),
			secretKeyRunnerID:   []byte(strconv.Itoa(registered.id)),
			secretKeyScaleSetID: []byte(strconv.Itoa(runner.Spec.RunnerScaleSetID)),
		},
	}
}

// newPod returns the runner's pod: the user's template with our labels and annotations, and with what the runner container
// needs.
func newPod(runner *v1alpha1.EphemeralRunner, id int, version string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: runner.Namespace, Name: runner.Name,
			Labels: kube.Labels(nil, runner.Labels, runner.Spec.PodMetadata.Labels, scaleSetLabels(runner), map[string]string{
				v1alpha1.LabelRunner: "True",
			}),
			Annotations: kube.Annotations(runner.Annotations, runner.Spec.PodMetadata.Annotations, map[string]string{
				v1alpha1.AnnotationRunnerID: strconv.Itoa(id),
			}),
			OwnerReferences: kube.OwnedBy(runner),
		},
		Spec: *runner.Spec.PodSpec.DeepCopy(),
	}
	delete(pod.Labels, v1alpha1.LabelRunnerBusy) // only a job makes a pod busy
	startOnce(&pod.Spec)
	if container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName); container != nil {
		container.Env = append(container.Env, runnerEnv(runner, version)...)
	}
	return pod
}

// SamplePod returns the pod that a runner would get, but for the id of its registration.
func SamplePod(runner *v1alpha1.EphemeralRunner, version string) *corev1.Pod {
	return newPod(runner, 0, version)
}

// startOnce keeps the kubelet from restarting the runner container, whatever the template says: a JIT config is good for one
// start. A container may have its own restart policy, and any container may have a rule that restarts all of them.
func startOnce(spec *corev1.PodSpec) {
	spec.RestartPolicy = corev1.RestartPolicyNever
	if container := kube.Container(spec, v1alpha1.RunnerContainerName); container != nil {
		container.RestartPolicy, container.RestartPolicyRules = nil, nil
	}
	restartsAll := func(rule corev1.ContainerRestartRule) bool {
		return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].RestartPolicyRules = slices.DeleteFunc(containers[i].RestartPolicyRules, restartsAll)
		}
	}
}

// runnerEnv returns what is added to the user's own environment of the runner container. No other container gets it, because
// the JIT config is a credential.
func runnerEnv(runner *v1alpha1.EphemeralRunner, version string) []corev1.EnvVar {
	env := []corev1.EnvVar{
		fromSecret(envJITConfig, runner.Name, secretKeyJITConfig),
		{Name: envUserAgent, Value: "actions-runner-controller/" + version},
		{Name: envReturnOutdatedCode, Value: "1"},
	}
	proxy, secret := runner.Spec.Proxy, runner.Spec.ProxySecretRef
	if proxy == nil || secret == "" {
		return env
	}
	if proxy.HTTP != nil {
		env = append(env, fromSecret("http_proxy", secret, "http_proxy"))
	}
	if proxy.HTTPS != nil {
		env = append(env, fromSecret("https_proxy", secret, "https_proxy"))
	}
	if len(proxy.NoProxy) > 0 {
		env = append(env, fromSecret("no_proxy", secret, "no_proxy"))
	}
	return env
}

func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}

// scaleSetLabels returns the labels that no template overrides. The manager's cache selects by them; without them it would
// never show the pod of a runner that was created by hand. Such a runner counts as a scale set of its own.
func scaleSetLabels(runner *v1alpha1.EphemeralRunner) map[string]string {
	set := kube.ScaleSetOf(runner)
	return map[string]string{v1alpha1.LabelScaleSetName: kube.LabelValue(set.Name), v1alpha1.LabelScaleSetNamespace: set.Namespace}
}

// workFolder returns the runner's work folder: its container's working directory, empty if the user gave none.
func workFolder(spec *corev1.PodSpec) string {
	if container := kube.Container(spec, v1alpha1.RunnerContainerName); container != nil {
		return container.WorkingDir
	}
	return ""
}

// usesContainerHooks reports whether the runner creates pods of its own for a job's steps.
func usesContainerHooks(spec *corev1.PodSpec) bool {
	_, uses := kube.RunnerEnv(spec, kube.EnvContainerHooks)
	return uses
}

// hooksCreateJobs reports whether the runner's hooks may run a step in a container as a Job: those that share a volume with the
// runner do, those that copy files instead, which GitHub's image has in k8s-novolume, don't. In their mode the manager has no
// rights on Jobs.
func hooksCreateJobs(spec *corev1.PodSpec) bool {
	hooks, uses := kube.RunnerEnv(spec, kube.EnvContainerHooks)
	return uses && !strings.Contains(hooks, "novolume")
}
