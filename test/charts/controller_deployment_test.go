package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const controllerImage = "ghcr.io/harrier-ci/gha-runner-scale-set-controller:0.1.0"

// deployment returns the manager's Deployment without the token, which has tests of its own.
func deployment(t *testing.T, values ...string) appsv1.Deployment {
	t.Helper()
	made := one[appsv1.Deployment](t, render(t, controller, values...), "deployment.yaml")
	withoutToken(&made.Spec.Template.Spec)
	return made
}

func manager(t *testing.T, values ...string) corev1.Container {
	t.Helper()
	containers := deployment(t, values...).Spec.Template.Spec.Containers
	if len(containers) != 1 {
		t.Fatalf("the controller's pod has %d containers, want 1", len(containers))
	}
	return containers[0]
}

func TestDeploymentByDefault(t *testing.T) {
	t.Parallel()
	got := deployment(t)
	selector := map[string]string{
		"app.kubernetes.io/name":      "gha-rs-controller",
		"app.kubernetes.io/namespace": "arc-systems",
		"app.kubernetes.io/instance":  "arc",
	}
	check(t, "name", got.Namespace+"/"+got.Name, "arc-systems/arc-gha-rs-controller")
	check(t, "labels", got.Labels, extended(selector, map[string]string{
		"helm.sh/chart":                                           "gha-rs-controller-0.1.0",
		"app.kubernetes.io/version":                               "0.1.0",
		"app.kubernetes.io/part-of":                               "gha-rs-controller",
		"app.kubernetes.io/managed-by":                            "Helm",
		"actions.github.com/controller-service-account-namespace": "arc-systems",
		"actions.github.com/controller-service-account-name":      "arc-gha-rs-controller",
	}))
	check(t, "selector", got.Spec.Selector.MatchLabels, selector)
	check(t, "pod labels", got.Spec.Template.Labels, extended(selector, map[string]string{
		"app.kubernetes.io/part-of":   "gha-rs-controller",
		"app.kubernetes.io/component": "controller-manager",
		"app.kubernetes.io/version":   "0.1.0",
	}))
	check(t, "pod annotations", got.Spec.Template.Annotations,
		map[string]string{"kubectl.kubernetes.io/default-container": "manager"})
	check(t, "replicas", got.Spec.Replicas, ptr.To(int32(1)))
	check(t, "strategy", got.Spec.Strategy, noSurge())
	check(t, "pod", got.Spec.Template.Spec, corev1.PodSpec{
		ServiceAccountName:            "arc-gha-rs-controller",
		NodeSelector:                  map[string]string{"kubernetes.io/os": "linux"},
		TerminationGracePeriodSeconds: ptr.To(int64(10)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name:            "manager",
			Image:           controllerImage,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         []string{"/manager"},
			Args: []string{
				"--program=harrier", "--auto-scaling-runner-set-only", "--enable-leader-election", "--leader-election-id=arc-gha-rs-controller",
				"--log-level=debug", "--log-format=text",
				"--runner-max-concurrent-reconciles=2",
				"--listener-metrics-addr=0", "--listener-metrics-endpoint=", "--metrics-addr=0",
			},
			Env:          managerEnv(controllerImage),
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				ReadOnlyRootFilesystem:   ptr.To(true),
				RunAsNonRoot:             ptr.To(true),
			},
		}},
	})
}

func managerEnv(image string) []corev1.EnvVar {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	return []corev1.EnvVar{
		{Name: "CONTROLLER_MANAGER_CONTAINER_IMAGE", Value: image},
		{Name: "CONTROLLER_MANAGER_POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
		{Name: "CONTROLLER_MANAGER_POD_NAME", ValueFrom: field("metadata.name")},
	}
}

// Every value that becomes an argument, in the order of the arguments.
func TestManagerArguments(t *testing.T) {
	t.Parallel()
	got := manager(t, `
replicaCount: 2
imagePullSecrets: [{name: one}, {name: two}]
metrics: {controllerManagerAddr: ":8080", listenerAddr: ":8081", listenerEndpoint: /metrics}
pprof: {addr: ":6060"}
flags:
  logLevel: info
  logFormat: json
  watchSingleNamespace: team-a
  runnerMaxConcurrentReconciles: 4
  updateStrategy: eventual
  listenerTemplatePolicy: unrestricted
  listenerSidecarImages: ["logs:1", "logs@sha256:0"]
  listenerMetadataKeys: [app, "example.com/*"]
  listenerPriorityClasses: [high]
  excludeLabelPropagationPrefixes: [argocd.argoproj.io/, example.com/]
  allowedGitHubURLs: ["https://github.com/acme", "http://127.0.0.1:8080"]
  k8sClientRateLimiterQPS: 1000000
  k8sClientRateLimiterBurst: 60
  rateLimiter: {name: typed_rate_limiter}
  healthProbeBindAddress: ":8082"
`)
	check(t, "arguments", got.Args, []string{
		"--program=harrier", "--auto-scaling-runner-set-only", "--enable-leader-election", "--leader-election-id=arc-gha-rs-controller",
		"--auto-scaler-image-pull-secrets=one", "--auto-scaler-image-pull-secrets=two",
		"--log-level=info", "--log-format=json", "--watch-single-namespace=team-a",
		"--runner-max-concurrent-reconciles=4", "--listener-template-policy=unrestricted",
		"--listener-sidecar-images=logs:1", "--listener-sidecar-images=logs@sha256:0",
		"--listener-metadata-keys=app", "--listener-metadata-keys=example.com/*", "--listener-priority-classes=high",
		"--update-strategy=eventual", "--listener-metrics-addr=:8081", "--listener-metrics-endpoint=/metrics", "--metrics-addr=:8080",
		"--pprof-addr=:6060",
		"--exclude-label-propagation-prefix=argocd.argoproj.io/", "--exclude-label-propagation-prefix=example.com/",
		"--allowed-github-url=https://github.com/acme", "--allowed-github-url=http://127.0.0.1:8080",
		"--k8s-client-rate-limiter-qps=1000000", "--k8s-client-rate-limiter-burst=60",
		"--workqueue-rate-limiter=typed_rate_limiter", "--health-probe-bind-address=:8082",
	})
	check(t, "ports", got.Ports, []corev1.ContainerPort{
		{Name: "metrics", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
		{Name: "pprof", ContainerPort: 6060, Protocol: corev1.ProtocolTCP},
	})
	check(t, "liveness probe", got.LivenessProbe.HTTPGet.Path+got.LivenessProbe.HTTPGet.Port.String(), "/healthz8082")
	check(t, "its times", []int32{got.LivenessProbe.InitialDelaySeconds, got.LivenessProbe.PeriodSeconds}, []int32{15, 20})
	check(t, "readiness probe", got.ReadinessProbe.HTTPGet.Path+got.ReadinessProbe.HTTPGet.Port.String(), "/readyz8082")
	check(t, "its times", []int32{got.ReadinessProbe.InitialDelaySeconds, got.ReadinessProbe.PeriodSeconds}, []int32{5, 10})
}

// An administrator's limits become arguments that the manager reads, whatever the names contain.
func TestLimitsOfAnAdministrator(t *testing.T) {
	t.Parallel()
	got := manager(t, `
flags: {maxRunnersPerSet: 2000000, stripForeignFinalizers: false, watchNodes: false, vaultCertificateDirectory: "/akv: #1"}
vaults:
  - {url: "https://one.vault.azure.net", namespaces: [team-a], secretNames: "team-a-*"}
  - {url: "https://two.vault.azure.net/", namespaces: ["*"], secretNames: [a, '"b"<&']}
`).Args
	for _, argument := range []string{
		"--max-runners-per-set=2000000", "--strip-foreign-finalizers=false", "--watch-nodes=false", "--vault-certificate-directory=/akv: #1",
		`--vaults=[{"namespaces":["team-a"],"secretNames":"team-a-*","url":"https://one.vault.azure.net"},` +
			`{"namespaces":["*"],"secretNames":["a","\"b\"<&"],"url":"https://two.vault.azure.net/"}]`,
	} {
		check(t, argument, slices.Contains(got, argument), true)
	}
	for _, off := range []string{"vaults: []", "vaults:",
		"flags: {maxRunnersPerSet: 0, stripForeignFinalizers: true, watchNodes: true, vaultCertificateDirectory: ''}"} {
		check(t, off, manager(t, off).Args, manager(t).Args)
	}
}

func TestWrongLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for values, said := range map[string]string{
		"flags: {maxRunnersPerSet: -1}":                                             "maxRunnersPerSet",
		"flags: {maxRunnersPerSet: 2147483648}":                                     "maxRunnersPerSet",
		"flags: {vaultCertificateDirectory: akv}":                                   "vaultCertificateDirectory",
		"vaults: {url: x}":                                                          "vaults",
		`vaults: [{url: "https://v", namespaces: [a]}]`:                             "secretNames",
		`vaults: [{url: "https://v", secretNames: a}]`:                              "namespaces",
		`vaults: [{namespaces: [a], secretNames: a}]`:                               "url",
		`vaults: [{url: "http://v", namespaces: [a], secretNames: a}]`:              "url",
		`vaults: [{url: "https://v/secrets", namespaces: [a], secretNames: a}]`:     "url",
		`vaults: [{url: "https://v", namespaces: [], secretNames: a}]`:              "namespaces",
		`vaults: [{url: "https://v", namespaces: [a], secretNames: a/b}]`:           "secretNames",
		`vaults: [{url: "https://v", namespaces: [a], secretNames: a, secrets: b}]`: "secrets",
	} {
		checkContains(t, refusal(t, controller, values), said)
	}
}

// The address "0" turns off the metrics of the one program and not of the other.
func TestMetricsOfListenersOnly(t *testing.T) {
	t.Parallel()
	const rest = `listenerAddr: ":9090", listenerEndpoint: /metrics}` + "\npprof: {addr: ':6060'}"
	for _, off := range []string{"0", "'0'"} {
		got := manager(t, "metrics: {controllerManagerAddr: "+off+", "+rest)
		check(t, "ports", got.Ports, []corev1.ContainerPort{{Name: "pprof", ContainerPort: 6060, Protocol: corev1.ProtocolTCP}})
		check(t, "arguments", got.Args[7:], []string{
			"--listener-metrics-addr=:9090", "--listener-metrics-endpoint=/metrics", "--metrics-addr=0", "--pprof-addr=:6060",
		})
	}
	for address, port := range map[string]int32{"127.0.0.1:8080": 8080, "'[2001:db8::1]:9090'": 9090, "'[fe80::1%eth0]:1'": 1,
		"localhost:65535": 65535} {
		check(t, "port of "+address,
			manager(t, "metrics: {controllerManagerAddr: "+address+", "+rest).Ports[0].ContainerPort, port)
	}
}

// "0" turns off the servers of the other addresses, too: then the pod has no probes.
func TestServersThatAreOff(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		"pprof: {addr: '0'}\nflags: {healthProbeBindAddress: '0'}", "pprof: {addr: ''}\nhealthProbeBindAddress: ''",
		"pprof: {addr: 0}\nflags: {healthProbeBindAddress: 0}", "healthProbeBindAddress: 0",
		"healthProbeBindAddress: ':8081'\nflags: {healthProbeBindAddress: 0}",
	} {
		got := manager(t, values)
		check(t, "ports with "+values, len(got.Ports), 0)
		check(t, "probed with "+values, got.LivenessProbe != nil || got.ReadinessProbe != nil, false)
	}
}

// 0 in quotes means no limit, too: the manager refuses such a flag.
func TestRateLimitOfZeroIsNone(t *testing.T) {
	t.Parallel()
	for _, zero := range []string{"0", "'0'"} {
		got := manager(t, "flags: {k8sClientRateLimiterQPS: "+zero+", k8sClientRateLimiterBurst: "+zero+"}")
		check(t, zero, strings.Contains(strings.Join(got.Args, " "), "rate-limiter"), false)
	}
}

// Values that go into the pod as they are.
func TestControllerPodValues(t *testing.T) {
	t.Parallel()
	got := deployment(t, `
labels: {team: ci, number: 5}
image: {repository: registry.example.com/controller, tag: 1, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
podAnnotations: {example.com/a: b}
podLabels: {example.com/c: d}
podSecurityContext: {runAsUser: 1000, fsGroup: 2000}
securityContext: {readOnlyRootFilesystem: false}
resources: {limits: {memory: 512Mi}}
nodeSelector: {disk: ssd}
tolerations: [{key: ci, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
volumes: [{name: ca, configMap: {name: ca}}]
volumeMounts: [{name: ca, mountPath: /ca}]
priorityClassName: system-cluster-critical
`)
	pod := got.Spec.Template.Spec
	container := pod.Containers[0]
	check(t, "label", got.Labels["team"]+got.Labels["number"], "ci5")
	check(t, "image", container.Image, "registry.example.com/controller:1")
	check(t, "pull policy", container.ImagePullPolicy, corev1.PullAlways)
	check(t, "pull secrets", pod.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "registry"}})
	check(t, "environment", container.Env,
		append(managerEnv("registry.example.com/controller:1"), corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}))
	check(t, "pod annotation", got.Spec.Template.Annotations["example.com/a"], "b")
	check(t, "pod label", got.Spec.Template.Labels["example.com/c"], "d")
	check(t, "pod security", []int64{*pod.SecurityContext.RunAsUser, *pod.SecurityContext.FSGroup}, []int64{1000, 2000})
	check(t, "security", container.SecurityContext.ReadOnlyRootFilesystem, ptr.To(false))
	check(t, "memory", container.Resources.Limits.Memory().String(), "512Mi")
	check(t, "node selector", pod.NodeSelector, map[string]string{"disk": "ssd", "kubernetes.io/os": "linux"})
	for values, want := range map[string]map[string]string{
		"nodeSelector: {kubernetes.io/os: other}": {"kubernetes.io/os": "other"}, "nodeSelector: {kubernetes.io/os: null}": {},
	} {
		check(t, values, deployment(t, values).Spec.Template.Spec.NodeSelector, want)
	}
	check(t, "tolerations", pod.Tolerations, []corev1.Toleration{{Key: "ci", Operator: corev1.TolerationOpExists}})
	check(t, "affinity", pod.Affinity.NodeAffinity != nil && pod.Affinity.PodAntiAffinity == nil, true)
	check(t, "spread", pod.TopologySpreadConstraints[0].TopologyKey, "zone")
	check(t, "volumes", names(pod.Volumes, func(v corev1.Volume) string { return v.Name }), []string{"tmp", "ca"})
	check(t, "mounts", names(container.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }),
		[]string{"/tmp", "/ca"})
	check(t, "priority class", pod.PriorityClassName, "system-cluster-critical")
}

// selectorOfPods returns the selector of all other objects for the controller's pods. The Deployment's own can't be
// changed, and a scale set could give its listener the same labels.
func selectorOfPods(deployment appsv1.Deployment) *metav1.LabelSelector {
	selector := deployment.Spec.Selector.DeepCopy()
	selector.MatchLabels[v1alpha1.LabelPartOf], selector.MatchLabels[v1alpha1.LabelComponent] = "gha-rs-controller",
		"controller-manager"
	return selector
}

// Two replicas keep apart, and a node drain takes one at a time. An upgrade doesn't overlap: the version before may use
// no Lease.
func TestSeveralReplicas(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, "replicaCount: 2")
	got := one[appsv1.Deployment](t, rendered, "deployment.yaml")
	check(t, "strategy", got.Spec.Strategy, noSurge())
	terms := got.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	check(t, "anti-affinity", terms[0].PodAffinityTerm.LabelSelector, selectorOfPods(got))
	nodes := corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{}}
	for values, want := range map[string]*corev1.Affinity{
		"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}": {
			NodeAffinity: &nodes, PodAntiAffinity: got.Spec.Template.Spec.Affinity.PodAntiAffinity,
		},
		"affinity: {podAntiAffinity: {}}": {PodAntiAffinity: &corev1.PodAntiAffinity{}},
	} {
		check(t, values, deployment(t, "replicaCount: 2", values).Spec.Template.Spec.Affinity, want)
	}
	budget := one[policyv1.PodDisruptionBudget](t, rendered, "poddisruptionbudget.yaml")
	check(t, "budget", budget.Spec.MaxUnavailable.IntValue(), 1)
	check(t, "its pods", budget.Spec.Selector, selectorOfPods(got))
}

func TestControllerNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 70)
	for _, test := range []struct{ release, values, want, label string }{
		{"arc", "", "arc-gha-rs-controller", "gha-rs-controller"},
		{"my-gha-rs-controller", "", "my-gha-rs-controller", "gha-rs-controller"},
		{"arc", "nameOverride: ci", "arc-ci", "ci"},
		{"arc", "fullnameOverride: ci", "ci", "gha-rs-controller"},
		{"arc", "fullnameOverride: " + long, long[:63], "gha-rs-controller"},
		{"arc", "fullnameOverride: " + long[:62] + "-x", long[:62], "gha-rs-controller"},
		{"arc", "nameOverride: " + long, "arc-" + long[:59], long[:63]},
	} {
		got := one[appsv1.Deployment](t, render(t, controller.as(test.release, "arc-systems"), test.values), "deployment.yaml")
		check(t, "name with "+test.values, got.Name, test.want)
		check(t, "label with "+test.values, got.Labels["app.kubernetes.io/name"], test.label)
	}
	overridden := deployment(t, "namespaceOverride: elsewhere")
	check(t, "namespace", overridden.Namespace, "elsewhere")
	check(t, "label", overridden.Labels["actions.github.com/controller-service-account-namespace"], "elsewhere")
	single := deployment(t, singleNamespace)
	check(t, "label", single.Labels["actions.github.com/controller-watch-single-namespace"], "team-a")
}

func TestControllerServiceAccount(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, "serviceAccount: {name: own, annotations: {a: b}}\nlabels: {team: ci}")
	account := one[corev1.ServiceAccount](t, rendered, "serviceaccount.yaml")
	check(t, "account", account.Namespace+"/"+account.Name+" "+account.Annotations["a"]+" "+account.Labels["team"],
		"arc-systems/own b ci")

	rendered = render(t, controller, "serviceAccount: {create: false, name: own}")
	check(t, "accounts made", len(rendered["serviceaccount.yaml"]), 0)
	got := one[appsv1.Deployment](t, rendered, "deployment.yaml")
	check(t, "account of the pod", got.Spec.Template.Spec.ServiceAccountName, "own")
	check(t, "account for scale sets", got.Labels["actions.github.com/controller-service-account-name"], "own")
}

func TestControllerRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want string }{
		{"serviceAccount: {name: default}", "serviceAccount.name cannot be set to 'default'"},
		{"serviceAccount: {create: false}", "serviceAccount.name must be set if serviceAccount.create is false"},
		{"metrics: {controllerManagerAddr: here}", "Values.metrics.controllerManagerAddr must end with a numeric port"},
		{"metrics: {controllerManagerAddr: '::1:8080'}", "as in :8080 or [::1]:8080"},
		{"metrics: {controllerManagerAddr: 'http://localhost:8080'}", "no other colon"},
		{"metrics: {controllerManagerAddr: ':100000'}", "Values.metrics.controllerManagerAddr must end with a numeric port"},
		{"pprof: {addr: here}", "Values.pprof.addr must end with a numeric port"},
		{"metrics: {controllerManagerAddr: 8080}", "Values.metrics.controllerManagerAddr must end with a numeric port"},
		{"metrics: {controllerManagerAddr: ':8080', listenerAddr: '8080'}", "Values.metrics.listenerAddr must end with a numeric port"},
		{"pprof: {addr: '6060'}", "Values.pprof.addr must end with a numeric port"},
		{"flags: {healthProbeBindAddress: '8081'}", "Values.flags.healthProbeBindAddress must end with a numeric port"},
		{"flags: {healthProbeBindAddress: 8081}", "Values.flags.healthProbeBindAddress must end with a numeric port"},
		{"pprof: {addr: 6060}", "Values.pprof.addr must end with a numeric port"},
		{"healthProbeBindAddress: ':08081'", "Values.flags.healthProbeBindAddress must end with a numeric port"},
		{"imagePullSecrets: [{name: ''}]", "/imagePullSecrets/0/name"},
		{"flags: {excludeLabelPropagationPrefixes: ['']}", "/flags/excludeLabelPropagationPrefixes/0"},
		{"flags: {listenerTemplatePolicy: none}", "/flags/listenerTemplatePolicy"},
		{"flags: {listenerSidecarImages: ['']}", "/flags/listenerSidecarImages/0"},
		{"flags: {listenerMetadataKeys: ['']}", "/flags/listenerMetadataKeys/0"},
		{"flags: {listenerPriorityClasses: ['']}", "/flags/listenerPriorityClasses/0"},
		{"flags: {allowedGitHubURLs: [github.com/acme]}", "/flags/allowedGitHubURLs/0"},
		{"flags: {allowedGitHubURLs: ['https://user@github.com/acme']}", "/flags/allowedGitHubURLs/0"},
		{"flags: {allowedGitHubURLs: https://github.com}", "/flags/allowedGitHubURLs"},
		{"relicaCount: 2", "'relicaCount' not allowed"},
		{"flags: {logLvel: info}", "'logLvel' not allowed"},
		{"replicaCount: 0", "/replicaCount"},
		{"replicaCount: '0'", "/replicaCount"},
		{"flags: {k8sClientRateLimiterQPS: many}", "/flags/k8sClientRateLimiterQPS"},
		{"image: {digest: latest}", "/image/digest"},
	} {
		checkContains(t, refusal(t, controller, test.values), test.want)
	}
	for _, version := range []string{"1.29.0", "1.20.1"} {
		checkContains(t, refusal(t, controller.with("--kube-version", version)), "kubeVersion: >=1.30.0-0")
	}
}

// extended returns base with more.
func extended(base, more map[string]string) map[string]string {
	result := maps.Clone(base)
	maps.Copy(result, more)
	return result
}
