package charts

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A user with rights in the two namespaces only installs, upgrades and uninstalls both charts, as docs/from-arc.md says.
// With the defaults both are refused.
func TestInstallerWithRightsInNamespacesOnly(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	system, runners := cluster.NewNamespace(t), cluster.NewNamespace(t)
	installer := namespaceAdmin(t, cluster, system, runners)
	succeed := func(arguments ...string) {
		t.Helper()
		if _, stderr, err := helm(t, append(arguments, "--kubeconfig", installer)...); err != nil {
			t.Fatalf("helm %v: %v\n%s", arguments, err, stderr)
		}
	}
	watched := []string{controller.directory(), "--namespace", system, "--set", "flags.watchSingleNamespace=" + runners}
	_, refusal, _ := helm(t, append([]string{"install", "arc", "--kubeconfig", installer}, watched...)...)
	checkContains(t, refusal, `cannot get resource "customresourcedefinitions"`)
	restricted := append(watched, "--set", "crds.install=false,rbac.clusterRoles=false")
	succeed(append([]string{"install", "arc"}, restricted...)...)
	succeed(append([]string{"upgrade", "arc"}, restricted...)...)
	set := []string{
		"install", "set", scaleSet.directory(), "--namespace", runners, "--set",
		"githubConfigUrl=https://github.com/actions,githubConfigSecret=s",
	}
	_, refusal, _ = helm(t, append(set, "--kubeconfig", installer)...)
	checkContains(t, refusal, `cannot list resource "deployments" in API group "apps" at the cluster scope`)
	succeed(append(set, "--set",
		"controllerServiceAccount.name=arc-gha-rs-controller,controllerServiceAccount.namespace="+system)...)
	succeed("uninstall", "set", "--namespace", runners)
	succeed("uninstall", "arc", "--namespace", system, "--no-hooks") // nothing runs the check's Job here
}

// namespaceAdmin returns the kubeconfig of a user who may do everything in the namespaces and nothing outside of them.
func namespaceAdmin(t *testing.T, cluster *testkube.Cluster, namespaces ...string) string {
	t.Helper()
	user := "admin-of-" + namespaces[0]
	for _, namespace := range namespaces {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if err := cluster.Client().Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	return cluster.Kubeconfig(t, testkube.User(user))
}
