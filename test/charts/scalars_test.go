package charts

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// YAML reads values without quotes as numbers and booleans. They are strings again where Kubernetes takes nothing else,
// and a long number keeps all digits. Null removes a key.
const unquoted = "{build: 12345678, spot: true, part: 1.5, gone: null}"

var quoted = map[string]string{"build": "12345678", "spot": "true", "part": "1.5"}

func TestControllersMapsAreStrings(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, "labels: "+unquoted, "serviceAccount: {annotations: "+unquoted+"}",
		"podAnnotations: "+unquoted,
		"podLabels: "+unquoted, "nodeSelector: "+unquoted)
	got, plain := one[appsv1.Deployment](t, rendered, "deployment.yaml"), deployment(t)
	pod, plainPod := got.Spec.Template, plain.Spec.Template
	check(t, "labels", got.Labels, extended(plain.Labels, quoted))
	check(t, "labels of the pod", pod.Labels, extended(plainPod.Labels, quoted))
	check(t, "annotations of the pod", pod.Annotations, extended(plainPod.Annotations, quoted))
	nodes := extended(plainPod.Spec.NodeSelector, quoted)
	check(t, "nodes", pod.Spec.NodeSelector, nodes)
	check(t, "annotations of the account", one[corev1.ServiceAccount](t, rendered, "serviceaccount.yaml").Annotations,
		quoted)
	job := decode[batchv1.Job](t, rendered["uninstall_check.yaml"][3]).Spec.Template
	check(t, "nodes of the uninstall check", job.Spec.NodeSelector, nodes)
	check(t, "its annotations", job.Annotations, quoted)
}

func TestMonitoringsMapsAreStrings(t *testing.T) {
	t.Parallel()
	const metrics = "metrics: {controllerManagerAddr: ':8080', listenerAddr: ':8080', listenerEndpoint: /metrics}"
	rendered := render(t, controller, metrics,
		"monitoring: {podMonitor: {enabled: true, labels: "+unquoted+"}, prometheusRule: {enabled: true, labels: "+
			unquoted+"}, dashboards: {enabled: true, labels: "+unquoted+", annotations: "+unquoted+"}}")
	for _, file := range []string{"podmonitor.yaml", "prometheusrule.yaml", "dashboards.yaml"} {
		got := decode[object](t, rendered[file][0]).Metadata
		for key, value := range quoted {
			check(t, key+" of "+file, got.Labels[key], value)
		}
		_, found := got.Labels["gone"]
		check(t, file+" has the label with null", found, false)
	}
	check(t, "annotations of the dashboards", decode[object](t, rendered["dashboards.yaml"][0]).Metadata.Annotations,
		quoted)
}

// A map of nulls only is an empty one.
func TestControllersMapsOfNulls(t *testing.T) {
	t.Parallel()
	const none = "{gone: null}"
	values := "labels: " + none + "\nserviceAccount: {annotations: " + none + "}\npodAnnotations: " + none +
		"\npodLabels: " + none + "\nnodeSelector: " + none
	got, _, err := controller.template(t, values)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := controller.template(t)
	check(t, "render", got, want)
}

func TestControllersNamesOfDigits(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller,
		"{fullnameOverride: 20261121, namespaceOverride: 20261122, flags: {watchSingleNamespace: 20261123}, image: "+
			"{tag: 20261124}}")
	got := one[appsv1.Deployment](t, rendered, "deployment.yaml")
	pod := got.Spec.Template.Spec
	check(t, "name", got.Namespace+"/"+got.Name, "20261122/20261121")
	check(t, "image", pod.Containers[0].Image, "ghcr.io/harrier-ci/gha-runner-scale-set-controller:20261124")
	check(t, "account", pod.ServiceAccountName, one[corev1.ServiceAccount](t, rendered, "serviceaccount.yaml").Name)
	check(t, "label of the account", got.Labels["actions.github.com/controller-service-account-name"], "20261121")
	check(t, "label of the watched namespace", got.Labels["actions.github.com/controller-watch-single-namespace"],
		"20261123")
	check(t, "watched namespace", slices.Contains(pod.Containers[0].Args, "--watch-single-namespace=20261123"), true)
	check(t, "its role", one[rbacv1.Role](t, rendered, "manager_single_namespace_watch_role.yaml").Namespace,
		"20261123")
	check(t, "name of nameOverride", deployment(t, "nameOverride: 20261121").Name, "arc-20261121")
	for _, given := range []string{"'20261125'", "20261125"} {
		got = deployment(t, "serviceAccount: {create: false, name: "+given+"}")
		check(t, "given account", got.Spec.Template.Spec.ServiceAccountName, "20261125")
		check(t, "its label", got.Labels["actions.github.com/controller-service-account-name"], "20261125")
	}
}

func TestScaleSetsNamesOfDigits(t *testing.T) {
	t.Parallel()
	values := "{runnerScaleSetName: 20261121, namespaceOverride: 20261122, runnerGroup: 20261123, scaleSetLabels: " +
		"[20261124, 1.5, true]}"
	rendered := renderSet(t, scaleSet, values)
	set := runnerSet(t, scaleSet, values)
	check(t, "name", set.Namespace+"/"+set.Name, "20261122/20261121")
	check(t, "name on GitHub", set.Spec.RunnerScaleSetName, "20261121")
	check(t, "group", set.Spec.RunnerGroup, "20261123")
	check(t, "labels", set.Spec.RunnerScaleSetLabels, []string{"20261124", "1.5", "true"})
	check(t, "label", set.Labels["actions.github.com/scale-set-name"], "20261121")
	check(t, "role", one[rbacv1.Role](t, rendered, "manager_role.yaml").Name, "20261121-gha-rs-manager")
	for _, given := range []string{"{name: '20261125', namespace: '20261126'}",
		"{name: 20261125, namespace: 20261126}"} {
		bound := one[rbacv1.RoleBinding](t, renderSet(t, scaleSet, "controllerServiceAccount: "+given),
			"manager_role_binding.yaml")
		check(t, "bound account", bound.Subjects[0].Namespace+"/"+bound.Subjects[0].Name, "20261126/20261125")
	}
	notes, stderr, err := scaleSet.with("--dry-run=client").run(t, "install", minimal, values)
	if err != nil {
		t.Fatal(stderr)
	}
	checkContains(t, notes, "these labels too: 20261124, 1.5, true")
}

// Helm finds the release in its own namespace, wherever its objects are.
func TestNotesNameTheNamespaceOfTheRelease(t *testing.T) {
	t.Parallel()
	notes, stderr, err := scaleSet.with("--dry-run=client").run(t, "install", minimal, "namespaceOverride: elsewhere")
	if err != nil {
		t.Fatal(stderr)
	}
	checkContains(t, notes, "helm upgrade test-runners <chart> --namespace arc-runners ")
	checkContains(t, notes, "kubectl --namespace elsewhere get ephemeralrunners")
	for _, command := range []string{"top", "why --namespace elsewhere [RUN-URL]", "drain test-runners --namespace elsewhere"} {
		checkContains(t, notes, "kubectl harrier "+command)
	}
}

// The maxRunners of an open schedule would count instead of 0.
func TestNotesDrainASetWithSchedules(t *testing.T) {
	t.Parallel()
	const schedules = "schedules: [{name: office, schedule: '0 7 * * 1-5', duration: 11h, maxRunners: 200}]"
	const limits, without = " --set minRunners=0 --set maxRunners=0", " --set-json 'schedules=[]'"
	checkContains(t, notes(t, schedules), limits+without+"\n")
	checkContains(t, notes(t), limits+"\n")
	rendered, stderr, err := scaleSet.with("--set", "minRunners=0", "--set", "maxRunners=0", "--set-json",
		"schedules=[]").
		template(t, minimal, schedules)
	if err != nil {
		t.Fatal(stderr)
	}
	checkContains(t, rendered, "\n  maxRunners: 0\n")
	check(t, "has schedules", strings.Contains(rendered, "schedules"), false)
}

// Jobs lose their rights with the Role, whoever deletes it. Without a Role of the chart they lose none.
func TestNotesOfKubernetesModes(t *testing.T) {
	t.Parallel()
	for values, warns := range map[string]bool{
		mode("kubernetes"): true, mode("kubernetes-novolume"): true, mode("dind"): false,
		mode("kubernetes") + "\ntemplate: {spec: {serviceAccountName: own}}": false,
	} {
		notes, stderr, err := scaleSet.with("--dry-run=client").run(t, "install", minimal, values)
		if err != nil {
			t.Fatal(stderr)
		}
		for _, way := range []string{"when it is uninstalled fail",
			"an upgrade sets another containerMode.type or template.spec.serviceAccountName"} {
			check(t, way+" with "+values, strings.Contains(strings.Join(strings.Fields(notes), " "), way), warns)
		}
	}
}

// 0 is a level: the one of info.
func TestLogLevelZero(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"flags: {logLevel: 0}": "--log-level=0", "flags: {logLevel: '0'}": "--log-level=0", "flags: {logLevel: -1}": "--log-level=-1",
		"flags: {logLevel: null}": "--log-format=text", "flags: {logLevel: ''}": "--log-format=text",
	} {
		check(t, values, slices.Contains(manager(t, values).Args, want), true)
	}
}
