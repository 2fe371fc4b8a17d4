package charts

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

// change is a user's setting for a container of the mode, and its effect.
type change struct {
	fields string
	want   func(*corev1.Container)
}

var cpus = corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}

// Each of changes is applied alone. The changes of "all" are for every container, those of "dind" for the container
// dind.
var changes = map[string][]change{
	"all": {
		{"resources: {requests: {cpu: '2'}}", func(c *corev1.Container) { c.Resources = cpus }},
		{"image: own", func(c *corev1.Container) { c.Image = "own" }},
		{"imagePullPolicy: Always", func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways }},
		{"workingDir: /w", func(c *corev1.Container) { c.WorkingDir = "/w" }},
		{"ports: [{containerPort: 2375}]", func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 2375}} }},
		{"command: [own]", func(c *corev1.Container) { c.Command, c.Args = []string{"own"}, nil }},
		{"command: [own], args: [a]", func(c *corev1.Container) { c.Command, c.Args = []string{"own"}, []string{"a"} }},
		{"env: [{name: MINE, value: m}]", func(c *corev1.Container) { c.Env = append([]corev1.EnvVar{{Name: "MINE", Value: "m"}}, c.Env...) }},
		{"volumeMounts: [{name: mine, mountPath: /mine}]", func(c *corev1.Container) {
			c.VolumeMounts = append([]corev1.VolumeMount{{Name: "mine", MountPath: "/mine"}}, c.VolumeMounts...)
		}},
		// An empty value, or null, changes nothing.
		{"image: '', args: [], env: null, volumeMounts: [], startupProbe: null, resources: {}, command: null", func(*corev1.Container) {}},
	},
	"init-dind-externals": {
		{"args: [-r, /a, /b]", func(c *corev1.Container) { c.Args = []string{"-r", "/a", "/b"} }},
		{"securityContext: {runAsUser: 5}", func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](5)} }},
	},
	"dind": {
		{"args: [--mtu=1400, --debug]", func(c *corev1.Container) { c.Args = append(c.Args, "--mtu=1400", "--debug") }},
		{"args: [dockerd, --debug]", func(c *corev1.Container) { c.Args = []string{"dockerd", "--debug"} }},
		{"env: [{name: DOCKER_GROUP_GID, value: '7'}]", func(c *corev1.Container) { c.Env[0].Value = "7" }},
		{"securityContext: {runAsUser: 0, privileged: false}", func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), Privileged: ptr.To(false)}
		}},
		{"securityContext: {runAsUser: 0}", func(c *corev1.Container) { c.SecurityContext.RunAsUser = ptr.To[int64](0) }},
		{"startupProbe: {failureThreshold: 60}", func(c *corev1.Container) { c.StartupProbe.FailureThreshold = 60 }},
		{"startupProbe: {tcpSocket: {port: 1}}", func(c *corev1.Container) { c.StartupProbe = tcpProbe() }},
		{"livenessProbe: {tcpSocket: {port: 1}}", func(c *corev1.Container) { c.LivenessProbe = tcpProbe() }},
		{"securityContext: {}, startupProbe: {}", func(*corev1.Container) {}},
		{"restartPolicy: Always", func(*corev1.Container) {}},
		{"lifecycle: {preStop: {sleep: {seconds: 1}}}", func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		}},
		{"volumeMounts: [{name: mine, mountPath: /home/runner/_work/}]", func(c *corev1.Container) {
			c.VolumeMounts[0] = corev1.VolumeMount{Name: "mine", MountPath: "/home/runner/_work/"}
		}},
		{"volumeMounts: [{name: work, mountPath: /w}]", func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/w" }},
		{"volumeMounts: [{name: work, mountPath: /var/lib/docker, subPath: d}]", func(c *corev1.Container) {
			c.VolumeMounts = append([]corev1.VolumeMount{{Name: "work", MountPath: "/var/lib/docker", SubPath: "d"}},
				c.VolumeMounts...)
		}},
	},
}

func tcpProbe() *corev1.Probe {
	probe := &corev1.Probe{}
	probe.TCPSocket = &corev1.TCPSocketAction{}
	probe.TCPSocket.Port.IntVal = 1
	return probe
}

// A user's setting for a container of the mode changes that container alone, whichever list it is in, and the API
// server takes the pod.
func TestContainersOfDindAreMerged(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for index, name := range []string{"init-dind-externals", "dind"} {
		for number, change := range append(append([]change{}, changes["all"]...), changes[name]...) {
			for _, list := range []string{"containers", "initContainers"} {
				t.Run(fmt.Sprintf("%s under %s %d", name, list, number), func(t *testing.T) {
					t.Parallel()
					values := fmt.Sprintf("template: {spec: {volumes: [{name: mine, emptyDir: {}}], %s: [{name: "+
						"%s, %s}]}}", list,
						name, change.fields)
					want := dindPod()
					want.Volumes = append(want.Volumes, emptyDir("mine"))
					change.want(&want.InitContainers[index])
					template := runnerSet(t, scaleSet, mode("dind"), values).Spec.Template
					check(t, "pod with "+change.fields, *withoutToken(template.Spec.DeepCopy()), want)
					admitPod(t, cluster, namespace, template)
					findings, err := validation.Validate([]byte(minimal+mode("dind")+"\n"+values), nil, "")
					check(t, "validate finds nothing", err == nil && len(findings) == 0, true)
				})
			}
		}
	}
}

// A complete container stays as it is: docs/container-modes.md had this one when a container replaced the mode's.
func TestCompleteContainersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	complete := map[string]string{
		"dind": `{name: dind, image: "registry.example.com/docker:dind", restartPolicy: Always, securityContext: {privileged: true},
			args: [dockerd, "--host=unix:///run/docker/docker.sock", "--group=$(DOCKER_GROUP_GID)", "--registry-mirror=https://mirror.example.com"],
			env: [{name: DOCKER_GROUP_GID, value: "123"}],
			startupProbe: {exec: {command: [docker, info]}, failureThreshold: 24, periodSeconds: 5},
			volumeMounts: [{name: dind-externals, mountPath: /home/runner/externals}, {name: work, mountPath: /home/runner/_work}, {name: dind-sock, mountPath: /run/docker}]}`,
		"init-dind-externals": `{name: init-dind-externals, image: own, command: [cp, -r, /home/runner/externals/., /home/runner/tmpDir/],
			resources: {limits: {memory: 64Mi}}, volumeMounts: [{name: dind-externals, mountPath: /home/runner/tmpDir}]}`,
	}
	for index, name := range []string{"init-dind-externals", "dind"} {
		for _, list := range []string{"containers", "initContainers"} {
			pod := runnerPod(t, mode("dind"),
				fmt.Sprintf("template: {spec: {%s: [%s]}}", list, strings.ReplaceAll(complete[name], "\n", " ")))
			var want corev1.Container
			if err := yaml.Unmarshal([]byte(complete[name]), &want); err != nil {
				t.Fatal(err)
			}
			check(t, name+" under "+list, pod.InitContainers[index], want)
			check(t, "number of containers", []int{len(pod.InitContainers), len(pod.Containers)}, []int{2, 1})
		}
	}
}

// Without sidecars dind is an ordinary container, whichever list the user's settings for it are in.
func TestDindOfTheUserWithoutSidecars(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"containers", "initContainers"} {
		values := fmt.Sprintf("template: {spec: {%s: [{name: dind, resources: {requests: {cpu: '2'}}}]}}", list)
		pod := runnerSet(t, scaleSet.with("--kube-version", "v1.28.9"), mode("dind"), values).Spec.Template.Spec
		want := dindContainer()
		want.Resources = cpus
		check(t, "containers", []int{len(pod.InitContainers), len(pod.Containers)}, []int{1, 2})
		check(t, "dind", pod.Containers[1], want)
	}
}

// In all modes the runner is merged with the user's settings from both lists, and stays one container.
func TestRunnerIsMergedFromBothLists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"none", "dind", "kubernetes", "kubernetes-novolume"} {
		want := runnerPod(t, mode(name)).Containers
		want[0].Resources, want[0].WorkingDir = cpus, "/w"
		want[0].Env = append([]corev1.EnvVar{{Name: "MINE", Value: "m"}}, want[0].Env...)
		got := runnerPod(t, mode(name), "template: {spec: {containers: [{name: runner, workingDir: /w}], "+
			"initContainers: [{name: runner, resources: {requests: {cpu: '2'}}, env: [{name: MINE, value: m}], "+
			"workingDir: /w}]}}")
		check(t, "containers in mode "+name, got.Containers,
			append(want, corev1.Container{Name: "other", Image: "i"})[:1])
		alone := runnerPod(t, mode(name),
			"template: {spec: {initContainers: [{name: runner, image: mine, command: [start]}]}}").Containers
		check(t, "image and command in the other list in mode "+name,
			fmt.Sprintln(len(alone), alone[0].Image, alone[0].Command), "1 mine [start]\n")
		check(t, "no init container runner in mode "+name, strings.Contains(fmt.Sprint(got.InitContainers), "runner "),
			false)
		own := runnerPod(t, mode(name),
			"template: {spec: {containers: [{name: other, image: i}], initContainers: [{name: runner, "+
				"workingDir: /w}]}}")
		check(t, "beside another in mode "+name, names(own.Containers,
			func(c corev1.Container) string { return c.Name + c.WorkingDir }), []string{"runner/w", "other"})
	}
}

// A user's mount replaces the mode's at the same path: a container has only one mount of a path.
func TestRunnerMountsOfTheUser(t *testing.T) {
	t.Parallel()
	const values = "template: {spec: {volumes: [{name: mine, emptyDir: {}}], containers: [{name: runner, " +
		"volumeMounts: [{name: mine, mountPath: /home/runner/_work}]}]}}"
	mount := corev1.VolumeMount{Name: "mine", MountPath: "/home/runner/_work"}
	check(t, "dind", runnerPod(t, mode("dind"), values).Containers[0].VolumeMounts,
		[]corev1.VolumeMount{mount, sockMount})
	check(t, "kubernetes", runnerPod(t, mode("kubernetes"), values).Containers[0].VolumeMounts,
		[]corev1.VolumeMount{mount})
}

// A setting that can't be merged is refused with its key and the reason.
func TestContainersThatCannotBeMerged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mode, spec, want string }{
		{"dind", "containers: [{name: dind, image: a}], initContainers: [{name: dind, image: b}]", "template.spec.initContainers[dind].image differs from template.spec.containers[dind].image, but a pod has one container dind: give image once"},
		{"dind", "containers: [{name: dind, image: a}, {name: dind, image: b}]", "template.spec.containers[dind].image differs from"},
		{"none", "containers: [{name: runner, image: a}, {name: runner, image: b}]", "a pod has one container runner"},
		{"none", "containers: [{name: runner, image: a, command: [run]}], initContainers: [{name: runner, command: [chown, '1001', /w]}]", "template.spec.initContainers[runner].command differs from template.spec.containers[runner].command"},
		{"kubernetes", "containers: [{name: runner, image: a}], initContainers: [{name: runner, image: busybox}]", "template.spec.initContainers[runner].image differs"},
		{"dind", "initContainers: [{name: dind, restartPolicy: Never}]", "template.spec[dind].restartPolicy is Never"},
		{"dind", "containers: [{name: init-dind-externals, startupProbe: {exec: {command: [a]}}}]", "template.spec[init-dind-externals].startupProbe"},
		{"kubernetes", "containers: [{name: dind, resources: {}}]", "the container dind in template.spec has no image: only containerMode.type dind completes it"},
		{"none", "initContainers: [{name: init-dind-externals}]", "the container init-dind-externals in template.spec has no image"},
		{"dind", "volumes: [{name: work, emptyDir: {}}, {name: work, emptyDir: {medium: Memory}}]", "template.spec.volumes has two entries named work"},
	} {
		values := "template: {spec: {" + test.spec + "}}"
		checkContains(t, strings.Join(strings.Fields(refusal(t, scaleSet, minimal, mode(test.mode), values)), " "),
			test.want)
		findings, err := validation.Validate([]byte(minimal+mode(test.mode)+"\n"+values), nil, "")
		check(t, "validate finds it: "+values,
			err == nil && len(findings) > 0 && findings[0].Severity == finding.Problem, true)
	}
	// Twice the same is no contradiction.
	pod := runnerPod(t, mode("dind"),
		"template: {spec: {containers: [{name: dind, image: a}], initContainers: [{name: dind, image: a}]}}")
	check(t, "dind", pod.InitContainers[1].Image, "a")
	// In another mode a container of that name is the user's alone.
	pod = runnerPod(t, mode("kubernetes"), "template: {spec: {containers: [{name: dind, image: a}]}}")
	check(t, "own", pod.Containers[1], corev1.Container{Name: "dind", Image: "a"})
}

// An image that starts something else than the runner is noticed before the first job; one that starts it by itself is
// taken.
func TestNotesOfARunnerWithoutCommand(t *testing.T) {
	t.Parallel()
	for container, warns := range map[string]bool{
		"image: 'ghcr.io/actions/actions-runner:2.330.0', resources: {requests: {cpu: '1'}}": true, "image: own, command: [], args: null": true,
		"image: own, command: [start]": false, "image: own, args: [start]": false, "resources: {}": false,
	} {
		for _, mode := range []string{mode("none"), mode("dind"), mode("kubernetes-novolume")} {
			values := "template: {spec: {containers: [{name: runner, " + container + "}]}}"
			check(t, container, strings.Contains(notes(t, mode, values),
				"WARNING: the container runner has no command"), warns)
		}
	}
	const without = "template: {spec: {containers: [{name: side, image: a}]}}"
	checkContains(t, notes(t, without), "WARNING: template.spec.containers has no container named runner")
	check(t, "warning where the mode adds it", strings.Contains(notes(t, mode("dind"), without), "WARNING"), false)
}

// Notes and validate name settings that are not used.
func TestNotesOfWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	const claim = "kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	const rules = "kubernetesModeAdditionalRoleRules: [{apiGroups: [''], resources: [events], verbs: [get]}]"
	const template = "[{metadata: {name: cache}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	for values, want := range map[string]string{
		"containerMode: {type: kubernetes, " + claim + ", " + rules + "}":                                              "",
		"containerMode: {type: kubernetes, " + claim + "}\ntemplate: {spec: {volumes: [{name: work, emptyDir: {}}]}}":  "kubernetesModeWorkVolumeClaim isn't used: template.spec.volumes has a volume named work",
		"containerMode: {type: dind, " + claim + "}":                                                                   "kubernetesModeWorkVolumeClaim isn't used: only containerMode.type kubernetes",
		"containerMode: {type: dind, " + rules + "}":                                                                   "kubernetesModeAdditionalRoleRules isn't used",
		"containerMode: {type: kubernetes, " + claim + ", " + rules + "}\ntemplate: {spec: {serviceAccountName: own}}": "kubernetesModeAdditionalRoleRules isn't used",
		"containerMode: {type: dind, kubernetesModeServiceAccount: {annotations: {a: b}}}":                             "kubernetesModeServiceAccount isn't used",
		"containerMode: {type: kubernetes-novolume}\nvolumeClaimTemplates: " + template:                                "volumeClaimTemplates isn't used by jobs with container:",
		"keyVault: {azureKeyVault: {url: a}}":                                                                          "keyVault isn't used: it has no type",
	} {
		said, validated := notes(t, values), &bytes.Buffer{}
		file := filepath.Join(t.TempDir(), "values.yaml")
		write(t, file, minimal+values, 0o600)
		code := commands.Main(t.Context(), []string{"validate", "-f", file}, validated, validated)
		check(t, "exit code of validate for "+values, code, commands.ExitFine)
		check(t, "notes of "+values, strings.Contains(said, "isn't used"), want != "")
		check(t, "validate of "+values, strings.Contains(validated.String(), "isn't used"), want != "")
		checkContains(t, said, want)
		checkContains(t, validated.String(), want)
	}
}

// notes returns Helm's output after an installation of a scale set.
func notes(t *testing.T, values ...string) string {
	t.Helper()
	return notesOf(t, scaleSet, append([]string{minimal}, values...)...)
}

// notesOf returns Helm's output after an installation.
func notesOf(t *testing.T, chart chart, values ...string) string {
	t.Helper()
	stdout, stderr, err := chart.with("--dry-run=client").run(t, "install", values...)
	if err != nil {
		t.Fatal(stderr)
	}
	_, printed, _ := strings.Cut(stdout, "\nNOTES:\n")
	return printed
}
