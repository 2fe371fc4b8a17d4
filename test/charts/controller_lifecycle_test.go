package charts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var kinds = []string{"autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets"}

func crdFile(plural string) string { return "actions.github.com_" + plural + ".yaml" }

// The chart's CRDs are the generated ones: sync-crds.sh has been run.
func TestCRDsAreTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, "crds: {keep: false}")
	for _, plural := range kinds {
		generated, err := os.ReadFile(filepath.Join(root, "apis", "crds", crdFile(plural)))
		if err != nil {
			t.Fatal(err)
		}
		var want apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(generated, &want); err != nil {
			t.Fatal(err)
		}
		check(t, plural+" (charts/sync-crds.sh brings it up to date)",
			one[apiextensionsv1.CustomResourceDefinition](t, rendered, crdFile(plural)), want)
	}
}

// A key without a value removes the chart's defaults, and so does --reuse-values for keys that an older chart lacks.
func TestMissingGroups(t *testing.T) {
	t.Parallel()
	want := sortedKeys(render(t, controller))
	check(t, "templates", sortedKeys(render(t, controller, "flags:\ncrds:\nuninstallCheck:\nnetworkPolicy:\n")), want)
}

// Null means not set, so the default counts.
func TestNulls(t *testing.T) {
	t.Parallel()
	want, _, err := controller.template(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{
		"image:", "image: {repository: }", "image: {pullPolicy: , tag: , digest: }",
		"serviceAccount:", "serviceAccount: {create: }", "serviceAccount: {annotations: , name: }",
		"crds: {install: , keep: }", "uninstallCheck: {enabled: }", "replicaCount:", "metrics:\nmonitoring:\npprof:",
	} {
		got, stderr, err := controller.template(t, values)
		if err != nil {
			t.Errorf("%s: %s", values, stderr)
		}
		check(t, values, got, want)
	}
}

func TestCRDValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{"": "keep", "crds: {keep: false}": ""} {
		rendered := render(t, controller, values)
		for _, plural := range kinds {
			crd := one[apiextensionsv1.CustomResourceDefinition](t, rendered, crdFile(plural))
			check(t, plural+" with "+values, crd.Annotations["helm.sh/resource-policy"], want)
		}
	}
	for file := range render(t, controller, "crds: {install: false}") {
		if strings.HasPrefix(file, "actions.github.com_") {
			t.Errorf("%s is rendered although crds.install is false", file)
		}
	}
}

// Generated CRDs may contain text that Helm would evaluate.
func TestSyncCRDsEscapesTemplates(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	chartDirectory := filepath.Join(directory, "charts", controller.name)
	for _, path := range []string{filepath.Join(directory, "apis", "crds"),
		filepath.Join(chartDirectory, "templates")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const crd = "---\nkind: K\nmetadata:\n  annotations:\n    a: b\n  name: n\nspec:\n  description: e.g. {{ .Name }}\n"
	copyFile(t, filepath.Join(root, "charts", "sync-crds.sh"), filepath.Join(directory, "charts", "sync-crds.sh"),
		0o755)
	write(t, filepath.Join(directory, "apis", "crds", "actions.github.com_ks.yaml"), crd, 0o644)
	write(t, filepath.Join(chartDirectory, "Chart.yaml"), "apiVersion: v2\nname: c\nversion: 0.1.0\n", 0o644)
	for _, file := range []string{"_names.tpl", "_crds.tpl"} {
		copyFile(t, filepath.Join(controller.directory(), "templates", file),
			filepath.Join(chartDirectory, "templates", file), 0o644)
	}
	if output, err := exec.CommandContext(t.Context(), filepath.Join(directory, "charts", "sync-crds.sh")).
		CombinedOutput(); err != nil {
		t.Fatalf("sync-crds.sh: %v\n%s", err, output)
	}
	stdout, stderr, err := helm(t, "template", chartDirectory)
	if err != nil {
		t.Fatal(stderr)
	}
	checkContains(t, stdout, "description: e.g. {{ .Name }}")
	checkContains(t, stdout, "helm.sh/resource-policy: keep")
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(content), mode)
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestUninstallCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values, roleKind, roleNamespace string
		arguments                       []string
	}{
		{"", "ClusterRole", "", []string{"--check-uninstall"}},
		// The watched namespace may be gone, so a Role in it could not be made.
		{singleNamespace, "ClusterRole", "", []string{"--check-uninstall", "--watch-single-namespace=team-a"}},
		{noClusterRoles + singleNamespace, "Role", "team-a", []string{"--check-uninstall", "--watch-single-namespace=team-a"}},
	} {
		documents := render(t, controller, test.values)["uninstall_check.yaml"]
		if len(documents) != 4 {
			t.Fatalf("the uninstall check has %d objects, want 4", len(documents))
		}
		account := decode[corev1.ServiceAccount](t, documents[0])
		role := decode[rbacv1.ClusterRole](t, documents[1])
		binding := decode[rbacv1.RoleBinding](t, documents[2])
		job := decode[batchv1.Job](t, documents[3])
		for _, object := range []metav1.Object{&account, &role, &binding, &job} {
			check(t, "hook", object.GetAnnotations()["helm.sh/hook"], "pre-delete")
			check(t, "deletion", object.GetAnnotations()["helm.sh/hook-delete-policy"],
				"before-hook-creation,hook-succeeded")
		}
		check(t, "role", role.Kind+" "+role.Namespace, test.roleKind+" "+test.roleNamespace)
		check(t, "rules", rules(role.Rules), []string{actionsGroup + "autoscalingrunnersets: list"})
		check(t, "bound role", binding.RoleRef.Kind+" "+binding.RoleRef.Name, test.roleKind+" "+role.Name)
		check(t, "bound account", binding.Subjects[0].Namespace+"/"+binding.Subjects[0].Name,
			account.Namespace+"/"+account.Name)
		checkRestricted(t, job.Spec.Template.Spec)
		pod := job.Spec.Template.Spec
		check(t, "account of the pod", pod.ServiceAccountName, account.Name)
		check(t, "command", append(pod.Containers[0].Command, pod.Containers[0].Args...),
			append([]string{"/manager"}, test.arguments...))
		check(t, "image", pod.Containers[0].Image, controllerImage)
	}
	check(t, "objects when it is off",
		len(render(t, controller, "uninstallCheck: {enabled: false}")["uninstall_check.yaml"]), 0)
}

// Quotas, policies and taints that admit the controller's pod have to admit the pod of the check. Nothing that selects
// the controller's pods selects it.
func TestUninstallCheckPodValues(t *testing.T) {
	t.Parallel()
	const values = `
replicaCount: 2
podAnnotations: {example.com/a: b}
podLabels: {example.com/c: d}
podSecurityContext: {fsGroup: 2000}
securityContext: {runAsUser: 1000}
resources: {limits: {memory: 64Mi}}
priorityClassName: system-cluster-critical
affinity:
  nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
  podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}
`
	manager := deployment(t, values).Spec.Template.Spec
	rendered := render(t, controller, values,
		"podLabels: {app.kubernetes.io/name: gha-rs-controller, app.kubernetes.io/component: controller-manager}")
	got := decode[batchv1.Job](t, rendered["uninstall_check.yaml"][3]).Spec.Template
	container := got.Spec.Containers[0]
	check(t, "annotations", got.Annotations, map[string]string{"example.com/a": "b"})
	check(t, "labels", got.Labels, map[string]string{
		"app.kubernetes.io/part-of": "gha-rs-controller", "app.kubernetes.io/component": "uninstall-check", "example.com/c": "d",
		"app.kubernetes.io/name": "gha-rs-controller-uninstall-check",
	})
	check(t, "pod security", got.Spec.SecurityContext, manager.SecurityContext)
	check(t, "security", container.SecurityContext, manager.Containers[0].SecurityContext)
	check(t, "resources", container.Resources, manager.Containers[0].Resources)
	check(t, "priority class", got.Spec.PriorityClassName, "system-cluster-critical")
	check(t, "nodes", got.Spec.Affinity, &corev1.Affinity{NodeAffinity: manager.Affinity.NodeAffinity})

	rendered = render(t, controller, "{podSecurityContext: null, securityContext: null}")
	checkRestricted(t, decode[batchv1.Job](t, rendered["uninstall_check.yaml"][3]).Spec.Template.Spec)
}

// checkRestricted fails the test unless the pod satisfies the Pod Security Standard "restricted".
func checkRestricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	check(t, "runs as root", *pod.SecurityContext.RunAsNonRoot, true)
	check(t, "seccomp profile", pod.SecurityContext.SeccompProfile.Type, corev1.SeccompProfileTypeRuntimeDefault)
	for _, container := range pod.Containers {
		check(t, "escalation", *container.SecurityContext.AllowPrivilegeEscalation, false)
		check(t, "capabilities", container.SecurityContext.Capabilities,
			&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}})
		check(t, "read-only root", *container.SecurityContext.ReadOnlyRootFilesystem, true)
	}
}
