package launch

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// Environment of the runner container.
const (
	envJITConfig          = "ACTIONS_RUNNER_INPUT_JITCONFIG"
	envUserAgent          = "GITHUB_ACTIONS_RUNNER_EXTRA_USER_AGENT"
	envReturnOutdatedCode = "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"
)

// newPod returns the runner's pod: the user's template with our labels and annotations, and with what the runner
// container needs.
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
	delete(pod.Labels, v1alpha1.LabelRunnerBusy) // no template decides about it
	startOnce(&pod.Spec)
	if len(runner.Spec.VolumeClaims) > 0 {
		volumeclaims.Mount(&pod.Spec, runner.Spec.VolumeClaims)
	}
	if container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName); container != nil {
		container.Env = append(container.Env, runnerEnv(runner, version)...)
	}
	return pod
}

// SamplePod returns the pod that a runner would get, but for the id of its registration.
func SamplePod(runner *v1alpha1.EphemeralRunner, version string) *corev1.Pod {
	return newPod(runner, 0, version)
}

// startOnce keeps the kubelet from restarting the runner container, whatever the template says: a JIT config is good
// for one start. A container may have its own restart policy, and any container may have a rule that restarts all of
// them.
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

// runnerEnv returns the variables that are added to the user's own environment of the runner container. No other
// container gets it, because the JIT config is a credential.
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

// scaleSetLabels returns the labels that no template overrides. The manager's cache selects by them; without them it
// would never show the pod of a runner that was created by hand. Such a runner counts as a scale set of its own.
func scaleSetLabels(runner *v1alpha1.EphemeralRunner) map[string]string {
	set := kube.ScaleSetOf(runner)
	return map[string]string{
		v1alpha1.LabelScaleSetName:      kube.LabelValue(set.Name),
		v1alpha1.LabelScaleSetNamespace: set.Namespace,
	}
}

// createPod creates the pod. Retrying does not help if the API server calls the pod invalid; what it forbids because of
// a quota or policy may be allowed later.
func (l *Launcher) createPod(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, registered *registration,
) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := l.createProtected(ctx, set, runner, registered)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return l.checkExistingPod(ctx, runner)
	case kube.IsNamespaceTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return &rules.Failure{Kind: rules.Invalid, Reason: v1alpha1.ReasonInvalidPod, Message: fmt.Sprintf(
			"the API server rejects the pod template: %v: correct spec.template of the AutoscalingRunnerSet", err)}
	case kube.IsQuotaExceeded(err):
		return &rules.Failure{Reason: v1alpha1.ReasonQuotaExceeded, Message: err.Error()}
	case apierrors.IsForbidden(err):
		return &rules.Failure{Reason: v1alpha1.ReasonPodForbidden, Message: fmt.Sprintf(
			"%v: change spec.template of the AutoscalingRunnerSet, or what forbids it in namespace %s", err, runner.Namespace)}
	default:
		return requestFailure(v1alpha1.ReasonPodRefused, "create pod "+runner.Name, err)
	}
}

// createProtected creates the pod, protected from eviction if the API server takes it like that. That a policy is
// against the labels or annotations of the protection must not cost the runner its pod.
func (l *Launcher) createProtected(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, runner *v1alpha1.EphemeralRunner, registered *registration,
) error {
	plain := func() *corev1.Pod {
		pod := newPod(runner, registered.id, l.options.Version)
		pod.Annotations[v1alpha1.AnnotationPhases] = phases.Text(&v1alpha1.RunnerPhases{
			Created: &runner.CreationTimestamp, Registered: new(metav1.NewTime(registered.at)),
		})
		return pod
	}
	pod, protection := plain(), l.options.Protection
	protected := protection != nil && protection.Protect(set, pod)
	err := l.options.Client.Create(ctx, pod)
	maybeItsFault := kube.IsRefused(err) && !kube.IsQuotaExceeded(err) && !kube.IsNamespaceTerminating(err) &&
		!kube.IsDeniedByAuthorizer(err)
	if !protected || !maybeItsFault {
		return err
	}
	again := l.options.Client.Create(ctx, plain())
	if again == nil {
		protection.Refused(ctx, runner, err)
	}
	return again
}

// OwnPod reads the runner's pod. It returns nil if there is none or it belongs to somebody else.
func OwnPod(ctx context.Context, reader client.Reader, runner *v1alpha1.EphemeralRunner) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(runner), pod, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get pod: %w", err)
	}
	if !metav1.IsControlledBy(pod, runner) {
		return nil, nil
	}
	return pod, nil
}

// RunnerIDOf returns the runner's id on GitHub from its pod's annotation, or fallback if the annotation is missing.
func RunnerIDOf(pod *corev1.Pod, fallback int) int {
	if id, err := strconv.Atoi(pod.Annotations[v1alpha1.AnnotationRunnerID]); err == nil && id > 0 {
		return id
	}
	return fallback
}

// TakesRegistration reports whether the pod's runner takes its JIT config from the Secret that has the pod's name.
func TakesRegistration(pod *corev1.Pod) bool {
	container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName)
	if container == nil {
		return false
	}
	for _, variable := range container.Env {
		if variable.Name == envJITConfig && variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			return variable.ValueFrom.SecretKeyRef.Name == pod.Name
		}
	}
	return false
}
