package listenerpod_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// fragments are parts of listenerTemplate, each of which the API server accepts, alone and together with others. Lists
// are merged by the test as Helm's users write them: one after the other.
var fragments = []string{
	`{metadata: {labels: {team: a, app.kubernetes.io/name: gha-rs-controller}, annotations: {prometheus.io/scrape: "true"}}}`,
	`{metadata: {labels: {azure.workload.identity/use: "true"}, annotations: {iam.gke.io/gcp-service-account: admin@p.iam}}}`,
	`{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/listener: unconfined, k8s.v1.cni.cncf.io/networks: other}}}`,
	`{spec: {nodeSelector: {pool: system}, schedulerName: mine}}`,
	`{spec: {tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]}}`,
	`{spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}}}}`,
	`{spec: {priorityClassName: high}}`,
	`{spec: {priorityClassName: system-cluster-critical}}`,
	`{spec: {runtimeClassName: other}}`,
	`{spec: {imagePullSecrets: [{name: pull}], hostAliases: [{ip: 10.0.0.2, hostnames: [ghes.example.com]}]}}`,
	`{spec: {dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1]}}}`,
	`{spec: {terminationGracePeriodSeconds: 5, activeDeadlineSeconds: 60}}`,
	`{spec: {hostNetwork: true}}`,
	`{spec: {hostPID: true, hostIPC: true}}`,
	`{spec: {shareProcessNamespace: true, nodeName: node, hostname: h, subdomain: s, setHostnameAsFQDN: true}}`,
	`{spec: {serviceAccountName: default, automountServiceAccountToken: true, enableServiceLinks: false}}`,
	`{spec: {restartPolicy: OnFailure, readinessGates: [{conditionType: a/b}]}}`,
	`{spec: {resourceClaims: [{name: gpu, resourceClaimName: c}]}}`,
	`{spec: {securityContext: {runAsUser: 0, runAsNonRoot: false, seccompProfile: {type: Unconfined}, sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}}}`,
	`{spec: {securityContext: {runAsUser: 1000, fsGroup: 1000, supplementalGroups: [7], seccompProfile: {type: RuntimeDefault}}}}`,
	`{spec: {initContainers: [{name: setup, image: i, securityContext: {privileged: true}, volumeMounts: [{name: listener-config, mountPath: /c}]}]}}`,
	`{spec: {containers: [{name: listener, image: mine, command: [sh], args: [-c], workingDir: /a, imagePullPolicy: Always}]}}`,
	`{spec: {containers: [{name: listener, resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 128Mi}}}]}}`,
	`{spec: {containers: [{name: listener, livenessProbe: {exec: {command: [c]}}, readinessProbe: {httpGet: {port: 80, host: 10.0.0.1}}, startupProbe: {grpc: {port: 1}}}]}}`,
	`{spec: {containers: [{name: listener, livenessProbe: {httpGet: {path: /healthz, port: health}}, readinessProbe: {tcpSocket: {port: 8081}}}]}}`,
	`{spec: {containers: [{name: listener, lifecycle: {postStart: {exec: {command: [c]}}}, terminationMessagePath: /a}]}}`,
	`{spec: {containers: [{name: listener, env: [{name: A, value: b}, {name: https_proxy, value: p}, {name: KUBERNETES_SERVICE_HOST, value: h}]}]}}`,
	`{spec: {containers: [{name: listener, env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: C, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}]}}`,
	`{spec: {containers: [{name: listener, env: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}], envFrom: [{secretRef: {name: s}}]}]}}`,
	`{spec: {containers: [{name: listener, ports: [{containerPort: 9000, hostPort: 9000}]}]}}`,
	`{spec: {containers: [{name: listener, securityContext: {runAsUser: 1000, readOnlyRootFilesystem: false}}]}}`,
	`{spec: {containers: [{name: listener, securityContext: {capabilities: {drop: [NET_RAW], add: [SYS_ADMIN]}}}]}}`,
	`{spec: {containers: [{name: listener, securityContext: {seLinuxOptions: {type: spc_t}, seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}, runAsUser: 0, runAsNonRoot: false}}]}}`,
	`{spec: {volumes: [{name: ca, configMap: {name: ca}}], containers: [{name: listener, volumeMounts: [{name: ca, mountPath: /etc/ssl/certs/own, readOnly: true}]}]}}`,
	`{spec: {volumes: [{name: tmp, emptyDir: {medium: Memory}}], containers: [{name: listener, volumeMounts: [{name: tmp, mountPath: /tmp}]}]}}`,
	`{spec: {volumes: [{name: all, secret: {secretName: other}}], containers: [{name: listener, volumeMounts: [{name: all, mountPath: /all}]}]}}`,
	`{spec: {volumes: [{name: node, hostPath: {path: /}}], containers: [{name: listener, volumeMounts: [{name: node, mountPath: /node, mountPropagation: HostToContainer}]}]}}`,
	`{spec: {volumes: [{name: admin, projected: {sources: [{secret: {name: other}}]}}], containers: [{name: listener, volumeMounts: [{name: admin, mountPath: /admin}]}]}}`,
	`{spec: {volumes: [{name: block, persistentVolumeClaim: {claimName: c}}], containers: [{name: listener, volumeDevices: [{name: block, devicePath: /dev/b}]}]}}`,
	`{spec: {volumes: [{name: csi, csi: {driver: secrets-store.csi.k8s.io}}], containers: [{name: listener, volumeMounts: [{name: csi, mountPath: /csi}]}]}}`,
	`{spec: {containers: [{name: mine, image: "mine:1", securityContext: {privileged: true}, volumeMounts: [{name: listener-config, mountPath: /stolen}]}]}}`,
	`{spec: {volumes: [{name: logs, emptyDir: {}}], containers: [{name: logs, image: "logs:1", args: [a], env: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}],
		ports: [{containerPort: 2020, hostPort: 2020}], securityContext: {runAsUser: 0, capabilities: {add: [NET_ADMIN]}},
		volumeMounts: [{name: logs, mountPath: /logs}, {name: listener-config, mountPath: /stolen}, {name: listener-token, mountPath: /token}]}]}}`,
	`{spec: {containers: [{name: more, image: "logs:1", livenessProbe: {exec: {command: [c]}}, lifecycle: {preStop: {exec: {command: [c]}}}}]}}`,
}

// combined returns fragments as one template.
func combined(t *testing.T, chosen ...int) *corev1.PodTemplateSpec {
	t.Helper()
	merged := []byte("{}")
	for _, i := range chosen {
		part, err := yaml.YAMLToJSONStrict([]byte(fragments[i]))
		if err == nil {
			merged, err = strategicpatch.StrategicMergePatch(merged, part, corev1.PodTemplateSpec{})
		}
		if err != nil {
			t.Fatalf("%s: %v", fragments[i], err)
		}
	}
	whole := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict(merged, whole); err != nil {
		t.Fatal(err)
	}
	return whole
}

// admission is a real API server with two namespaces for listener pods: one where anything may run, and one that
// enforces the Pod Security Standard "restricted".
type admission struct {
	clientset    kubernetes.Interface
	free, strict string
	warnings     warnings
}

// warnings collects the warnings of the API server, which for Pod Security name what it would refuse.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func newAdmission(t *testing.T) *admission {
	t.Helper()
	cluster := testkube.Shared(t)
	a := &admission{free: cluster.NewNamespace(t), strict: cluster.NewNamespace(t)}
	config := rest.CopyConfig(cluster.Config())
	config.WarningHandler, config.QPS = &a.warnings, -1
	var err error
	if a.clientset, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.strict,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := cluster.Client().Update(t.Context(), strict); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.free, Name: key.Name}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.strict, Name: key.Name}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Handler: "other"},
	} {
		if err := client.IgnoreAlreadyExists(cluster.Client().Create(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// admit returns the listener's pod as the API server would create it.
func (a *admission) admit(
	ctx context.Context, namespace string, template *corev1.PodTemplateSpec, policy listenertemplate.Policy,
) (*corev1.Pod, error) {
	builder := listenerpod.Builder{
		Listener: newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Namespace, l.Spec.Template = namespace, template
		}),
		Entrypoint: []string{listenertemplate.DefaultProgram}, MetricsAddr: ":8080", Proxy: "revision-1",
		Policy: policy,
	}
	pod, err := builder.Pod()
	if err != nil {
		return nil, err
	}
	return a.clientset.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
}

var withLogs = listenertemplate.Policy{SidecarImages: []string{"logs:1"}}

// Whatever a template asks for, what is used of it makes a pod that Pod Security "restricted" lets in, and nothing that
// a scale set may not have is in that pod.
func TestRestrictedPodsAreAdmitted(t *testing.T) {
	a := newAdmission(t)
	everything := []int{}
	for i := range fragments {
		everything = append(everything, i)
		a.check(t, i)
	}
	a.check(t, everything...)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		a.check(t, random.Perm(len(fragments))[:2+random.IntN(8)]...)
	}
	if len(a.warnings.said) > 0 {
		t.Errorf("the API server warns: %v", slices.Compact(slices.Sorted(slices.Values(a.warnings.said))))
	}
}

func (a *admission) check(t *testing.T, chosen ...int) {
	t.Helper()
	pod, err := a.admit(t.Context(), a.strict, combined(t, chosen...), withLogs)
	if err != nil {
		t.Errorf("%s: %v", describeFragments(chosen), err)
		return
	}
	for _, wrong := range forbiddenIn(pod) {
		t.Errorf("%s: the pod has %s", describeFragments(chosen), wrong)
	}
}

func describeFragments(chosen []int) string {
	var text strings.Builder
	for _, i := range chosen {
		fmt.Fprintln(&text, fragments[i])
	}
	return text.String()
}

// findings lists what a scale set may not have in a pod of the manager's namespace.
type findings []string

func (f *findings) add(is bool, what string) {
	if is {
		*f = append(*f, what)
	}
}

func forbiddenIn(pod *corev1.Pod) (found findings) {
	spec := &pod.Spec
	found.add(spec.ServiceAccountName != key.Name, "another account")
	found.add(spec.HostNetwork || spec.HostPID || spec.HostIPC, "a namespace of the node")
	found.add(spec.NodeName != "" || spec.RuntimeClassName != nil, "a node or runtime of its choice")
	found.add(len(spec.InitContainers) > 0, "init containers")
	found.add(strings.HasPrefix(spec.PriorityClassName, "system-"), "a class of the system")
	for i := range spec.Volumes {
		found.add(!allowedVolume(&spec.Volumes[i]), "volume "+spec.Volumes[i].Name)
	}
	for i := range spec.Containers {
		found.container(&spec.Containers[i])
	}
	for _, key := range []string{"app.kubernetes.io/name", "azure.workload.identity/use"} {
		found.add(pod.Labels[key] != "", "label "+key)
	}
	for _, key := range []string{"iam.gke.io/gcp-service-account", "k8s.v1.cni.cncf.io/networks",
		"container.apparmor.security.beta.kubernetes.io/listener"} {
		found.add(pod.Annotations[key] != "", "annotation "+key)
	}
	return found
}

func allowedVolume(volume *corev1.Volume) bool {
	switch {
	case volume.Secret != nil:
		return volume.Secret.SecretName == key.Name+credentials.ListenerConfigSuffix
	case volume.Projected != nil:
		return volume.Name == listenertemplate.TokenVolume
	}
	return volume.EmptyDir != nil || volume.ConfigMap != nil
}

func (f *findings) container(container *corev1.Container) {
	own := container.Name == v1alpha1.ListenerContainerName
	if own {
		f.add(container.Image != "controller:1" || !slices.Equal(container.Command, []string{"/ghalistener"}) ||
			len(container.Args) > 0, "another program")
	} else {
		f.add(container.Image != "logs:1", "image "+container.Image)
	}
	f.add(len(container.EnvFrom) > 0 || container.Lifecycle != nil, "envFrom or lifecycle")
	for i := range container.Env {
		f.variable(&container.Env[i], own)
	}
	for _, mount := range container.VolumeMounts {
		ofListener := mount.Name == listenertemplate.ConfigVolume || mount.Name == listenertemplate.TokenVolume
		f.add(!own && (ofListener || mount.MountPath == listenertemplate.TokenPath),
			"the listener's volume "+mount.Name+
				" in container "+container.Name)
	}
	for _, port := range container.Ports {
		f.add(port.HostPort != 0, "a port of the node")
	}
}

func (f *findings) variable(variable *corev1.EnvVar, ofListener bool) {
	secret := ""
	if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
		secret = variable.ValueFrom.SecretKeyRef.Name
	}
	ofProxy := ofListener && secret == key.Name+credentials.ListenerProxySuffix
	f.add(secret != "" && !ofProxy, "variable "+variable.Name+" of Secret "+secret)
	f.add(variable.Name == "KUBERNETES_SERVICE_HOST" ||
		(variable.Name == "https_proxy" && !ofProxy), "variable "+variable.Name)
}

// The API server takes the fragments, so the test above is about the Policy: without it, and where anything may run,
// each makes a pod.
func TestFragmentsAreValidInThemselves(t *testing.T) {
	a := newAdmission(t)
	for i := range fragments {
		if _, err := a.admit(t.Context(), a.free, combined(t, i),
			listenertemplate.Policy{Unrestricted: true}); err != nil {
			t.Errorf("%s: %v", fragments[i], err)
		}
	}
}

// The token is in the listener's container at the usual path. A further container has one only without the restricted
// policy, as before.
func TestWhoGetsTheToken(t *testing.T) {
	a := newAdmission(t)
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "logs",
		Image: "logs:1"}}}}
	for _, policy := range []listenertemplate.Policy{withLogs, {Unrestricted: true}} {
		pod, err := a.admit(t.Context(), a.free, template, policy)
		if err != nil {
			t.Fatal(err)
		}
		for _, container := range pod.Spec.Containers {
			at := slices.IndexFunc(container.VolumeMounts,
				func(mount corev1.VolumeMount) bool { return mount.MountPath == listenertemplate.TokenPath })
			volume := ""
			if at >= 0 {
				volume = container.VolumeMounts[at].Name
			}
			own := container.Name == v1alpha1.ListenerContainerName
			if (own && volume != listenertemplate.TokenVolume) || (!own && (volume != "") != policy.Unrestricted) {
				t.Errorf("%s: container %s has %q at the path of the token", policy.Name(), container.Name, volume)
			}
		}
	}
}
