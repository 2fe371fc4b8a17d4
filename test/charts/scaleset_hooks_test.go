package charts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const hookTemplate = `
containerMode:
  type: kubernetes
  kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce]}
  kubernetesModeHookTemplate: {metadata: {labels: {team: ci}}, spec: {containers: [{name: $job, resources: {requests: {cpu: "1"}}}]}}`

const hookVariable = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"

// The template of job pods becomes a file beside the container hooks, and they are told of it.
func TestHookTemplate(t *testing.T) {
	t.Parallel()
	for containerMode, directory := range map[string]string{"kubernetes": "/home/runner/k8s", "kubernetes-novolume": "/home/runner/k8s-novolume"} {
		rendered := renderSet(t, scaleSet, hookTemplate, mode(containerMode))
		config := one[corev1.ConfigMap](t, rendered, "hook_extension.yaml")
		check(t, "name", config.Name, "test-runners-gha-rs-hook-extension")
		var got corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(config.Data["extension"]), &got); err != nil {
			t.Fatal(err)
		}
		check(t, "job container", got.Spec.Containers[0].Name+" "+got.Spec.Containers[0].Resources.Requests.Cpu().String(), "$job 1")
		check(t, "job label", got.Labels["team"], "ci")
		checkHookFile(t, runnerPod(t, hookTemplate, mode(containerMode)), directory, config.Name, "extension")
		own := runnerPod(t, mode(containerMode), "containerMode: {kubernetesModeHookTemplateFrom: {configMapKeyRef: {name: mine, key: pod.yaml}}}")
		checkHookFile(t, own, directory, "mine", "pod.yaml")
	}
}

func checkHookFile(t *testing.T, pod corev1.PodSpec, directory, configMap, key string) {
	t.Helper()
	runner, path := pod.Containers[0], directory+"/hook-template.yaml"
	check(t, "variable", runner.Env[len(runner.Env)-1], corev1.EnvVar{Name: hookVariable, Value: path})
	check(t, "mount", runner.VolumeMounts[len(runner.VolumeMounts)-1], corev1.VolumeMount{
		Name: "hook-extension", MountPath: path, SubPath: key, ReadOnly: true,
	})
	check(t, "volume", pod.Volumes[len(pod.Volumes)-1].ConfigMap.Name, configMap)
}

// A template that the user points at is the one that counts.
func TestHookTemplateOfTheUser(t *testing.T) {
	t.Parallel()
	pod := runnerPod(t, hookTemplate, "template: {spec: {containers: [{name: runner, image: i, env: [{name: "+hookVariable+", value: /mine.yaml}]}]}}")
	check(t, "variable", pod.Containers[0].Env[0], corev1.EnvVar{Name: hookVariable, Value: "/mine.yaml"})
	for _, variable := range pod.Containers[0].Env[1:] {
		check(t, "given again", variable.Name == hookVariable, false)
	}
}

// A running pod keeps the file it started with. Runners that are still idle are replaced when the template changes,
// because the pod template changes with it, and only then.
func TestHookTemplateChangesThePodTemplate(t *testing.T) {
	t.Parallel()
	const changed = `containerMode: {kubernetesModeHookTemplate: {metadata: {labels: {team: other}}}}`
	first, same := runnerSet(t, scaleSet, hookTemplate).Spec.Template, runnerSet(t, scaleSet, hookTemplate, "maxRunners: 1").Spec.Template
	check(t, "pod template", same, first)
	second := runnerSet(t, scaleSet, hookTemplate, changed).Spec.Template
	if first.Annotations["checksum/hook-template"] == second.Annotations["checksum/hook-template"] {
		t.Error("the pod template is the same although the template of job pods is another")
	}
	if difference := cmp.Diff(first.Spec, second.Spec); difference != "" {
		t.Errorf("more than the annotation changes:\n%s", difference)
	}
}

// ARC before 0.11 had a key of its own for these annotations.
func TestFormerAnnotationsOfKubernetesModeAccount(t *testing.T) {
	t.Parallel()
	const former = `containerMode: {type: kubernetes-novolume, kubernetesModeServiceAccount: {annotations: {role: former, other: o}}}`
	account := one[corev1.ServiceAccount](t, renderSet(t, scaleSet, former, "resourceMeta: {kubernetesModeServiceAccount: {annotations: {role: own}}}"), "kube_mode_serviceaccount.yaml")
	check(t, "annotations", account.Annotations, map[string]string{"role": "own", "other": "o"})
	check(t, "token", account.AutomountServiceAccountToken == nil, true)
}

// Jobs get no token where nothing asks the API server for anything; kubernetes modes (above) need theirs.
func TestNoTokenWithoutNeed(t *testing.T) {
	t.Parallel()
	for _, containerMode := range []string{"none", "dind"} {
		rendered := renderSet(t, scaleSet, mode(containerMode))
		account := one[corev1.ServiceAccount](t, rendered, "no_permission_serviceaccount.yaml")
		check(t, "token is mounted", *account.AutomountServiceAccountToken, false)
		check(t, "account", runnerPod(t, mode(containerMode)).ServiceAccountName, account.Name)
	}
}

// Runners of other systems and architectures: a mode that asks for nothing adds nothing that only Linux on x86 knows.
func TestWindowsRunner(t *testing.T) {
	t.Parallel()
	pod := runnerPod(t, `
template:
  spec:
    nodeSelector: {kubernetes.io/os: windows, kubernetes.io/arch: arm64}
    os: {name: windows}
    securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
    containers: [{name: runner, image: windows-runner, command: [cmd.exe, /c, run.cmd]}]
`)
	check(t, "containers", pod.Containers, []corev1.Container{{Name: "runner", Image: "windows-runner", Command: []string{"cmd.exe", "/c", "run.cmd"}}})
	check(t, "init containers and volumes", len(pod.InitContainers)+len(pod.Volumes), 0)
	check(t, "nodes", pod.NodeSelector, map[string]string{"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64"})
	check(t, "security", pod.SecurityContext.RunAsNonRoot == nil && pod.SecurityContext.RunAsUser == nil, true)
}
