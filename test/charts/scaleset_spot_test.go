package charts

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The pods of jobs outlive the notice of their end like their runner: the user's template gets what the manager's has.
// What the user says of it stays.
func TestHookTemplateOutlivesANotice(t *testing.T) {
	t.Parallel()
	got := jobPods(t, renderSet(t, scaleSet, hookTemplate, "jobGracePeriod: 1m50.9s"))
	hook := got.Spec.Containers[0].Lifecycle.PreStop.Exec
	check(t, "hook", strings.Join(hook.Command, " "), "sleep 110")
	check(t, "grace period", *got.Spec.TerminationGracePeriodSeconds, int64(120))
	check(t, "requests", got.Spec.Containers[0].Resources.Requests.Cpu().String(), "1")
	own := jobPods(t, renderSet(t, scaleSet, mode("kubernetes-novolume"), "jobGracePeriod: 2m", `
containerMode:
  kubernetesModeHookTemplate:
    spec:
      terminationGracePeriodSeconds: 300
      containers:
        - {name: $redis, image: mine}
        - {name: $job, lifecycle: {preStop: {exec: {command: [mine]}}, postStart: {exec: {command: [p]}}}}`))
	check(t, "containers", len(own.Spec.Containers), 2)
	check(t, "own hook", own.Spec.Containers[1].Lifecycle.PreStop.Exec.Command[0], "mine")
	check(t, "own grace period", *own.Spec.TerminationGracePeriodSeconds, int64(300))
	onlyMetadata := jobPods(t, renderSet(t, scaleSet, mode("kubernetes-novolume"), "jobGracePeriod: 1h",
		"containerMode: {kubernetesModeHookTemplate: {metadata: {labels: {a: b}}}}"))
	check(t, "added container", onlyMetadata.Spec.Containers[0].Name, "$job")
	check(t, "added grace period", *onlyMetadata.Spec.TerminationGracePeriodSeconds, int64(3610))
}

func TestGracePeriodsThatCannotBe(t *testing.T) {
	t.Parallel()
	checkContains(t, refusal(t, scaleSet, minimal,
		"{jobGracePeriod: 1m, template: {spec: {containers: [{name: runner, lifecycle: {preStop: {exec: {command: [a]}}}}]}}}"),
		"jobGracePeriod needs the preStop hook")
	checkContains(t, refusal(t, scaleSet, minimal,
		"{jobGracePeriod: 1m, template: {spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: runner}]}}}"),
		"Windows")
}

// One value is the daemon's image; that of a container dind precedes it.
func TestImageOfTheDaemon(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"{}": "docker:dind",
		"containerMode: {dindImage: registry.example.com/docker:28-dind}":                                           "registry.example.com/docker:28-dind",
		"{containerMode: {dindImage: a}, template: {spec: {containers: [{name: runner}, {name: dind, image: b}]}}}": "b",
	} {
		pod := runnerPod(t, mode("dind"), values)
		check(t, values, pod.InitContainers[1].Image, want)
	}
}

// One value is the mirror of all that pulls images for jobs: Docker has a flag, BuildKit a file, and the runner the same
// file for the workflow.
func TestRegistryMirror(t *testing.T) {
	t.Parallel()
	const values = `
registryMirror: http://mirror.example.com:5000/
template: {spec: {containers: [{name: runner}, {name: buildkitd, image: "moby/buildkit:v0.20"}, {name: shipper, image: s}]}}`
	set := runnerSet(t, scaleSet, mode("dind"), values)
	pod := set.Spec.Template.Spec
	dind := pod.InitContainers[1]
	check(t, "flag", slices.Contains(dind.Args, "--registry-mirror=http://mirror.example.com:5000"), true)
	check(t, "file", set.Spec.Template.Annotations["actions.github.com/buildkitd-toml"],
		"[registry.\"docker.io\"]\n  mirrors = [\"mirror.example.com:5000\"]\n[registry.\"mirror.example.com:5000\"]\n  http = true\n")
	for _, container := range append(pod.Containers, pod.InitContainers...) {
		has := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == "/etc/buildkit" && m.Name == "buildkitd-toml" && m.ReadOnly
		})
		check(t, "mount of "+container.Name, has, container.Name == "runner" || container.Name == "buildkitd")
	}
	check(t, "volume", slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == "buildkitd-toml" && v.DownwardAPI.Items[0].FieldRef.FieldPath ==
			"metadata.annotations['actions.github.com/buildkitd-toml']"
	}), true)
	own := runnerPod(t, "registryMirror: https://mirror.example.com",
		"template: {spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: runner, volumeMounts: [{name: v, mountPath: /etc/buildkit/}]}]}}")
	check(t, "own mounts", len(own.Containers[0].VolumeMounts), 1)
	for _, refused := range []string{"mirror.example.com", "https://mirror.example.com/proxy", "https://u:secret@mirror", "ftp://mirror"} {
		said := refusal(t, scaleSet, minimal, "registryMirror: "+refused)
		checkContains(t, said, "registryMirror is")
		check(t, "quoted password", strings.Contains(said, "secret"), false)
	}
}
