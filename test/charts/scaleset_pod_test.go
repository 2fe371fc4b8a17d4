package charts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// runnerPod returns a runner's pod without the token, which has tests of its own.
func runnerPod(t *testing.T, values ...string) corev1.PodSpec {
	t.Helper()
	set := runnerSet(t, scaleSet, values...)
	return *withoutToken(&set.Spec.Template.Spec)
}

var (
	workMount = corev1.VolumeMount{Name: "work", MountPath: "/home/runner/_work"}
	sockMount = corev1.VolumeMount{Name: "dind-sock", MountPath: "/var/run"}
	podName   = corev1.EnvVar{Name: "ACTIONS_RUNNER_POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}}
	requireJobContainer = corev1.EnvVar{Name: "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER", Value: "true"}
)

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func runnerContainer(env []corev1.EnvVar, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: "runner", Image: runnerImage, Command: []string{"/home/runner/run.sh"}, Env: env, VolumeMounts: mounts,
	}
}

func dindContainer() corev1.Container {
	return corev1.Container{
		Name:            "dind",
		Image:           "docker:dind",
		Args:            []string{"dockerd", "--host=unix:///var/run/docker.sock", "--group=$(DOCKER_GROUP_GID)"},
		Env:             []corev1.EnvVar{{Name: "DOCKER_GROUP_GID", Value: "123"}},
		SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
		VolumeMounts: []corev1.VolumeMount{workMount, sockMount,
			{Name: "dind-externals", MountPath: "/home/runner/externals"}},
	}
}

func dindPod() corev1.PodSpec {
	sidecar := dindContainer()
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	sidecar.StartupProbe = &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"docker", "info"}}},
		FailureThreshold: 24, PeriodSeconds: 5,
	}
	return corev1.PodSpec{
		RestartPolicy:      corev1.RestartPolicyNever,
		ServiceAccountName: "test-runners-gha-rs-no-permission",
		InitContainers: []corev1.Container{{
			Name: "init-dind-externals", Image: runnerImage, Command: []string{"cp"},
			Args:         []string{"-r", "/home/runner/externals/.", "/home/runner/tmpDir/"},
			VolumeMounts: []corev1.VolumeMount{{Name: "dind-externals", MountPath: "/home/runner/tmpDir"}},
		}, sidecar},
		Containers: []corev1.Container{runnerContainer([]corev1.EnvVar{
			{Name: "DOCKER_HOST", Value: "unix:///var/run/docker.sock"},
			{Name: "RUNNER_WAIT_FOR_DOCKER_IN_SECONDS", Value: "120"},
		}, []corev1.VolumeMount{workMount, sockMount})},
		Volumes: []corev1.Volume{emptyDir("dind-sock"), emptyDir("dind-externals"), emptyDir("work")},
	}
}

func TestDind(t *testing.T) {
	t.Parallel()
	check(t, "pod", runnerPod(t, mode("dind")), dindPod())
}

// A user's init container replaces ours.
func TestDindInitContainerOfTheUser(t *testing.T) {
	t.Parallel()
	pod := runnerPod(t, mode("dind"),
		"template: {spec: {initContainers: [{name: first, image: f}, {name: dind, image: own}]}}")
	image := func(c corev1.Container) string { return c.Name + "=" + c.Image }
	check(t, "init containers", names(pod.InitContainers, image),
		[]string{"init-dind-externals=" + runnerImage, "dind=own", "first=f"})
}

// Kubernetes 1.28 has no sidecars. Clouds add other characters to the version.
func TestDindByKubernetesVersion(t *testing.T) {
	t.Parallel()
	containerName := func(c corev1.Container) string { return c.Name }
	for _, test := range []struct {
		version          string
		init, containers []string
	}{
		{"v1.28.9", []string{"init-dind-externals"}, []string{"runner", "dind"}},
		{"v1.20.0", []string{"init-dind-externals", "dind"}, []string{"runner"}}, // of no cluster
		{"v1.29.0", []string{"init-dind-externals", "dind"}, []string{"runner"}},
		{"v1.33.1-eks-1234", []string{"init-dind-externals", "dind"}, []string{"runner"}},
	} {
		pod := runnerSet(t, scaleSet.with("--kube-version", test.version), mode("dind")).Spec.Template.Spec
		check(t, "init containers on "+test.version, names(pod.InitContainers, containerName), test.init)
		check(t, "containers on "+test.version, names(pod.Containers, containerName), test.containers)
	}
	old := runnerSet(t, scaleSet.with("--kube-version", "v1.28.9"), mode("dind")).Spec.Template.Spec
	check(t, "dind", old.Containers[1], dindContainer())
}

func TestKubernetesMode(t *testing.T) {
	t.Parallel()
	got := runnerPod(t,
		`containerMode: {type: kubernetes, kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce], storageClassName: fast}}`)
	check(t, "pod", got, corev1.PodSpec{
		RestartPolicy:      corev1.RestartPolicyNever,
		ServiceAccountName: "test-runners-gha-rs-kube-mode",
		Containers: []corev1.Container{runnerContainer([]corev1.EnvVar{
			{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s/index.js"}, podName, requireJobContainer,
		}, []corev1.VolumeMount{workMount})},
		Volumes: []corev1.Volume{{Name: "work",
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					StorageClassName: ptr.To("fast"),
				}},
			}}}},
	})
}

func TestKubernetesNoVolumeMode(t *testing.T) {
	t.Parallel()
	got := runnerPod(t, mode("kubernetes-novolume"))
	check(t, "pod", got, corev1.PodSpec{
		RestartPolicy:      corev1.RestartPolicyNever,
		ServiceAccountName: "test-runners-gha-rs-kube-mode",
		Containers: []corev1.Container{runnerContainer([]corev1.EnvVar{
			{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s-novolume/index.js"}, podName, requireJobContainer,
			{Name: "ACTIONS_RUNNER_IMAGE", Value: runnerImage},
		}, nil)},
		Volumes: []corev1.Volume{},
	})
}

// An unknown mode is the default one, as in ARC.
func TestOtherModeLeavesThePodAlone(t *testing.T) {
	t.Parallel()
	check(t, "pod", runnerPod(t, mode("none")), runnerPod(t))
}

// The work volume may be the user's. Without any, rendering for a cluster fails.
func TestKubernetesModeNeedsWorkVolume(t *testing.T) {
	t.Parallel()
	cluster := scaleSet.with("--api-versions", "actions.github.com/v1alpha1")
	checkContains(t, refusal(t, cluster, minimal, mode("kubernetes")),
		"containerMode.kubernetesModeWorkVolumeClaim is required")
	volumes := runnerSet(t, cluster, mode("kubernetes"),
		"template: {spec: {volumes: [{name: work, emptyDir: {}}]}}").Spec.Template.Spec.Volumes
	check(t, "volumes", volumes[:1], []corev1.Volume{emptyDir("work")})
	check(t, "volumes without a cluster",
		names(runnerPod(t, mode("kubernetes")).Volumes, func(v corev1.Volume) string { return v.Name }),
		[]string{"work"})
}

// userPod has a user's entry for every addition of a mode, and one more of each kind.
const userPod = `
template:
  spec:
    restartPolicy: Always
    serviceAccountName: own
    dnsPolicy: None
    dnsConfig: {nameservers: [10.0.0.1]}
    terminationGracePeriodSeconds: 1000000
    initContainers: [{name: first, image: i}]
    volumes:
      - {name: mine, emptyDir: {}}
      - {name: work, hostPath: {path: /data}}
    containers:
      - {name: before, image: b}
      - name: runner
        image: own
        resources: {limits: {cpu: 1}}
        env:
          - {name: DOCKER_HOST, value: tcp://own}
          - {name: ACTIONS_RUNNER_CONTAINER_HOOKS, value: /own.js}
          - {name: NODE_EXTRA_CA_CERTS, value: /own.crt}
          - {name: MINE, value: m}
        volumeMounts:
          - {name: work, mountPath: /own}
          - {name: github-server-tls-cert, mountPath: /own.crt}
          - {name: mine, mountPath: /mine}
      - {name: dind, image: own-dind}
`

func TestUserEntriesStay(t *testing.T) {
	t.Parallel()
	const tls = `githubServerTLS: {runnerMountPath: /ca, certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}`
	own := []string{
		"DOCKER_HOST=tcp://own", "ACTIONS_RUNNER_CONTAINER_HOOKS=/own.js", "NODE_EXTRA_CA_CERTS=/own.crt", "MINE=m",
	}
	ownMounts := []string{"/own", "/own.crt", "/mine"}
	for _, test := range []struct {
		mode                                   string
		env, mounts, volumes, init, containers []string
	}{
		{"none", []string{"RUNNER_UPDATE_CA_CERTS=1"}, nil, []string{"mine", "work"}, []string{"first"}, []string{"before", "runner", "dind"}},
		{
			"dind", []string{"RUNNER_WAIT_FOR_DOCKER_IN_SECONDS=120", "RUNNER_UPDATE_CA_CERTS=1"}, []string{"/var/run"},
			[]string{"dind-sock", "dind-externals", "work", "mine"}, []string{"init-dind-externals", "dind", "first"},
			[]string{"runner", "before"},
		},
		{
			"kubernetes", []string{"ACTIONS_RUNNER_POD_NAME=", "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER=true",
				"RUNNER_UPDATE_CA_CERTS=1"}, nil,
			[]string{"work", "mine"}, []string{"first"}, []string{"runner", "before", "dind"},
		},
		{
			"kubernetes-novolume", []string{"ACTIONS_RUNNER_POD_NAME=", "ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER=true",
				"ACTIONS_RUNNER_IMAGE=own", "RUNNER_UPDATE_CA_CERTS=1"}, nil,
			[]string{"mine", "work"}, []string{"first"}, []string{"runner", "before", "dind"},
		},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			pod := runnerPod(t, mode(test.mode), tls, userPod)
			containerName := func(c corev1.Container) string { return c.Name }
			check(t, "init containers", names(pod.InitContainers, containerName), test.init)
			check(t, "containers", names(pod.Containers, containerName), test.containers)
			check(t, "volumes", names(pod.Volumes, func(v corev1.Volume) string { return v.Name }),
				append([]string{"github-server-tls-cert"}, test.volumes...))
			check(t, "policies", []string{string(pod.RestartPolicy), string(pod.DNSPolicy), pod.ServiceAccountName},
				[]string{"Always", "None", "own"})
			check(t, "grace", *pod.TerminationGracePeriodSeconds, int64(1000000))
			for _, volume := range pod.Volumes {
				check(t, "own volume", volume.Name != "work" || volume.HostPath != nil, true)
			}
			for _, container := range pod.Containers {
				if container.Name != "runner" {
					continue
				}
				check(t, "environment", names(container.Env, func(e corev1.EnvVar) string {
					return e.Name + "=" + e.Value
				}),
					append(append([]string{}, own...), test.env...))
				check(t, "mounts", names(container.VolumeMounts, func(m corev1.VolumeMount) string {
					return m.MountPath
				}),
					append(append([]string{}, ownMounts...), test.mounts...))
				check(t, "limit", container.Resources.Limits.Cpu().String(), "1")
			}
		})
	}
}

// Without a container named runner the modes still make one, and the default mode makes none.
func TestNoRunnerContainer(t *testing.T) {
	t.Parallel()
	const other = "template: {spec: {containers: [{name: other, image: i}]}}"
	containerName := func(c corev1.Container) string { return c.Name }
	check(t, "default", names(runnerPod(t, other).Containers, containerName), []string{"other"})
	check(t, "dind", names(runnerPod(t, other, mode("dind")).Containers, containerName), []string{"runner", "other"})
}

// A runner with nothing but resources gets the image of values.yaml, and its command unless it has another.
func TestRunnerWithoutImage(t *testing.T) {
	t.Parallel()
	runner := func(container, mode string) corev1.Container {
		return runnerPod(t, "template: {spec: {containers: [{name: runner, "+container+"}]}}", mode).Containers[0]
	}
	for _, values := range []string{"", mode("dind"), mode("kubernetes"), mode("kubernetes-novolume")} {
		got := runner("resources: {limits: {cpu: 1}}", values)
		check(t, "image "+values, got.Image, runnerImage)
		check(t, "command "+values, got.Command, []string{"/home/runner/run.sh"})
	}
	check(t, "own command", runner("command: [own]", "").Command, []string{"own"})
	check(t, "own arguments", runner("args: [own]", "").Command, []string(nil))
	check(t, "own image", runner("image: own", "").Command, []string(nil))
	image := func(c corev1.Container) string { return c.Image }
	pod := runnerPod(t, mode("dind"), "template: {spec: {containers: [{name: runner, workingDir: /w}]}}")
	check(t, "init containers", names(pod.InitContainers, image), []string{runnerImage, "docker:dind"})
	env := runner("workingDir: /w", mode("kubernetes-novolume")).Env
	check(t, "image for job pods", env[len(env)-1], corev1.EnvVar{Name: "ACTIONS_RUNNER_IMAGE", Value: runnerImage})
}
