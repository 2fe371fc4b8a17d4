package listenertemplate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// policy is the restricted one with an image for further containers, and a class.
var policy = listenertemplate.Policy{SidecarImages: []string{"logs:1"}, PriorityClasses: []string{"a", "high"}}

// paths returns the paths of what was refused, without the template's own place, at which those in it begin.
func paths(refused listenertemplate.Refusals) []string {
	found := []string{}
	for _, refusal := range refused.First {
		path, inTemplate := strings.CutPrefix(refusal.Path, "listenerTemplate.")
		if !inTemplate && (strings.HasPrefix(path, "spec") || strings.HasPrefix(path, "metadata")) {
			path = "(no place) " + path
		}
		found = append(found, path)
	}
	return found
}

func template(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	parsed := &corev1.PodTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), parsed); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return parsed
}

// Everything that a set may choose stays as it is.
func TestKept(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`metadata: {labels: {team: a}, annotations: {prometheus.io/scrape: "true", sidecar.istio.io/inject: "false",` +
			` linkerd.io/inject: disabled}}`,
		`spec: {nodeSelector: {pool: system}, tolerations: [{key: pool, operator: Exists}], schedulerName: mine,` +
			` priorityClassName: high}`,
		`spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}`,
		`spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway,` +
			` labelSelector: {matchLabels: {a: b}}}]}`,
		`spec: {imagePullSecrets: [{name: pull}], dnsConfig: {nameservers: [10.0.0.1]}, hostAliases: [{ip: 10.0.0.2,` +
			` hostnames: [ghes]}], terminationGracePeriodSeconds: 90}`,
		`spec: {automountServiceAccountToken: false}`,
		`spec: {securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, supplementalGroups: [7],` +
			` runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}}`,
		`spec: {containers: [{name: listener, imagePullPolicy: Always, resources: {limits: {memory: 64Mi}, requests: {cpu: 10m}}}]}`,
		`spec: {containers: [{name: listener, livenessProbe: {httpGet: {path: /healthz, port: 8081},` +
			` periodSeconds: 5}, readinessProbe: {tcpSocket: {port: 8081}}}]}`,
		`spec: {containers: [{name: listener, env: [{name: A, value: b}, {name: GITHUB_ACTIONS_FORCE_GHES, value: "1"}, {name: GOGC, value: "50"},
			{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: C, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}]}]}`,
		`spec: {volumes: [{name: ca, configMap: {name: ca, defaultMode: 292, items: [{key: a, path: b}]}}, {name: tmp, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: plain}],
			containers: [{name: listener, volumeMounts: [{name: ca, mountPath: /etc/ssl/certs/own.pem, subPath: b, readOnly: true}, {name: tmp, mountPath: /tmp}, {name: plain, mountPath: /etc/gha}]}]}`,
		`spec: {containers: [{name: listener, securityContext: {runAsUser: 5, runAsNonRoot: true, readOnlyRootFilesystem: false, privileged: false, allowPrivilegeEscalation: false,
			capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}, seccompProfile: {type: Localhost, localhostProfile: p}, appArmorProfile: {type: RuntimeDefault}}}]}`,
		`spec: {volumes: [{name: tmp, emptyDir: {}}], containers: [{name: logs, image: "logs:1", imagePullPolicy: Always, command: [a], args: [b], workingDir: /, ports: [{containerPort: 80}],
			env: [{name: HTTPS_PROXY, value: p}], volumeMounts: [{name: tmp, mountPath: /etc/gha-listener}],
			livenessProbe: {tcpSocket: {port: 80}},
			securityContext: {allowPrivilegeEscalation: false, runAsUser: 3, capabilities: {drop: [ALL]}}}]}`,
	} {
		given := template(t, text)
		accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
		if diff := cmp.Diff(template(t, text), accepted.Template); diff != "" || len(accepted.Refused.First) > 0 {
			t.Errorf("%s: refused %v (-want +got):\n%s", text, accepted.Refused.First, diff)
		}
	}
}

func inListener(fields string) string {
	return "spec: {containers: [{name: listener, " + fields + "}]}"
}

func inSidecar(fields string) string {
	return `spec: {containers: [{name: logs, image: "logs:1", ` + fields + "}]}"
}

const ofListener, ofSidecar = "spec.containers[listener].", "spec.containers[logs]."

// refused are templates with the paths that the restricted policy leaves out.
var refused = map[string][]string{
	inListener("image: i"):                                    {ofListener + "image"},
	inListener("command: [c]"):                                {ofListener + "command"},
	inListener("args: [a]"):                                   {ofListener + "args"},
	inListener("workingDir: /a"):                              {ofListener + "workingDir"},
	inListener("stdin: true"):                                 {ofListener + "stdin"},
	inListener("lifecycle: {preStop: {sleep: {seconds: 1}}}"): {ofListener + "lifecycle"},
	inListener("livenessProbe: {exec: {command: [c]}, periodSeconds: 1}"): {
		ofListener + "livenessProbe.exec",
	},
	inListener("startupProbe: {grpc: {port: 1}}"):    {ofListener + "startupProbe.grpc"},
	inListener("readinessProbe: {periodSeconds: 1}"): {ofListener + "readinessProbe"},
	inListener("readinessProbe: {httpGet: {port: 1, host: 169.254.169.254}}"): {
		ofListener + "readinessProbe.httpGet.host",
	},
	inListener("livenessProbe: {tcpSocket: {port: 1, host: other}}"): {
		ofListener + "livenessProbe.tcpSocket.host",
	},
	inListener("livenessProbe: {tcpSocket: {port: 1}, exec: {command: [c]}}"): {
		ofListener + "livenessProbe.exec",
	},
	inListener("envFrom: [{secretRef: {name: s}}]"): {ofListener + "envFrom"},
	inListener("env: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}]"): {
		ofListener + "env[T].valueFrom.secretKeyRef",
	},
	inListener("env: [{name: T, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]"): {
		ofListener + "env[T].valueFrom",
	},
	inListener("env: [{name: T, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v}}}]"): {
		ofListener + "env[T].valueFrom",
	},
	inListener("volumeDevices: [{name: d, devicePath: /dev/d}]"): {ofListener + "volumeDevices"},
	inListener("ports: [{containerPort: 1, hostPort: 1}]"):       {ofListener + "ports"},
	inListener("resources: {claims: [{name: gpu}]}"):             {ofListener + "resources.claims"},
	inListener("volumeMounts: [{name: listener-config, mountPath: /a}]"): {
		ofListener + "volumeMounts[/a]",
	},
	inListener("securityContext: {runAsUser: 0}"): {ofListener + "securityContext.runAsUser"},
	inListener("securityContext: {runAsNonRoot: false}"): {
		ofListener + "securityContext.runAsNonRoot",
	},
	inListener("securityContext: {privileged: true}"): {ofListener + "securityContext.privileged"},
	inListener("securityContext: {allowPrivilegeEscalation: true}"): {
		ofListener + "securityContext.allowPrivilegeEscalation",
	},
	inListener("securityContext: {capabilities: {drop: [NET_RAW], add: [SYS_ADMIN]}}"): {
		ofListener + "securityContext.capabilities.drop", ofListener + "securityContext.capabilities.add",
	},
	inListener("securityContext: {procMount: Unmasked}"): {
		ofListener + "securityContext.procMount",
	},
	inListener("securityContext: {seLinuxOptions: {type: t}}"): {
		ofListener + "securityContext.seLinuxOptions",
	},
	inListener("securityContext: {seccompProfile: {type: Unconfined}}"): {
		ofListener + "securityContext.seccompProfile",
	},
	inListener("securityContext: {appArmorProfile: {type: Localhost, localhostProfile: p}}"): {
		ofListener + "securityContext.appArmorProfile",
	},
	inListener("securityContext: {windowsOptions: {hostProcess: true}}"): {
		ofListener + "securityContext.windowsOptions",
	},
	"spec: {containers: [{name: listener}, {name: listener, image: i}]}": {
		"spec.containers[listener]",
	},
	"spec: {containers: [{name: other, image: i, env: [{name: A, value: b}]}]}": {
		"spec.containers[other].image",
	},
	"spec: {containers: [{name: other}]}": {"spec.containers[other].image"},
	"spec: {initContainers: [{name: i, image: 'logs:1', restartPolicy: Always}]}": {
		"spec.initContainers[i]",
	},
	inSidecar("restartPolicy: Never"):                     {ofSidecar + "restartPolicy"},
	inSidecar("ports: [{containerPort: 1, hostPort: 1}]"): {ofSidecar + "ports[1].hostPort"},
	inSidecar("securityContext: {runAsUser: 0, capabilities: {add: [NET_ADMIN]}}"): {
		ofSidecar + "securityContext.runAsUser", ofSidecar + "securityContext.capabilities.add",
	},
	inSidecar("volumeMounts: [{name: listener-token, mountPath: /t}]"): {
		ofSidecar + "volumeMounts[/t]",
	},
	inSidecar("env: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}]"): {
		ofSidecar + "env[T].valueFrom.secretKeyRef",
	},
	"spec: {volumes: [{name: listener-config, emptyDir: {}}, {name: listener-token}]}": {
		"spec.volumes[listener-config]", "spec.volumes[listener-token]",
	},
	"spec: {volumes: [{name: a, emptyDir: {}}, {name: a, configMap: {name: c}}]}": {"spec.volumes[a]"},
	"spec: {volumes: [{name: a, emptyDir: {}, secret: {secretName: s}}]}": {
		"spec.volumes[a].secret",
	},
	"spec: {hostNetwork: true, hostPID: true, hostIPC: true, hostUsers: false}": {
		"spec.hostIPC", "spec.hostNetwork", "spec.hostPID", "spec.hostUsers",
	},
	"spec: {shareProcessNamespace: true, nodeName: n, runtimeClassName: r}": {
		"spec.nodeName", "spec.runtimeClassName", "spec.shareProcessNamespace",
	},
	"spec: {serviceAccountName: a, serviceAccount: a, automountServiceAccountToken: true}": {
		"spec.automountServiceAccountToken", "spec.serviceAccount", "spec.serviceAccountName",
	},
	"spec: {resourceClaims: [{name: gpu}], dnsPolicy: None, restartPolicy: Never}": {
		"spec.dnsPolicy", "spec.resourceClaims", "spec.restartPolicy",
	},
	"spec: {priorityClassName: system-node-critical, priority: 5}": {
		"spec.priority", "spec.priorityClassName",
	},
	"spec: {securityContext: {sysctls: [{name: a, value: b}], runAsUser: 0}}": {
		"spec.securityContext.runAsUser", "spec.securityContext.sysctls",
	},
	"spec: {securityContext: {seccompProfile: {type: Unconfined}, runAsNonRoot: false}}": {
		"spec.securityContext.runAsNonRoot", "spec.securityContext.seccompProfile",
	},
	"metadata: {name: n, namespace: kube-system, finalizers: [a/b]}": {
		"metadata.finalizers", "metadata.name", "metadata.namespace",
	},
	"metadata: {labels: {app.kubernetes.io/name: n}, annotations: {eks.amazonaws.com/r: arn}}": {
		"metadata.annotations[eks.amazonaws.com/r]", "metadata.labels[app.kubernetes.io/name]",
	},
}

// Every entry is refused under its own path, and nothing else with it but what depends on it.
func TestRefused(t *testing.T) {
	for text, want := range refused {
		checkRefused(t, text, want)
	}
}

func checkRefused(t *testing.T, text string, want []string) {
	t.Helper()
	accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: template(t, text)})
	if diff := cmp.Diff(sorted(want), sorted(paths(accepted.Refused))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", text, diff)
	}
	for _, refusal := range accepted.Refused.First {
		if refusal.Reason == "" {
			t.Errorf("%s: no reason", refusal.Path)
		}
	}
}

// Volumes of all kinds that Kubernetes knows besides the two are left out, together with their mounts. The path shows
// the kind.
func TestVolumesOfOtherKinds(t *testing.T) {
	for _, kind := range []string{
		"secret: {secretName: s}", "secret: {}", "hostPath: {path: /}",
		"projected: {sources: [{serviceAccountToken: {path: t}}]}", "persistentVolumeClaim: {claimName: c}",
		"downwardAPI: {items: []}", "csi: {driver: secrets-store.csi.k8s.io}", "nfs: {server: s, path: /}",
		"ephemeral: {}", "image: {reference: i}",
	} {
		name, _, _ := strings.Cut(kind, ":")
		text := "spec: {volumes: [{name: v, " + kind +
			"}, {name: c, configMap: {name: c}}], containers: [{name: listener, volumeMounts: [{name: v, mountPath: " +
			"/v}, {name: c, mountPath: /c}]}]}"
		checkRefused(t, text, []string{"spec.volumes[v]." + name, "spec.containers[listener].volumeMounts[/v]"})
		kept := policy.Template(template(t, text)).Spec
		if len(kept.Volumes) != 1 || len(kept.Containers[0].VolumeMounts) != 1 {
			t.Errorf(
				"%s: %d volumes and %d mounts are left", kind, len(kept.Volumes), len(kept.Containers[0].VolumeMounts),
			)
		}
	}
}

// A volume must not hide the program, the configuration or the token, from above or from below.
func TestMountsOverTheListenersOwn(t *testing.T) {
	for path, refused := range map[string]bool{
		"/ghalistener": true, "/": true, "/etc": true, "/etc/gha-listener": true, "/etc/gha-listener/config.json": true,
		"/etc/../etc/gha-listener/": true, "etc/gha-listener": true,
		"/var/run": true, listenertemplate.TokenPath: true, listenertemplate.TokenPath + "/token": true, "/proc/self": true, "/dev/shm": true,
		"/sys": true,
		"/tmp": false, "/etc/ssl/certs": false, "/ghalistener2": false, "/etc/gha-listener-more": false,
		"/variable": false, "/process": false,
	} {
		text := "spec: {volumes: [{name: v}], containers: [{name: listener, volumeMounts: [{name: v, mountPath: " +
			path + "}]}]}"
		want := []string{}
		if refused {
			want = append(want, "spec.containers[listener].volumeMounts["+path+"]")
		}
		checkRefused(t, text, want)
	}
	other := listenertemplate.Policy{Program: "/opt/listener"}.Template(template(
		t, "spec: {volumes: [{name: v}], containers: [{name: listener, volumeMounts: [{name: v, mountPath: /opt}]}]}",
	))
	if len(other.Spec.Containers[0].VolumeMounts) > 0 {
		t.Error("a volume hides the program")
	}
	for _, more := range []string{
		"mountPropagation: Bidirectional", "subPathExpr: $(A)", "recursiveReadOnly: Enabled",
	} {
		checkRefused(t, "spec: {volumes: [{name: v}], containers: [{name: listener, volumeMounts: [{name: v, "+
			"mountPath: /a, "+more+"}]}]}",
			[]string{"spec.containers[listener].volumeMounts[/a]"})
	}
}

func TestVariables(t *testing.T) {
	for name, refused := range map[string]bool{
		"KUBERNETES_SERVICE_HOST": true, "KUBECONFIG": true, "LISTENER_CONFIG_PATH": true, "LISTENER_HEALTH_ADDR": true,
		"GODEBUG": true, "LD_PRELOAD": true,
		"SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "HTTP_PROXY": true, "https_proxy": true, "No_Proxy": true,
		"ALL_PROXY": true,
		"MY_PROXY":  false, "GOMEMLIMIT": false, "TZ": false, "KUBE": false, "GODEBU": false,
	} {
		want := []string{}
		if refused {
			want = append(want, "spec.containers[listener].env["+name+"]")
		}
		checkRefused(t, "spec: {containers: [{name: listener, env: [{name: "+name+", value: v}]}]}", want)
	}
}

// An image is allowed exactly as it is written.
func TestSidecarImages(t *testing.T) {
	for image, want := range map[string]int{
		"logs:1":                   1,
		"logs":                     0,
		"logs:1@sha256:0":          0,
		"logs:10":                  0,
		"docker.io/library/logs:1": 0,
		"":                         0,
	} {
		kept := policy.Template(template(t, "spec: {containers: [{name: a, image: '"+image+"'}]}")).Spec.Containers
		if len(kept) != want {
			t.Errorf("image %q: %d containers are left", image, len(kept))
		}
	}
	listed := listenertemplate.Policy{SidecarImages: []string{""}}
	if got := listed.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: template(
		t, "spec: {containers: [{name: listener, image: i}]}",
	)}); got.Template.Spec.Containers[0].Image != "" {
		t.Error("the listener's image can be chosen")
	}
}

// ARC's image is told from ours by its publisher's name.
func TestARCImages(t *testing.T) {
	for image, want := range map[string]bool{
		"ghcr.io/actions/gha-runner-scale-set-controller:0.14.2":                                     true,
		"GHCR.io/Actions/gha-runner-scale-set-controller":                                            true,
		"ghcr.io/actions/gha-runner-scale-set-controller@sha256:00":                                  true,
		"registry.example.com:5000/ghcr.io/actions/gha-runner-scale-set-controller:0.14.2@sha256:00": true,
		" registry.example.com/ghcr.io/actions-runner-controller/actions-runner-controller":          true,
		"summerwind/actions-runner-controller:v0.27.6":                                               true,
		"docker.io/summerwind/actions-runner-controller":                                             true,
		"index.docker.io/summerwind/actions-runner-controller@sha256:00":                             true,
		// These may be mirrors of Harrier's.
		"registry.example.com:5000/mirror/gha-runner-scale-set-controller":                       false,
		"gha-runner-scale-set-controller:0.9.3":                                                  false,
		"registry.example.com/actions/gha-runner-scale-set-controller":                           false,
		"registry.example.com/actions-gha-runner-scale-set-controller:1":                         false,
		"registry.example.com/mirror/gha-runner-scale-set-controller:0.7.0":                      false,
		"ghcr.io/harrier-ci/gha-runner-scale-set-controller:0.1.0":                               false,
		"registry.example.com:5000/ghcr.io/harrier-ci/gha-runner-scale-set-controller@sha256:00": false,
		"registry.example.com/Harrier/gha-runner-scale-set-controller:0.14.2":                    false,
		"registry.example.com/mirror/harrier-gha-runner-scale-set-controller":                    false,
		"registry.example.com/team/harrier:0.1.0":                                                false,
		"registry.example.com/gha-runner-scale-set-controller/sidecar:1":                         false,
		"ghcr.io/actions/actions-runner:latest":                                                  false,
	} {
		if got := listenertemplate.IsARCImage(image); got != want {
			t.Errorf("%q is ARC's: %t, want %t", image, got, want)
		}
		spec := &v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: template(
			t, "spec: {containers: [{name: listener, image: '"+image+"', env: [{name: A}]}]}",
		)}
		left := image
		if want {
			left = ""
		}
		kept := listenertemplate.Policy{Unrestricted: true}.Accept(spec).Template.Spec.Containers[0]
		if kept.Image != left || len(kept.Env) != 1 || spec.ListenerTemplate.Spec.Containers[0].Image != image {
			t.Errorf("unrestricted: of %q is left %+v", image, kept)
		}
		for _, p := range []listenertemplate.Policy{policy, {Unrestricted: true}} {
			accepted := p.Accept(spec)
			named := slices.Contains(accepted.Refused.First, listenertemplate.Refusal{
				Path:   "listenerTemplate.spec.containers[listener].image",
				Reason: listenertemplate.ReasonARCImage,
			})
			if named != want || (want && len(accepted.Refused.First) != 1) {
				t.Errorf("%s: of %q is refused %v", p.Name(), image, accepted.Refused.First)
			}
			if diff := cmp.Diff(accepted.Template, p.Template(spec.ListenerTemplate)); diff != "" {
				t.Errorf("%s: with and without a report (-with +without):\n%s", p.Name(), diff)
			}
		}
	}
}

func TestUnrestricted(t *testing.T) {
	spec := &v1alpha1.AutoscalingRunnerSetSpec{
		ListenerTemplate:               template(t, "spec: {hostPID: true}"),
		ListenerServiceAccountMetadata: &v1alpha1.ResourceMeta{Annotations: map[string]string{"a": "b"}},
	}
	all := listenertemplate.Policy{Unrestricted: true}
	accepted := all.Accept(spec)
	if len(accepted.Refused.First) > 0 || !accepted.Template.Spec.HostPID ||
		accepted.ServiceAccount.Annotations["a"] != "b" || !all.Template(spec.ListenerTemplate).Spec.HostPID {
		t.Errorf("not everything is let through: %+v", accepted)
	}
	if got := all.Object(spec.ListenerServiceAccountMetadata); got.Annotations["a"] != "b" {
		t.Errorf("annotations are %v", got.Annotations)
	}
}
