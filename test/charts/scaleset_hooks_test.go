package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const hookTemplate = `
containerMode:
  type: kubernetes
  kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce]}
  kubernetesModeHookTemplate: {metadata: {labels: {team: ci}}, spec: {containers: [{name: $job, resources: {requests: {cpu: "1"}}}]}}`

const hookVariable = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"

// The template of job pods becomes a file in a directory of its own, and a variable tells the container hooks its path.
func TestHookTemplate(t *testing.T) {
	t.Parallel()
	for _, containerMode := range []string{"kubernetes", "kubernetes-novolume"} {
		rendered := renderSet(t, scaleSet, hookTemplate, mode(containerMode))
		config := one[corev1.ConfigMap](t, rendered, "hook_extension.yaml")
		check(t, "name", config.Name, "test-runners-gha-rs-hook-extension")
		var got corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(config.Data["extension"]), &got); err != nil {
			t.Fatal(err)
		}
		check(t, "job container",
			got.Spec.Containers[0].Name+" "+got.Spec.Containers[0].Resources.Requests.Cpu().String(), "$job 1")
		check(t, "job label", got.Labels["team"], "ci")
		checkHookFile(t, runnerPod(t, hookTemplate, mode(containerMode)), config.Name, "extension")
		own := runnerPod(t, mode(containerMode),
			"containerMode: {kubernetesModeHookTemplateFrom: {configMapKeyRef: {name: mine, key: pod.yaml}}}")
		checkHookFile(t, own, "mine", "pod.yaml")
	}
}

// protection returns the chart's additions to the metadata of job pods.
func protection(set string) corev1.PodTemplateSpec {
	var template corev1.PodTemplateSpec
	template.Labels = map[string]string{
		"actions.github.com/scale-set-name": set, "actions.github.com/scale-set-namespace": "arc-runners", "actions.github.com/runner-busy": "true",
	}
	template.Annotations = map[string]string{
		"karpenter.sh/do-not-disrupt":                    "true",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	}
	return template
}

func jobPods(t *testing.T, rendered manifests) corev1.PodTemplateSpec {
	t.Helper()
	return decode[corev1.PodTemplateSpec](t, one[corev1.ConfigMap](t, rendered,
		"hook_extension.yaml").Data["extension"])
}

// A running job's pods are protected like its runner's, and have the scale set's labels. The user's metadata wins.
func TestHookTemplateProtectsJobPods(t *testing.T) {
	t.Parallel()
	want := protection("a-b")
	want.Labels["team"], want.Labels["actions.github.com/runner-busy"] = "5", "false"
	want.Annotations["karpenter.sh/do-not-disrupt"], want.Annotations["owner"] = "2h", "me"
	want.Finalizers = []string{"example.com/kept"}
	got := jobPods(t, renderSet(t, scaleSet, hookTemplate, `
runnerScaleSetName: a_b
containerMode:
  kubernetesModeHookTemplate:
    metadata:
      labels: {team: 5, actions.github.com/runner-busy: "false"}
      annotations: {karpenter.sh/do-not-disrupt: 2h, owner: me}
      finalizers: [example.com/kept]`))
	check(t, "metadata", got.ObjectMeta, want.ObjectMeta)
	check(t, "job container", got.Spec.Containers[0].Name, "$job")
}

// Without a template in the values there is nothing of one, with and without a cluster, as in ARC's chart: the manager
// gives runners theirs.
func TestWithoutATemplateThereIsNothingOfOne(t *testing.T) {
	t.Parallel()
	const claim = "containerMode: {kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce]}}"
	for containerMode, mounts := range map[string]int{"kubernetes": 1, "kubernetes-novolume": 0} {
		bare := renderSet(t, scaleSet, mode(containerMode), claim)
		onCluster := renderSet(t, scaleSet.with("--api-versions", "actions.github.com/v1alpha1"),
			mode(containerMode), claim)
		check(t, containerMode+" on a cluster", onCluster, bare)
		check(t, containerMode+" ConfigMaps", len(bare["hook_extension.yaml"]), 0)
		pod := one[v1alpha1.AutoscalingRunnerSet](t, bare, "autoscalingrunnerset.yaml").Spec.Template
		withoutToken(&pod.Spec)
		check(t, containerMode+" mounts", len(pod.Spec.Containers[0].VolumeMounts), mounts)
		check(t, containerMode+" volumes", len(pod.Spec.Volumes), mounts)
		check(t, containerMode+" annotations", len(pod.Annotations), 0)
		for _, variable := range pod.Spec.Containers[0].Env {
			check(t, containerMode+" variable", variable.Name == hookVariable, false)
		}
	}
}

// A ConfigMap that gives the runner variables may name a template: the manager may look into that one.
func TestManagerReadsWhereTheRunnersVariablesAreFrom(t *testing.T) {
	t.Parallel()
	const from = `template: {spec: {containers: [{name: runner, image: i, envFrom: [
{configMapRef: {name: proxies}}, {secretRef: {name: tokens}}, {configMapRef: {name: proxies}, prefix: P_}]}]}}`
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
	named := rule
	named.ResourceNames = []string{"proxies"}
	const tls = "githubServerTLS: {certificateFrom: {configMapKeyRef: {name: ca, key: ca.crt}}}"
	for name, test := range map[string]struct {
		values []string
		want   []rbacv1.PolicyRule
	}{
		"kubernetes":               {[]string{mode("kubernetes-novolume"), from}, []rbacv1.PolicyRule{named}},
		"dind":                     {[]string{mode("dind"), from}, nil},
		"no sources":               {[]string{mode("kubernetes-novolume")}, nil},
		"an authority in some one": {[]string{mode("kubernetes-novolume"), from, tls}, []rbacv1.PolicyRule{rule}},
	} {
		role := one[rbacv1.Role](t, renderSet(t, scaleSet, test.values...), "manager_role.yaml")
		check(t, name, append([]rbacv1.PolicyRule(nil), slices.DeleteFunc(role.Rules,
			func(r rbacv1.PolicyRule) bool { return r.Resources[0] != "configmaps" })...), test.want)
	}
}

// The notes warn about a volume that the runner may be unable to write, and about job pods that the chart doesn't
// protect.
func TestNotesOnKubernetesModes(t *testing.T) {
	t.Parallel()
	const group, unprotected = "fsGroup isn't set", "Job pods have a template of your own"
	for _, test := range []struct {
		values []string
		want   map[string]bool
	}{
		{[]string{hookTemplate}, map[string]bool{group: true, unprotected: false}},
		{[]string{hookTemplate, "template: {spec: {securityContext: {fsGroup: 1001}}}"}, map[string]bool{group: false}},
		{[]string{mode("kubernetes-novolume"), "containerMode: {kubernetesModeHookTemplateFrom: {configMapKeyRef: {name: mine, key: pod.yaml}}}"},
			map[string]bool{group: false, unprotected: true}},
		{[]string{mode("kubernetes-novolume"), "template: {spec: {containers: [{name: runner, image: i, env: [{name: " + hookVariable + ", value: /mine.yaml}]}]}}"},
			map[string]bool{unprotected: true}},
		{[]string{mode("kubernetes-novolume")}, map[string]bool{unprotected: false}},
		{[]string{mode("dind")}, map[string]bool{group: false, unprotected: false}},
	} {
		notes, stderr, err := scaleSet.with("--dry-run=client").run(t, "install",
			append([]string{minimal}, test.values...)...)
		if err != nil {
			t.Fatal(stderr)
		}
		for words, want := range test.want {
			check(t, fmt.Sprintf("%v: %q", test.values, words), strings.Contains(notes, words), want)
		}
	}
}

// The manager deletes the Jobs that hooks leave, and may do so only where they create any.
func TestManagerMayDeleteJobsInModeKubernetes(t *testing.T) {
	t.Parallel()
	for containerMode, want := range map[string]bool{"kubernetes": true, "kubernetes-novolume": false, "dind": false,
		"none": false} {
		role := one[rbacv1.Role](t, renderSet(t, scaleSet, mode(containerMode)), "manager_role.yaml")
		rule := rbacv1.PolicyRule{
			APIGroups: []string{"batch"},
			Resources: []string{"jobs"},
			Verbs:     []string{"delete", "list"},
		}
		check(t, containerMode, slices.ContainsFunc(role.Rules,
			func(r rbacv1.PolicyRule) bool { return cmp.Equal(r, rule) }), want)
	}
}

func checkHookFile(t *testing.T, pod corev1.PodSpec, configMap, key string) {
	t.Helper()
	runner, path := pod.Containers[0], "/harrier-hook-template/template.yaml"
	check(t, "variable", runner.Env[len(runner.Env)-1], corev1.EnvVar{Name: hookVariable, Value: path})
	check(t, "mount", runner.VolumeMounts[len(runner.VolumeMounts)-1], corev1.VolumeMount{
		Name: "hook-extension", MountPath: path, SubPath: key, ReadOnly: true,
	})
	check(t, "volume", pod.Volumes[len(pod.Volumes)-1].ConfigMap.Name, configMap)
}

// A user's own template replaces the chart's.
func TestHookTemplateOfTheUser(t *testing.T) {
	t.Parallel()
	pod := runnerPod(t, hookTemplate,
		"template: {spec: {containers: [{name: runner, image: i, env: "+
			"[{name: "+hookVariable+", value: /mine.yaml}]}]}}")
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
	first, same := runnerSet(t, scaleSet, hookTemplate).Spec.Template,
		runnerSet(t, scaleSet, hookTemplate, "maxRunners: 1").Spec.Template
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
	account := one[corev1.ServiceAccount](t, renderSet(t, scaleSet, former,
		"resourceMeta: {kubernetesModeServiceAccount: {annotations: {role: own}}}"), "kube_mode_serviceaccount.yaml")
	check(t, "annotations", account.Annotations, map[string]string{"role": "own", "other": "o"})
}

// Runners may have other systems and architectures: a mode without needs of its own adds nothing that only Linux on x86
// has.
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
	check(t, "containers", pod.Containers,
		[]corev1.Container{{Name: "runner", Image: "windows-runner", Command: []string{"cmd.exe", "/c", "run.cmd"}}})
	check(t, "init containers and volumes", len(pod.InitContainers)+len(pod.Volumes), 0)
	check(t, "nodes", pod.NodeSelector, map[string]string{"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64"})
	check(t, "security", pod.SecurityContext.RunAsNonRoot == nil && pod.SecurityContext.RunAsUser == nil, true)
}
