package charts

import (
	"context"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// The tests of this file that share a cluster change its Deployments: they don't run in parallel.

// credentials are values of a scale set that finds its controller itself.
const credentials = "githubConfigUrl: https://github.com/actions\ngithubConfigSecret: {github_token: gh_token12345}\n"

// deployController creates the part of a controller that discovery looks at: a Deployment with its labels.
func deployController(t *testing.T, cluster *testkube.Cluster, namespace, name string, labels map[string]string) {
	t.Helper()
	pod := map[string]string{"app": name}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: extended(labels, map[string]string{"app.kubernetes.io/part-of": "gha-rs-controller"})},
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

// Terraform and other tools plan without what the same run installs, and apply with it: a render that differs is refused
// or shows a change that nobody made.
func TestTheRenderIsTheSameWithAndWithoutACluster(t *testing.T) {
	cluster := testkube.Shared(t)
	live := scaleSet.with("--dry-run=server", "--kubeconfig", cluster.AdminKubeconfig())
	namespace := cluster.NewNamespace(t)
	deployController(t, cluster, namespace, "controller", map[string]string{
		"actions.github.com/controller-service-account-name":      "arc",
		"actions.github.com/controller-service-account-namespace": namespace,
	})
	given := "controllerServiceAccount: {name: arc, namespace: " + namespace + "}"
	const template = "containerMode: {kubernetesModeHookTemplate: {spec: {nodeSelector: {pool: jobs}}}}"
	const claim = "containerMode: {kubernetesModeWorkVolumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	for name, values := range map[string][]string{
		"none": {mode("none")}, "dind": {mode("dind")}, "kubernetes": {mode("kubernetes"), claim},
		"kubernetes with a template":          {mode("kubernetes"), claim, template},
		"kubernetes-novolume":                 {mode("kubernetes-novolume")},
		"kubernetes-novolume with a template": {mode("kubernetes-novolume"), template},
	} {
		known := append([]string{credentials, given}, values...)
		check(t, name+": with a cluster", render(t, live, known...), render(t, scaleSet.with(), known...))
		found := append([]string{credentials}, values...)
		check(t, name+": with the controller's account found there", withoutHash(render(t, live, found...)),
			withoutHash(render(t, scaleSet.with(), known...)))
	}
}

// hash is an annotation that has the values' hash, in which how the controller's account is given shows.
var hash = regexp.MustCompile(`actions\.github\.com/values-hash: \S+`)

func withoutHash(rendered manifests) manifests {
	for _, documents := range rendered {
		for i := range documents {
			documents[i] = hash.ReplaceAllString(documents[i], "")
		}
	}
	return rendered
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
		{"none", nil, "", "", "No gha-rs-controller deployment found using label (app.kubernetes.io/part-of=gha-rs-controller). Consider setting controllerServiceAccount.name in values.yaml to be explicit if you think the discovery is wrong. Where there is no cluster to look in, as for helm template, set controllerServiceAccount.name and controllerServiceAccount.namespace; with --dry-run=server helm asks the cluster"},
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
			binding := one[rbacv1.RoleBinding](t, render(t, live, credentials, test.values),
				"manager_role_binding.yaml")
			check(t, "account", binding.Subjects[0].Namespace+"/"+binding.Subjects[0].Name, test.found)
		})
	}
}
