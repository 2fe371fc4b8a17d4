package listenerpod

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

const (
	// gracePeriodSeconds is enough for the listener to finish its current message (10 s for acquiring jobs, 30 s for a
	// call to GitHub) and to delete its session, so that its successor needn't wait for the session to expire.
	gracePeriodSeconds = 60
	// A token is valid for tokenSeconds. The kubelet replaces it after four fifths of that, and the client reads it
	// again every minute. It is not 3607, which asks the API server for a token that stays valid for a year.
	tokenSeconds = 3600
	// rootCertificates is the ConfigMap that Kubernetes keeps in every namespace, with the authority of the API server.
	rootCertificates = "kube-root-ca.crt"
)

// Builder builds a listener pod.
type Builder struct {
	Listener *v1alpha1.AutoscalingListener
	// Proxy is the revision of the proxy Secret, empty if there is no proxy.
	Proxy string
	// Entrypoint is the command of the listener's container.
	Entrypoint []string
	// Policy decides what of the listener's template, and of its labels, is used.
	Policy listenertemplate.Policy
	// MetricsAddr is the address at which the listener serves metrics, empty if it serves none.
	MetricsAddr string
}

// Hash returns a hash of everything that a running listener can't adopt, and of nothing else; of the template it covers
// the part that is used. The hash ends up in an annotation, so it must not cover a secret.
func (b Builder) Hash() string {
	spec := &b.Listener.Spec
	var proxy *string
	if b.Proxy != "" {
		proxy = &b.Proxy
	}
	return kube.Hash(struct {
		Image              string
		ImagePullSecrets   []corev1.LocalObjectReference
		Entrypoint         []string
		URL, Group         string
		ScaleSet           int
		Namespace, Runners string
		Proxy              *string
		Template           *corev1.PodTemplateSpec
		Policy             string
		Ports              []corev1.ContainerPort
	}{
		spec.Image, spec.ImagePullSecrets, b.Entrypoint, spec.GitHubConfigUrl,
		b.Listener.Annotations[v1alpha1.AnnotationRunnerGroupName],
		spec.RunnerScaleSetID, spec.AutoscalingRunnerSetNamespace, spec.EphemeralRunnerSetName, proxy,
		b.Policy.Template(spec.Template),
		b.Policy.Name(), b.ports(),
	})
}

// Pod returns the pod, without an owner. It fails if the user's template can't be merged.
func (b Builder) Pod() (*corev1.Pod, error) {
	spec := &b.Listener.Spec
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   b.Listener.Namespace,
			Name:        b.Listener.Name,
			Annotations: map[string]string{v1alpha1.AnnotationIntegrityHash: b.Hash()},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            b.Listener.Name,
			ImagePullSecrets:              spec.ImagePullSecrets,
			NodeSelector:                  map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64(gracePeriodSeconds)),
			// The image sets the user, because OpenShift refuses pods that set a user outside of their namespace's
			// range.
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{b.container()},
			Volumes: []corev1.Volume{{Name: listenertemplate.ConfigVolume, VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: b.Listener.Name + credentials.ListenerConfigSuffix},
			}}, tokenVolume()},
		},
	}
	if err := mergeTemplate(pod, b.Policy.Template(spec.Template)); err != nil {
		return nil, err
	}
	// The listener's container mounts its token itself. A further container gets none, unless the template may say so.
	further := len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1
	if !b.Policy.Unrestricted || pod.Spec.AutomountServiceAccountToken == nil {
		pod.Spec.AutomountServiceAccountToken = new(b.Policy.Unrestricted && further)
	}
	pod.Labels = kube.Labels(nil, pod.Labels, b.Policy.Inherited(b.Listener.Labels), ownership.Labels(b.Listener))
	return pod, nil
}

// tokenVolume returns a volume with what Kubernetes itself mounts into all containers of a pod, so that it can be
// mounted into one.
func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: listenertemplate.TokenVolume,
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Path:              corev1.ServiceAccountTokenKey,
					ExpirationSeconds: new(int64(tokenSeconds)),
				}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: rootCertificates},
					Items: []corev1.KeyToPath{{
						Key:  corev1.ServiceAccountRootCAKey,
						Path: corev1.ServiceAccountRootCAKey,
					}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path:     corev1.ServiceAccountNamespaceKey,
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}}
}

// container returns the listener's container, which meets the restricted Pod Security Standard.
func (b Builder) container() corev1.Container {
	return corev1.Container{
		Name:    v1alpha1.ListenerContainerName,
		Image:   b.Listener.Spec.Image,
		Command: b.Entrypoint,
		Env:     b.environment(),
		Ports:   b.ports(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: listenertemplate.ConfigVolume, MountPath: config.MountPath, ReadOnly: true},
			{Name: listenertemplate.TokenVolume, MountPath: listenertemplate.TokenPath, ReadOnly: true},
		},
		// A listener waits in a long poll most of the time. It has no limits because it must be fast in a burst of
		// messages.
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// /healthz fails if the listener's loop has been stuck for a minute. The loop waits for nobody, so GitHub can't
		// cause that.
		StartupProbe:   probe("/healthz", 2, 30),
		LivenessProbe:  probe("/healthz", 20, 3),
		ReadinessProbe: probe("/readyz", 5, 2),
	}
}

// probe returns a probe that allows 5 s for an answer, because a busy node is slow and a restart costs the session.
func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path,
			Port: intstr.FromInt32(config.HealthPort),
		}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

// environment returns the path of the configuration and, if there is a proxy, its variables from the proxy Secret,
// which always has all three keys.
func (b Builder) environment() []corev1.EnvVar {
	environment := []corev1.EnvVar{{Name: config.PathVariable, Value: config.FilePath}}
	if b.Proxy == "" {
		return environment
	}
	for _, key := range []string{credentials.KeyHTTPProxy, credentials.KeyHTTPSProxy, credentials.KeyNoProxy} {
		environment = append(environment, corev1.EnvVar{Name: key,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{
					Name: b.Listener.Name + credentials.ListenerProxySuffix},
				Key: key,
			}}})
	}
	return environment
}

// ports returns the health port and the metrics port. A PodMonitor refers to the name of the latter. If the address has
// no valid port there is no metrics port, and the listener logs why.
func (b Builder) ports() []corev1.ContainerPort {
	ports := []corev1.ContainerPort{{Name: "health", ContainerPort: config.HealthPort, Protocol: corev1.ProtocolTCP}}
	_, text, err := net.SplitHostPort(b.MetricsAddr)
	if err != nil {
		return ports
	}
	if port, err := strconv.ParseInt(text, 10, 32); err == nil && port > 0 && port != config.HealthPort {
		ports = append(ports, corev1.ContainerPort{Name: "metrics", ContainerPort: int32(port),
			Protocol: corev1.ProtocolTCP})
	}
	return ports
}

// mergeTemplate merges what the policy leaves of the user's template into the pod as `kubectl patch` would: fields that
// are set replace the defaults or are added to them, by name in lists, and absent fields leave the defaults as they
// are. The pod's identity can't be changed.
func mergeTemplate(pod *corev1.Pod, template *corev1.PodTemplateSpec) error {
	if template == nil {
		return nil
	}
	pod.Labels = kube.Labels(nil, template.Labels, pod.Labels)
	pod.Annotations = kube.Annotations(template.Annotations, pod.Annotations)
	if given := kube.Container(&template.Spec, v1alpha1.ListenerContainerName); given != nil {
		dropConflictingDefaults(&pod.Spec.Containers[0], given)
	}
	account := pod.Spec.ServiceAccountName
	merged, err := merge(pod.Spec, template.Spec)
	if err != nil {
		return fmt.Errorf("merge listenerTemplate into the listener pod: %w", err)
	}
	merged.ServiceAccountName, merged.DeprecatedServiceAccount = account, ""
	merged.AutomountServiceAccountToken = nil
	merged.EphemeralContainers = nil // a pod can't be created with any
	pod.Spec = merged
	return nil
}

// dropConflictingDefaults removes the defaults that can't be merged with the user's container: the API server rejects a
// probe with two handlers and a variable with both a value and a source, and our requests may exceed the user's limits.
func dropConflictingDefaults(ours, given *corev1.Container) {
	if given.StartupProbe != nil {
		ours.StartupProbe = nil
	}
	if given.LivenessProbe != nil {
		ours.LivenessProbe = nil
	}
	if given.ReadinessProbe != nil {
		ours.ReadinessProbe = nil
	}
	if len(given.Resources.Requests) > 0 || len(given.Resources.Limits) > 0 {
		ours.Resources = corev1.ResourceRequirements{}
	}
	ours.Env = slices.DeleteFunc(ours.Env, func(variable corev1.EnvVar) bool {
		return slices.ContainsFunc(given.Env, func(other corev1.EnvVar) bool { return other.Name == variable.Name })
	})
}

// merge returns base with patch merged into it by a strategic merge patch.
func merge(base, patch corev1.PodSpec) (merged corev1.PodSpec, err error) {
	if patch.Containers == nil {
		// "containers" is always serialized, and null would delete ours.
		patch.Containers = []corev1.Container{}
	}
	original, err := json.Marshal(base)
	if err != nil {
		return merged, err
	}
	changes, err := json.Marshal(patch)
	if err != nil {
		return merged, err
	}
	result, err := strategicpatch.StrategicMergePatch(original, changes, corev1.PodSpec{})
	if err != nil {
		return merged, err
	}
	return merged, json.Unmarshal(result, &merged)
}
