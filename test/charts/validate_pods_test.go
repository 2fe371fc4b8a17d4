package charts

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/validation"
)

// runnerWith is a runner's container with more fields.
func runnerWith(fields string) string {
	return "containers: [{name: runner, image: i, command: [run], " + fields + "}]"
}

// podSpecs are specs of runner pods, right and wrong. The API server decides which are wrong.
var podSpecs = []string{
	runnerWith("imagePullPolicy: Always"), runnerWith("imagePullPolicy: always"), runnerWith("imagePullPolicy: ''"), runnerWith("terminationMessagePolicy: Logs"),
	runnerWith("volumeMounts: [{name: cache, mountPath: /cache}]"), runnerWith("volumeMounts: [{name: cache, mountPath: /cache}]") + "\nvolumes: [{name: cache, emptyDir: {}}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: /a}, {name: cache, mountPath: /a}]") + "\nvolumes: [{name: cache}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: /a, subPath: ../b}]") + "\nvolumes: [{name: cache}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: /a, subPath: /b}]") + "\nvolumes: [{name: cache}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: /a, subPath: b, subPathExpr: c}]") + "\nvolumes: [{name: cache}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: /a, mountPropagation: Bidirectional}]") + "\nvolumes: [{name: cache}]",
	runnerWith("securityContext: {privileged: true}, volumeMounts: [{name: cache, mountPath: /a, mountPropagation: Bidirectional}]") + "\nvolumes: [{name: cache}]",
	runnerWith("volumeMounts: [{name: cache, mountPath: 'C:\\a'}, {name: cache, mountPath: 'a:b'}]") + "\nvolumes: [{name: cache}]",
	runnerWith("env: [{name: A}, {name: a.b-c}]"), runnerWith("env: [{name: 'a=b'}]"), runnerWith("env: [{name: ''}]"), runnerWith("env: [{name: A}, {name: A}]"),
	runnerWith("env: [{name: A, valueFrom: {}}]"), runnerWith("env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
	runnerWith("env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: b}}}]"),
	runnerWith("env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}]"), runnerWith("env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}]"),
	runnerWith("env: [{name: A, valueFrom: {secretKeyRef: {name: '', key: b}}}]"), runnerWith("env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: 'b c'}}}]"),
	runnerWith("env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: b, optional: true}}}]"),
	runnerWith("envFrom: [{}]"), runnerWith("envFrom: [{secretRef: {name: a}, configMapRef: {name: b}}]"), runnerWith("envFrom: [{secretRef: {}}]"), runnerWith("envFrom: [{prefix: P_, secretRef: {name: a}}]"),
	runnerWith("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), runnerWith("resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}"),
	runnerWith("resources: {limits: {gpu: 1}}"), runnerWith("resources: {limits: {nvidia.com/gpu: 1}}"), runnerWith("resources: {requests: {nvidia.com/gpu: 1}}"),
	runnerWith("resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"), runnerWith("resources: {limits: {nvidia.com/gpu: 500m}}"), runnerWith("resources: {limits: {cpu: '-1'}}"),
	runnerWith("resources: {requests: {ephemeral-storage: 1Gi}}"), runnerWith("resources: {requests: {storage: 1Gi}}"), runnerWith("resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}"),
	runnerWith("resources: {requests: {cpu: 1.5}}"), runnerWith("resources: {requests: {cpu: '1.5'}}"), runnerWith("resources: {requests: {cpu: 2.0}}"),
	runnerWith("ports: [{containerPort: 0}]"), runnerWith("ports: [{containerPort: 70000}]"), runnerWith("ports: [{containerPort: 80, protocol: HTTP}]"), runnerWith("ports: [{containerPort: 80, name: a_b}]"),
	runnerWith("ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]"), runnerWith("ports: [{containerPort: 80, hostPort: 99999}]"), runnerWith("ports: [{containerPort: 80, name: web, protocol: TCP}]"),
	runnerWith("livenessProbe: {}"), runnerWith("livenessProbe: {exec: {command: [a]}, successThreshold: 2}"), runnerWith("readinessProbe: {exec: {command: [a]}, successThreshold: 2}"),
	runnerWith("livenessProbe: {exec: {command: [a]}, httpGet: {port: 80}}"), runnerWith("livenessProbe: {exec: {}}"), runnerWith("livenessProbe: {httpGet: {port: 0}}"),
	runnerWith("livenessProbe: {httpGet: {port: web, scheme: https}}"), runnerWith("livenessProbe: {tcpSocket: {port: 80}, periodSeconds: -1}"), runnerWith("startupProbe: {grpc: {port: 80}, failureThreshold: 24}"),
	runnerWith("lifecycle: {preStop: {}}"), runnerWith("lifecycle: {preStop: {exec: {command: [a]}}}"), runnerWith("lifecycle: {postStart: {exec: {}}}"), runnerWith("lifecycle: {preStop: {sleep: {seconds: 1}}}"),
	runnerWith("securityContext: {runAsUser: -1}"), runnerWith("securityContext: {runAsUser: 0, runAsGroup: 2147483647}"), runnerWith("securityContext: {privileged: true, allowPrivilegeEscalation: false}"),
	runnerWith("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}"), runnerWith("securityContext: {procMount: Unmasked}") + "\nhostUsers: false",
	runnerWith("securityContext: {seccompProfile: {type: Default}}"), runnerWith("securityContext: {seccompProfile: {type: Localhost}}"),
	runnerWith("securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}"), runnerWith("securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}}"),
	"containers: [{name: runner, image: ' i'}]", "containers: [{name: Runner, image: i}, {name: runner, image: i}]", "containers: [{name: a_b, image: i}]", "containers: [{name: a}, {name: runner, image: i}]",
	runnerWith("") + "\ninitContainers: [{name: runner, image: i}]", runnerWith("") + "\ninitContainers: [{name: a, image: i}, {name: a, image: i}]", runnerWith("") + "\ninitContainers: [{name: a}]",
	runnerWith("") + "\ninitContainers: [{name: a, image: i, readinessProbe: {exec: {command: [a]}}}]",
	runnerWith("") + "\ninitContainers: [{name: a, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]",
	runnerWith("") + "\ninitContainers: [{name: a, image: i, lifecycle: {preStop: {exec: {command: [a]}}}}]",
	runnerWith("") + "\nvolumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]", runnerWith("") + "\nvolumes: [{name: a, hostPath: {path: /a, type: Dir}}]",
	runnerWith("") + "\nvolumes: [{name: a, hostPath: {path: /a, type: ''}}]", runnerWith("") + "\nvolumes: [{name: a, hostPath: {path: /../a}}]", runnerWith("") + "\nvolumes: [{name: a, secret: {}}]",
	runnerWith("") + "\nvolumes: [{name: a, configMap: {}}]", runnerWith("") + "\nvolumes: [{name: a_b, emptyDir: {}}]", runnerWith("") + "\nvolumes: [{name: a, persistentVolumeClaim: {claimName: ''}}]",
	runnerWith("") + "\nvolumes: [{name: a, secret: {secretName: b, defaultMode: 0600}}]", runnerWith("") + "\nvolumes: [{name: a, secret: {secretName: b, defaultMode: 600}}]",
	runnerWith("") + "\nvolumes: [{name: a, configMap: {name: b, items: [{key: c, path: ../d}]}}]", runnerWith("") + "\nvolumes: [{name: a, configMap: {name: b, items: [{key: c, path: ''}]}}]",
	runnerWith("") + "\nvolumes: [{name: a, nfs: {server: s, path: a}}]", runnerWith("") + "\nvolumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]", runnerWith("") + "\nvolumes: [{name: a, emptyDir: {sizeLimit: '-1'}}]",
	runnerWith("") + "\nvolumes: [{name: a, projected: {sources: [{secret: {name: b}}, {serviceAccountToken: {path: c}}]}}]", runnerWith("") + "\nvolumes: [{name: a, projected: {sources: [{secret: {}}]}}]",
	runnerWith("") + "\nvolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [RWO], resources: {requests: {storage: 1Gi}}}}}}]",
	runnerWith("") + "\nvolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}}}}]",
	runnerWith("") + "\nvolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]", runnerWith("") + "\nvolumes: [{name: a, ephemeral: {}}]",
	runnerWith("") + "\ndnsPolicy: clusterFirst", runnerWith("") + "\ndnsPolicy: None", runnerWith("") + "\ndnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.1]}", runnerWith("") + "\npreemptionPolicy: Sometimes",
	runnerWith("") + "\ndnsConfig: {nameservers: [dns.example]}", runnerWith("") + "\ndnsConfig: {searches: [A.example]}",
	runnerWith("") + "\ndnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}",
	runnerWith("") + "\nvolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: Fast_SSD, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]",
	runnerWith("") + "\ndnsConfig: {nameservers: ['2001:4860:4860:0:0:0:0:8888']}\nhostAliases: [{ip: 'FD00::1', hostnames: [b]}]",
	runnerWith("env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.host}}}]"), runnerWith("resources: {requests: {cpu: 1500u}, limits: {cpu: 1400u}}"),
	runnerWith("") + "\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: zone_, whenUnsatisfiable: ScheduleAnyway}]", runnerWith("") + "\nos: {name: windows}\nsecurityContext: {sysctls: []}",
	runnerWith("") + "\nactiveDeadlineSeconds: 0", runnerWith("") + "\nactiveDeadlineSeconds: 60", runnerWith("") + "\nterminationGracePeriodSeconds: -1", runnerWith("") + "\nshareProcessNamespace: true\nhostPID: true",
	runnerWith("") + "\nhostname: a.b", runnerWith("") + "\nsubdomain: a_b", runnerWith("") + "\nserviceAccountName: A", runnerWith("") + "\nhostAliases: [{ip: a, hostnames: [b]}]", runnerWith("") + "\nnodeName: a b",
	runnerWith("") + "\nnodeSelector: {a b: c}", runnerWith("") + "\nnodeSelector: {a: 'b c'}", runnerWith("") + "\nnodeSelector: {example.com/a: ''}", runnerWith("") + "\nimagePullSecrets: [{name: a}]",
	runnerWith("") + "\nsecurityContext: {fsGroup: -1}", runnerWith("") + "\nsecurityContext: {fsGroupChangePolicy: Never}", runnerWith("") + "\nsecurityContext: {fsGroup: 1001, fsGroupChangePolicy: OnRootMismatch, supplementalGroups: [1]}",
	runnerWith("") + "\nsecurityContext: {supplementalGroups: [-1]}", runnerWith("") + "\nsecurityContext: {seccompProfile: {type: Unconfined}}",
	runnerWith("") + "\ntolerations: [{}]", runnerWith("") + "\ntolerations: [{operator: Exists}]", runnerWith("") + "\ntolerations: [{key: a}]", runnerWith("") + "\ntolerations: [{key: a, operator: Exists, value: b}]",
	runnerWith("") + "\ntolerations: [{key: a, operator: exists}]", runnerWith("") + "\ntolerations: [{key: a, effect: NoSchdule}]", runnerWith("") + "\ntolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 1}]",
	runnerWith("") + "\ntolerations: [{key: a/b/c, operator: Exists}]", runnerWith("") + "\ntolerations: [{key: a, value: 'b c'}]", runnerWith("") + "\ntolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 1}]",
	runnerWith("") + "\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}",
	runnerWith("") + "\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}",
	runnerWith("") + "\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}}}",
	runnerWith("") + "\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]}}}",
	runnerWith("") + "\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}]}}}",
	runnerWith("") + "\naffinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}",
	runnerWith("") + "\naffinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: '', labelSelector: {matchLabels: {a: b}}}]}}",
	runnerWith("") + "\naffinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a}}]}}",
	runnerWith("") + "\naffinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]}}",
	runnerWith("") + "\naffinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: b}}}}]}}",
	runnerWith("") + "\ntopologySpreadConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]", runnerWith("") + "\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: Never}]",
	runnerWith("") + "\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: '', whenUnsatisfiable: ScheduleAnyway}]", runnerWith("") + "\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]",
	runnerWith("") + "\nos: {name: windows}\nsecurityContext: {fsGroup: 1}", runnerWith("") + "\nos: {name: windows}\nsecurityContext: {runAsNonRoot: true, windowsOptions: {runAsUserName: a}}",
	runnerWith("securityContext: {capabilities: {drop: [ALL]}}") + "\nos: {name: windows}", runnerWith("") + "\nos: {name: linux}\nsecurityContext: {windowsOptions: {runAsUserName: a}}", runnerWith("") + "\nos: {name: macos}",
	runnerWith("") + "\nos: {name: windows}\nhostPID: true", runnerWith("securityContext: {windowsOptions: {runAsUserName: a}}") + "\nos: {name: windows}",
}

// newerPodSpecs are right since Kubernetes 1.34, and wrong on the oldest one that is supported. Validate, which knows
// no cluster, takes them.
var newerPodSpecs = []string{
	runnerWith("env: [{name: 'a b'}, {name: 1A}]"),
	runnerWith("") + "\ndnsConfig: {nameservers: [10.0.0.1], searches: [a_b.example., .]}",
}

// validate refuses a runner's pod exactly if a real API server refuses the set, or the pod that the manager makes of
// it.
func TestValidateAgreesWithTheAPIServerOnPods(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	refusedOnes, specs := 0, podSpecs
	if minorVersion(t, cluster) >= 34 {
		specs = slices.Concat(podSpecs, newerPodSpecs)
	}
	for _, spec := range specs {
		template := "spec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ")
		manifest := "apiVersion: actions.github.com/v1alpha1\nkind: AutoscalingRunnerSet\nmetadata: {name: a, " +
			"namespace: " +
			namespace + "}\nspec:\n" +
			"  githubConfigUrl: https://github.com/acme\n  githubConfigSecret: gh\n  template:\n    " +
			strings.ReplaceAll(template, "\n", "\n    ")
		refused := refusalOfSet(t, cluster, namespace, manifest, template)
		if refused != nil {
			refusedOnes++
		}
		findings, err := validation.Validate([]byte(manifest), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, finding := range findings {
			if finding.Reason == "InvalidManifest" || finding.Reason == "InvalidVolumeClaim" {
				said = append(said, finding.Message)
			}
		}
		if (refused != nil) != (len(said) > 0) {
			t.Errorf("%s\nvalidate says:       %q\nthe API server says: %v", spec, said, refused)
		}
	}
	if refusedOnes < 60 || refusedOnes > len(specs)-40 {
		t.Errorf("%d of %d are refused, so that little is compared", refusedOnes, len(specs))
	}
}

// minorVersion returns the 34 of Kubernetes 1.34.
func minorVersion(t *testing.T, cluster *testkube.Cluster) int {
	t.Helper()
	version, err := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config()).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

// refusalOfSet returns the API server's error for a set, or else for a pod of its template.
func refusalOfSet(t *testing.T, cluster *testkube.Cluster, namespace, manifest, template string) error {
	t.Helper()
	set := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &set.Object); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Create(t.Context(), set, client.DryRunAll,
		client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		return err
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(template), pod); err != nil {
		t.Fatal(err)
	}
	pod.Namespace, pod.Name = namespace, "runner"
	if pod.Spec.ServiceAccountName == "" { // those of tests that name one are wrong
		pod.Spec.ServiceAccountName = "default"
	}
	return cluster.Client().Create(t.Context(), pod, client.DryRunAll,
		client.FieldValidation(metav1.FieldValidationStrict))
}
