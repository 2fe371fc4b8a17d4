package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
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
	completeDaemons(&pod.Spec, proxyEnv(runner))
	if grace := runner.Spec.JobGracePeriod; grace != nil {
		kube.GiveJobGrace(&pod.Spec, grace.Duration, pullsImages)
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
// container gets all of them, because the JIT config is a credential.
func runnerEnv(runner *v1alpha1.EphemeralRunner, version string) []corev1.EnvVar {
	env := []corev1.EnvVar{
		fromSecret(envJITConfig, runner.Name, secretKeyJITConfig),
		{Name: envUserAgent, Value: "actions-runner-controller/" + version},
		{Name: envReturnOutdatedCode, Value: "1"},
	}
	return append(env, proxyEnv(runner)...)
}

// proxyEnv returns the variables with the scale set's proxies, which have passwords in them, from the set's Secret.
func proxyEnv(runner *v1alpha1.EphemeralRunner) (env []corev1.EnvVar) {
	proxy, secret := runner.Spec.Proxy, runner.Spec.ProxySecretRef
	if proxy == nil || secret == "" {
		return nil
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

// daemons are the names of containers, and the last parts of the names of images, of daemons that pull images for jobs:
// docker:dind, moby/buildkit and mirrors of these.
var daemons = []string{"dind", "docker", "dockerd", "buildkit", "buildkitd"}

// pullsImages reports whether a container beside the runner is a daemon that pulls the images of jobs.
func pullsImages(container *corev1.Container) bool {
	image := container.Image[strings.LastIndex(container.Image, "/")+1:]
	if end := strings.IndexAny(image, ":@"); end >= 0 {
		image = image[:end]
	}
	return container.Name != v1alpha1.RunnerContainerName &&
		(slices.Contains(daemons, container.Name) || slices.Contains(daemons, image))
}

// completeDaemons gives the proxies to the daemons that pull images for jobs. What a container says of a proxy itself, in
// small letters or capitals, stays. Other containers get nothing: they may have to reach the cluster's own services only.
// Of a daemon that can't start the kubelet keeps the end of its log, which says why.
func completeDaemons(spec *corev1.PodSpec, proxies []corev1.EnvVar) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			container := &containers[i]
			if !pullsImages(container) {
				continue
			}
			if container.TerminationMessagePolicy == "" {
				container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
			for _, variable := range proxies {
				if !slices.ContainsFunc(container.Env, func(own corev1.EnvVar) bool {
					return strings.EqualFold(own.Name, variable.Name)
				}) {
					container.Env = append(container.Env, variable)
				}
			}
		}
	}
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

// The runner's Secret has the runner's name, which somebody else's Secret may already have. That Secret is neither
// overwritten nor deleted. No cache holds Secrets, so it takes a read to tell whose a Secret is, unless this manager
// created it.

// isRunners reports whether a Secret was created for the runner, or for an earlier runner of the same name, even if it
// has lost its owner in a backup.
func isRunners(secret *corev1.Secret, runner *v1alpha1.EphemeralRunner) bool {
	owner := metav1.GetControllerOf(secret)
	isOwned := owner != nil && owner.Kind == "EphemeralRunner" && owner.Name == runner.Name
	return isOwned || isAbandonedSecret(secret, runner.Name)
}

// readSecret returns the Secret of that name, nil if there is none.
func (l *Launcher) readSecret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := l.options.Client.Get(ctx, name, secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// unusedRegistration returns the registration with that id and its JIT config: as it was kept, or from the runner's
// Secret. It returns nil if the Secret has none that can be used; it may be that of an earlier registration.
func (l *Launcher) unusedRegistration(
	ctx context.Context, memory *Memory, runner *v1alpha1.EphemeralRunner, id int,
) (*registration, error) {
	if unstored := memory.unstoredWith(id); unstored != nil {
		return unstored, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret, err := l.readSecret(ctx, client.ObjectKeyFromObject(runner))
	switch {
	case err != nil:
		return nil, secretUnreadable(runner, err)
	case secret == nil || !metav1.IsControlledBy(secret, runner):
		return nil, nil
	}
	stored, err := strconv.Atoi(string(secret.Data[secretKeyRunnerID]))
	if err != nil || stored != id || len(secret.Data[secretKeyJITConfig]) == 0 {
		return nil, nil
	}
	memory.rememberSecret(secret.UID)
	return &registration{
		id: id, config: string(secret.Data[secretKeyJITConfig]),
		stored: true, at: secret.CreationTimestamp.Time,
	}, nil
}

func secretUnreadable(runner *v1alpha1.EphemeralRunner, err error) *rules.Failure {
	return requestFailure(v1alpha1.ReasonSecretUnreadable, "read Secret "+runner.Name, err)
}

// createSecret stores the JIT config. A Secret of an earlier registration is replaced.
func (l *Launcher) createSecret(
	ctx context.Context, memory *Memory, runner *v1alpha1.EphemeralRunner, registered *registration,
) error {
	if registered.stored {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret := newSecret(runner, registered)
	err := l.options.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = l.replaceSecret(ctx, runner, secret)
	}
	if err != nil {
		memory.keepUnstored(registered)
		return secretFailure(runner, err)
	}
	memory.rememberSecret(secret.UID)
	return nil
}

// replaceSecret replaces the Secret of an earlier registration.
func (l *Launcher) replaceSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner, secret *corev1.Secret) error {
	former, err := l.readSecret(ctx, client.ObjectKeyFromObject(runner))
	switch {
	case err != nil:
		return secretUnreadable(runner, err)
	case former == nil:
		return l.options.Client.Create(ctx, secret) // it was deleted in the meantime
	case !isRunners(former, runner):
		return &rules.Failure{Kind: rules.NameTaken, Reason: "SecretNameTaken", Message: fmt.Sprintf(
			"a Secret %s exists that is not the runner's: another runner takes this one's place; delete the Secret if nobody "+
				"needs it", runner.Name)}
	default:
		secret.UID, secret.ResourceVersion = former.UID, former.ResourceVersion
		return l.options.Client.Update(ctx, secret)
	}
}

// secretFailure says why a Secret could not be stored.
func secretFailure(runner *v1alpha1.EphemeralRunner, err error) error {
	known, isKnown := errors.AsType[*rules.Failure](err)
	switch {
	case isKnown:
		return known
	case kube.IsNamespaceTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err):
		return &rules.Failure{Kind: rules.Invalid, Reason: v1alpha1.ReasonInvalidSecret, Message: fmt.Sprintf(
			"the API server rejects the metadata of the runner's Secret: %v: correct ephemeralRunnerConfigSecretMetadata", err)}
	case kube.IsQuotaExceeded(err):
		return &rules.Failure{Reason: v1alpha1.ReasonQuotaExceeded, Message: err.Error()}
	default:
		return requestFailure(v1alpha1.ReasonSecretRefused, "create Secret "+runner.Name, err)
	}
}

// HasSecret reports whether the runner's Secret exists.
func (l *Launcher) HasSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner) (bool, error) {
	secret, err := l.readSecret(ctx, client.ObjectKeyFromObject(runner))
	return secret != nil && isRunners(secret, runner), err
}

// DeleteSecret deletes the runner's Secret.
func (l *Launcher) DeleteSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner, memory *Memory) error {
	uid := memory.knownSecret()
	if uid == "" {
		secret, err := l.readSecret(ctx, client.ObjectKeyFromObject(runner))
		if err := DeletionFailure(runner, "read Secret", err); err != nil {
			return err
		}
		if secret != nil && isRunners(secret, runner) {
			uid = secret.UID
		}
	}
	if uid != "" {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: runner.Name}}
		err := l.options.Client.Delete(ctx, secret, client.Preconditions{UID: &uid})
		if err := DeletionFailure(runner, "delete Secret", err); err != nil {
			return err
		}
	}
	memory.rememberSecret("")
	return nil
}

// DeleteAbandonedSecret deletes the Secret that was the registration of the runner of that name, after the runner is
// gone, if there is one and it has no owner.
func (l *Launcher) DeleteAbandonedSecret(ctx context.Context, name types.NamespacedName) error {
	secret, err := l.readSecret(ctx, name)
	if err != nil || secret == nil || !isAbandonedSecret(secret, name.Name) {
		return err
	}
	return client.IgnoreNotFound(l.options.Client.Delete(ctx, secret, kube.UIDPrecondition(secret)))
}

// isAbandonedSecret reports whether a Secret was the registration of the runner of that name and has lost its owner.
func isAbandonedSecret(secret *corev1.Secret, runner string) bool {
	return metav1.GetControllerOfNoCopy(secret) == nil && secret.Labels[v1alpha1.LabelScaleSetName] != "" &&
		string(secret.Data[secretKeyRunnerName]) == runner && len(secret.Data[secretKeyJITConfig]) > 0
}

// rememberSecret remembers the UID of the runner's Secret, empty if it is not known or there is none.
func (m *Memory) rememberSecret(secret types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secret, m.unstored = secret, nil
}

// knownSecret returns the UID of the runner's Secret, empty if it is not known.
func (m *Memory) knownSecret() types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secret
}

// keepUnstored remembers a registration for which no Secret could be created. No pod is created without a Secret, so
// the JIT config remains unused, and each new registration would cost four calls to GitHub.
func (m *Memory) keepUnstored(registered *registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unstored = registered
}

// unstoredWith returns the registration with that id if no Secret could be created for it, otherwise nil.
func (m *Memory) unstoredWith(id int) *registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unstored == nil || m.unstored.id != id {
		return nil
	}
	return m.unstored
}
