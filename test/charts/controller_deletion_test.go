package charts

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/harrier-ci/harrier/internal/controller/watchednamespace"
)

const (
	deletionFile = "manager_single_namespace_deletion.yaml"
	deletionName = "arc-gha-rs-controller-single-namespace-deletion.team-a"

	noClusterRoles = "rbac: {clusterRoles: false}\n"
)

// A ClusterRole outlives the watched namespace. It has the rules of the namespace's Role, and one to take the finalizer
// off the RoleBinding. It is bound in that namespace only, by a RoleBinding that the manager finds.
func TestRightsThatOutliveTheWatchedNamespace(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, singleNamespace)
	role, binding := deletionObjects(t, rendered)
	watch := one[rbacv1.Role](t, rendered, "manager_single_namespace_watch_role.yaml")
	last := len(role.Rules) - 1
	check(t, "role", role.Kind+" "+role.Namespace+"/"+role.Name, "ClusterRole /"+deletionName)
	check(t, "rules of the Role", rules(role.Rules[:last]), rules(watch.Rules))
	check(t, "one more", rules(role.Rules[last:]), []string{rbacGroup + "rolebindings: patch"})
	check(t, "for", role.Rules[last].ResourceNames, []string{deletionName})

	check(t, "binding", binding.Kind+" "+binding.Namespace+"/"+binding.Name, "RoleBinding team-a/"+deletionName)
	check(t, "binds", binding.RoleRef, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
		Name: deletionName})
	check(t, "subjects", binding.Subjects, []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Name: "arc-gha-rs-controller", Namespace: "arc-systems"},
	})
	check(t, "found by the manager", watchednamespace.Selector("arc-systems").Matches(labels.Set(binding.Labels)), true)
}

// deletionObjects returns the two objects of the file.
func deletionObjects(t *testing.T, rendered manifests) (rbacv1.ClusterRole, rbacv1.RoleBinding) {
	t.Helper()
	documents := rendered[deletionFile]
	if len(documents) != 2 {
		t.Fatalf("%s has %d objects, want 2", deletionFile, len(documents))
	}
	return decode[rbacv1.ClusterRole](t, documents[0]), decode[rbacv1.RoleBinding](t, documents[1])
}

// A manager restricted to a namespace has no rights in others: nothing binds it to a ClusterRole for all of them.
func TestRestrictedManagerIsBoundInNamespacesOnly(t *testing.T) {
	t.Parallel()
	for _, documents := range render(t, controller, singleNamespace) {
		for _, document := range documents {
			if !strings.Contains(document, "\nkind: ClusterRoleBinding\n") {
				continue
			}
			binding := decode[rbacv1.ClusterRoleBinding](t, document)
			check(t, "hook of "+binding.Name, binding.Annotations["helm.sh/hook"], "pre-delete")
			check(t, "account of "+binding.Name, binding.Subjects[0].Name, "arc-gha-rs-controller-uninstall-check")
		}
	}
}

// Releases of one name in different namespaces, each watching one namespace, have different objects outside of these.
func TestRestrictedReleasesOfOneNameDoNotMeet(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, watched := range []string{"team-a", "team-b"} {
		for _, documents := range render(t, controller,
			"crds: {install: false}\nflags: {watchSingleNamespace: "+watched+"}") {
			for _, document := range documents {
				object := decode[unstructured.Unstructured](t, document)
				key := object.GetKind() + " " + object.GetName()
				if strings.HasPrefix(key, "ClusterRole") && seen[key] {
					t.Errorf("both want %s", key)
				}
				seen[key] = true
			}
		}
	}
}

// There are Roles only if the controller lives in the watched namespace, or if the installer may make no ClusterRole.
func TestRolesOnly(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"flags: {watchSingleNamespace: arc-systems}", noClusterRoles + singleNamespace} {
		rendered := render(t, controller, values)
		check(t, deletionFile, len(rendered[deletionFile]), 0)
		for file, documents := range rendered {
			if strings.Contains(strings.Join(documents, ""), "kind: ClusterRole") {
				t.Errorf("with %s there is a ClusterRole in %s", values, file)
			}
		}
	}
	check(t, "where rbac is null", len(render(t, controller, "rbac: null\n"+singleNamespace)[deletionFile]), 2)
}

func TestClusterRolesThatAreNeeded(t *testing.T) {
	t.Parallel()
	checkContains(t, refusal(t, controller, noClusterRoles),
		"set Values.flags.watchSingleNamespace, or set Values.rbac.clusterRoles to true")
	secured := refusal(t, controller, noClusterRoles+singleNamespace+"\n"+metricsOn+"  secure: true\n")
	checkContains(t, secured, "Values.metrics.secure needs a ClusterRole")
}
