package charts

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// The tests of this file that share a cluster change its Deployments: they don't run in parallel.

// credentials are the values of a scale set that finds its controller itself.
const credentials = "githubConfigUrl: https://github.com/actions\ngithubConfigSecret: {github_token: gh_token12345}\n"

// succeed runs helm against the cluster; the test fails when it does.
func succeed(t *testing.T, cluster *testkube.Cluster, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := helm(t, append(arguments, "--kubeconfig", cluster.AdminKubeconfig())...)
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", arguments, err, stderr)
	}
	return stdout
}

// deployController creates what discovery looks at of a controller: a Deployment with its labels.
func deployController(t *testing.T, cluster *testkube.Cluster, namespace, name string, labels map[string]string) {
	t.Helper()
	pod := map[string]string{"app": name}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: extended(labels, map[string]string{"app.kubernetes.io/part-of": "gha-rs-controller"})},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	if err := cluster.Client().Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := cluster.Client().Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
}

func accountLabels(name, watched string) map[string]string {
	labels := map[string]string{
		"actions.github.com/controller-service-account-name":      name,
		"actions.github.com/controller-service-account-namespace": name + "-namespace",
	}
	if watched != "" {
		labels["actions.github.com/controller-watch-single-namespace"] = watched
	}
	return labels
}

func TestDiscovery(t *testing.T) {
	cluster := testkube.Shared(t)
	live := scaleSet.with("--dry-run=server", "--kubeconfig", cluster.AdminKubeconfig())
	for _, test := range []struct {
		name        string
		controllers []map[string]string
		values      string
		found, said string
	}{
		{"none", nil, "", "", "No gha-rs-controller deployment found using label (app.kubernetes.io/part-of=gha-rs-controller). Consider setting controllerServiceAccount.name"},
		{"one", []map[string]string{accountLabels("a", "")}, "", "a-namespace/a", ""},
		{"name given", []map[string]string{accountLabels("a", "")}, "controllerServiceAccount: {name: own}", "a-namespace/own", ""},
		{"namespace given", []map[string]string{accountLabels("a", "")}, "controllerServiceAccount: {namespace: own}", "own/a", ""},
		{"both given", nil, "controllerServiceAccount: {name: own, namespace: own}", "own/own", ""},
		{"two", []map[string]string{accountLabels("a", ""), accountLabels("b", "")}, "", "", "More than one gha-rs-controller deployment found"},
		{"mixed", []map[string]string{accountLabels("a", ""), accountLabels("b", "arc-runners")}, "", "", "Found both gha-rs-controller installed with flags.watchSingleNamespace set and unset"},
		{"single this namespace", []map[string]string{accountLabels("a", "arc-runners"), accountLabels("b", "other")}, "", "a-namespace/a", ""},
		{"single another namespace", []map[string]string{accountLabels("b", "other")}, "", "", "No gha-rs-controller deployment that watch this namespace found"},
		{"single twice", []map[string]string{accountLabels("a", "arc-runners"), accountLabels("b", "arc-runners")}, "", "", "More than one gha-rs-controller deployment found"},
		{"no labels", []map[string]string{{}}, "", "", "No service account name found"},
		{"no namespace label", []map[string]string{{"actions.github.com/controller-service-account-name": "a"}}, "", "", "Consider setting controllerServiceAccount.namespace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, labels := range test.controllers {
				deployController(t, cluster, cluster.NewNamespace(t), "controller", labels)
			}
			if test.said != "" {
				checkContains(t, refusal(t, live, credentials, test.values), test.said)
				return
			}
			binding := one[rbacv1.RoleBinding](t, render(t, live, credentials, test.values), "manager_role_binding.yaml")
			check(t, "account", binding.Subjects[0].Namespace+"/"+binding.Subjects[0].Name, test.found)
		})
	}
}

// A first user's way: controller, scale set in every mode, upgrade, uninstall. The API server takes every object, and
// the controller's account may do what it has to.
func TestInstall(t *testing.T) {
	// The chart brings the CRDs.
	cluster := testkube.Start(t, testkube.Options{CRDs: []string{}})
	system, runners := cluster.NewNamespace(t), cluster.NewNamespace(t)
	succeed(t, cluster, "install", "arc", controller.directory(), "--namespace", system)
	for _, containerMode := range modes {
		arguments := []string{
			"set", scaleSet.directory(), "--namespace", runners,
			"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t,containerMode.type=" + containerMode,
		}
		if containerMode == "kubernetes" {
			arguments = append(arguments, "--set", "containerMode.kubernetesModeWorkVolumeClaim.accessModes={ReadWriteOnce}")
		}
		notes := succeed(t, cluster, append([]string{"install"}, arguments...)...)
		checkContains(t, notes, "runs-on: set")
		succeed(t, cluster, append([]string{"upgrade"}, append(arguments, "--set", "maxRunners=0")...)...)
		checkPermissions(t, cluster, system, runners)
		succeed(t, cluster, "uninstall", "set", "--namespace", runners)
		checkGone(t, cluster, runners)
	}
}

// Restricted to one namespace, the controller may do the same there.
func TestInstallForSingleNamespace(t *testing.T) {
	cluster := testkube.Shared(t)
	system, runners := cluster.NewNamespace(t), cluster.NewNamespace(t)
	succeed(t, cluster, "install", "arc", controller.directory(), "--namespace", system,
		"--set", "crds.install=false,flags.watchSingleNamespace="+runners)
	succeed(t, cluster, "install", "set", scaleSet.directory(), "--namespace", runners,
		"--set", "githubConfigUrl=https://github.com/actions,githubConfigSecret.github_token=t")
	checkPermissions(t, cluster, system, runners)
	succeed(t, cluster, "uninstall", "set", "--namespace", runners)
	succeed(t, cluster, "uninstall", "arc", "--namespace", system, "--no-hooks")
}

// CRDs that are there already, as after a move from ARC, whose chart leaves them to nobody, are taken over.
func TestTakeOverCRDs(t *testing.T) {
	cluster := testkube.Shared(t)
	system := cluster.NewNamespace(t)
	succeed(t, cluster, "install", "arc", controller.directory(), "--namespace", system, "--take-ownership")
	// No kubelet runs the hook's Job here.
	succeed(t, cluster, "uninstall", "arc", "--namespace", system, "--no-hooks")
	live := scaleSet.with("--dry-run=server", "--kubeconfig", cluster.AdminKubeconfig())
	render(t, live, minimal)
}

// checkPermissions has the controller's account do what ARC's roles allow and what ours add.
func checkPermissions(t *testing.T, cluster *testkube.Cluster, system, runners string) {
	t.Helper()
	account, err := client.New(cluster.ConfigFor(t, testkube.ServiceAccount(system, "arc-gha-rs-controller")), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"actions.github.com"}, Resources: []string{resource}, Verbs: verbs}
	}
	// A Role may grant only what its author has: the listener's has to be within the controller's.
	listener := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "listener"}, Rules: []rbacv1.PolicyRule{
		rule("ephemeralrunnersets", "get", "patch"), rule("ephemeralrunnersets/status", "patch"), rule("ephemeralrunners/status", "patch"),
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "runner"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "i"}}}}
	for _, object := range []client.Object{listener, pod, event(system), event(runners)} {
		if err := account.Create(t.Context(), object); err != nil {
			t.Errorf("the controller may not create a %T: %v", object, err)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		if err := account.List(t.Context(), list, client.InNamespace(runners), client.MatchingLabels{"runner-pod": "runner"}); err != nil {
			t.Errorf("the controller may not look for what container hooks left: %v", err)
		}
	}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"job":"1"}}}`))
	if err := account.Patch(t.Context(), pod, label); err != nil {
		t.Errorf("the controller may not label a pod: %v", err)
	}
	for _, object := range []client.Object{listener, pod} {
		if err := account.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("the controller may not delete a %T: %v", object, err)
		}
	}
}

func event(namespace string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: "event-"},
		InvolvedObject: corev1.ObjectReference{Namespace: namespace, Kind: "Pod", Name: "runner"},
	}
}

// checkGone fails the test when something of the release is left: nothing of it may wait for a finalizer.
func checkGone(t *testing.T, cluster *testkube.Cluster, namespace string) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		{Group: "actions.github.com", Version: "v1alpha1", Kind: "AutoscalingRunnerSetList"},
		rbacv1.SchemeGroupVersion.WithKind("RoleList"), rbacv1.SchemeGroupVersion.WithKind("RoleBindingList"),
		corev1.SchemeGroupVersion.WithKind("SecretList"), corev1.SchemeGroupVersion.WithKind("ServiceAccountList"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := cluster.Client().List(t.Context(), list, client.InNamespace(namespace), client.HasLabels{"actions.github.com/scale-set-name"}); err != nil {
			t.Fatal(err)
		}
		check(t, "left of "+kind.Kind, len(list.Items), 0)
	}
}
