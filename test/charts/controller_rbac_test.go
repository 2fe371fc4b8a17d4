package charts

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// The manager's verbs for the kinds it makes and for their status, which test/rbac finds by requests; and the verb
	// of an earlier manager that still runs while Helm upgrades the chart.
	made       = "create delete list patch watch"
	status     = "patch"
	finalizers = "update"

	actionsGroup = "actions.github.com/"
	rbacGroup    = "rbac.authorization.k8s.io/"

	singleNamespace            = `flags: {watchSingleNamespace: team-a}`
	noStripping                = `flags: {stripForeignFinalizers: false}`
	singleNamespaceNoStripping = `flags: {watchSingleNamespace: team-a, stripForeignFinalizers: false}`
)

var (
	events = []string{"events.k8s.io/events: create patch"}
	lease  = []string{"coordination.k8s.io/leases: create", "coordination.k8s.io/leases: get update"}
)

// The rules of the manager for all namespaces, and for one.
var (
	everywhere = []string{
		actionsGroup + "autoscalingrunnersets: list patch watch",
		actionsGroup + "autoscalingrunnersets/finalizers: " + finalizers,
		actionsGroup + "autoscalingrunnersets/status: " + status,
		actionsGroup + "autoscalinglisteners: " + made,
		actionsGroup + "autoscalinglisteners/status: " + status,
		actionsGroup + "autoscalinglisteners/finalizers: " + finalizers,
		actionsGroup + "ephemeralrunnersets: create delete get list patch watch",
		actionsGroup + "ephemeralrunnersets/status: " + status,
		actionsGroup + "ephemeralrunnersets/finalizers: " + finalizers,
		actionsGroup + "ephemeralrunners: " + made,
		actionsGroup + "ephemeralrunners/finalizers: " + finalizers,
		actionsGroup + "ephemeralrunners/status: " + status,
		"/pods,nodes: list watch",
		"/persistentvolumeclaims,serviceaccounts: list watch",
		"/persistentvolumes: get",
		rbacGroup + "rolebindings: list watch",
		rbacGroup + "roles: list watch patch",
	}
	inOneNamespace = []string{
		actionsGroup + "autoscalingrunnersets: list patch watch",
		actionsGroup + "autoscalingrunnersets/finalizers: " + finalizers,
		actionsGroup + "autoscalingrunnersets/status: " + status,
		actionsGroup + "ephemeralrunnersets: create delete get list patch watch",
		actionsGroup + "ephemeralrunnersets/status: " + status,
		actionsGroup + "ephemeralrunnersets/finalizers: " + finalizers,
		actionsGroup + "ephemeralrunners: " + made,
		actionsGroup + "ephemeralrunners/finalizers: " + finalizers,
		actionsGroup + "ephemeralrunners/status: " + status,
		actionsGroup + "autoscalinglisteners: list",
		"/pods: list watch",
		"/persistentvolumeclaims: list watch",
		"/serviceaccounts: list watch",
		rbacGroup + "rolebindings: list watch",
		rbacGroup + "roles: list watch patch",
	}
)

// withoutPatch returns the rules of a manager that leaves ARC's finalizers: it can't patch the Roles of every
// namespace.
func withoutPatch(rules []string) []string {
	changed := slices.Clone(rules)
	changed[len(changed)-1] = rbacGroup + "roles: list watch"
	return changed
}

// withoutNodes returns the rules of a manager that doesn't watch nodes: then volumes tell it nothing either.
func withoutNodes(rules []string) []string {
	changed := slices.Clone(rules)
	changed[slices.Index(changed, "/pods,nodes: list watch")] = "/pods: list watch"
	at := slices.Index(changed, "/persistentvolumes: get")
	return slices.Delete(changed, at, at+1)
}

func TestControllerRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file, values, kind, name, namespace string
		want                                []string
	}{
		{"manager_cluster_role.yaml", "", "ClusterRole", "arc-gha-rs-controller", "", everywhere},
		{"manager_listener_role.yaml", "", "Role", "arc-gha-rs-controller-listener", "arc-systems", []string{
			"/pods: create delete get",
			"/pods/status: get",
			"/secrets: create delete get patch",
			"/serviceaccounts: create delete patch",
		}},
		{"manager_listener_config_role.yaml", "", "Role", "arc-gha-rs-controller-listener-config", "arc-systems", []string{"/pods: patch"}},
		{"scale_set_holders_role.yaml", "", "Role", "arc-gha-rs-controller-scale-set-holders", "arc-systems", []string{"coordination.k8s.io/leases: create delete list update watch"}},
		{"leader_election_role.yaml", "", "Role", "arc-gha-rs-controller-leader-election", "arc-systems", lease},
		{"leader_election_role.yaml", "replicaCount: 2", "Role", "arc-gha-rs-controller-leader-election", "arc-systems", lease},
		{"manager_single_namespace_controller_role.yaml", singleNamespace, "Role",
			"arc-gha-rs-controller-single-namespace", "arc-systems", []string{
				// Nothing about scale sets and runners, because they are another manager's here. Ten rules: tests for
				// ARC's chart count them.
				actionsGroup + "autoscalinglisteners: create",
				actionsGroup + "autoscalinglisteners: delete",
				actionsGroup + "autoscalinglisteners: patch",
				actionsGroup + "autoscalinglisteners: list watch",
				actionsGroup + "autoscalinglisteners/status: " + status,
				actionsGroup + "autoscalinglisteners/finalizers: " + finalizers,
				"/pods: list watch",
				"/serviceaccounts: list watch",
				rbacGroup + "rolebindings: list watch",
				rbacGroup + "roles: list watch",
			}},
		{"manager_single_namespace_watch_role.yaml", singleNamespace, "Role", "arc-gha-rs-controller-single-namespace-watch", "team-a", inOneNamespace},
		{"manager_cluster_role.yaml", "flags: {watchNodes: false}", "ClusterRole", "arc-gha-rs-controller", "", withoutNodes(everywhere)},
		{"manager_cluster_role.yaml", "flags: {watchNodes: }", "ClusterRole", "arc-gha-rs-controller", "", everywhere},
		{"manager_cluster_role.yaml", noStripping, "ClusterRole", "arc-gha-rs-controller", "", withoutPatch(everywhere)},
		{"manager_single_namespace_watch_role.yaml", singleNamespaceNoStripping, "Role",
			"arc-gha-rs-controller-single-namespace-watch", "team-a",
			withoutPatch(inOneNamespace)},
		{"manager_events_role.yaml", "", "ClusterRole", "arc-gha-rs-controller-events", "", events},
	} {
		t.Run(test.file+" "+test.values, func(t *testing.T) {
			t.Parallel()
			// ClusterRole has the fields of Role and one more.
			role := one[rbacv1.ClusterRole](t, render(t, controller, test.values), test.file)
			check(t, "kind", role.Kind, test.kind)
			check(t, "name", role.Name, test.name)
			check(t, "namespace", role.Namespace, test.namespace)
			check(t, "labels", len(role.Labels), 0)
			check(t, "rules", rules(role.Rules), test.want)
		})
	}
}

// Managers of one release agree on one Lease, whatever the number of replicas, and have rights to no other.
func TestTheLeaseHasOneName(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"": "arc-gha-rs-controller", "replicaCount: 2": "arc-gha-rs-controller", "replicaCount: '3'": "arc-gha-rs-controller",
		singleNamespace: "arc-gha-rs-controller", "fullnameOverride: ci": "ci", "nameOverride: ci\nreplicaCount: 2": "arc-ci",
	} {
		rendered := render(t, controller, values)
		args := one[appsv1.Deployment](t, rendered, "deployment.yaml").Spec.Template.Spec.Containers[0].Args
		check(t, "election with "+values, slices.Contains(args, "--enable-leader-election"), true)
		check(t, "its Lease with "+values, slices.Contains(args, "--leader-election-id="+want), true)
		role := one[rbacv1.Role](t, rendered, "leader_election_role.yaml")
		check(t, "rights with "+values, role.Rules[1].ResourceNames, []string{want})
	}
}

func TestControllerBindings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, values, kind, name, namespace string }{
		{"manager_cluster_role_binding.yaml", "", "ClusterRole", "arc-gha-rs-controller", ""},
		{"manager_events_role_binding.yaml", "", "ClusterRole", "arc-gha-rs-controller-events", ""},
		{"manager_listener_role_binding.yaml", "", "Role", "arc-gha-rs-controller-listener", "arc-systems"},
		{"manager_listener_config_role_binding.yaml", "", "Role", "arc-gha-rs-controller-listener-config", "arc-systems"},
		{"scale_set_holders_role_binding.yaml", "", "Role", "arc-gha-rs-controller-scale-set-holders", "arc-systems"},
		{"leader_election_role_binding.yaml", "", "Role", "arc-gha-rs-controller-leader-election", "arc-systems"},
		{"manager_single_namespace_controller_role_binding.yaml", singleNamespace, "Role", "arc-gha-rs-controller-single-namespace", "arc-systems"},
		{"manager_single_namespace_watch_role_binding.yaml", singleNamespace, "Role", "arc-gha-rs-controller-single-namespace-watch", "team-a"},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			binding := one[rbacv1.RoleBinding](t, render(t, controller, test.values), test.file)
			check(t, "kind", binding.Kind, test.kind+"Binding")
			check(t, "name", binding.Name, test.name)
			check(t, "namespace", binding.Namespace, test.namespace)
			check(t, "role", binding.RoleRef,
				rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: test.kind, Name: test.name})
			check(t, "subjects", binding.Subjects, []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Name: "arc-gha-rs-controller", Namespace: "arc-systems"},
			})
		})
	}
}

// In single-namespace mode Events are allowed in the watched namespace and the controller's, by a single Role if both
// are the same.
func TestControllerEventRoles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		watched string
		want    []string
	}{
		{"team-a", []string{"arc-systems", "team-a"}},
		{"arc-systems", []string{"arc-systems"}},
	} {
		rendered := render(t, controller, "flags: {watchSingleNamespace: "+test.watched+"}")
		roles := all[rbacv1.Role](t, rendered, "manager_events_role.yaml")
		bindings := all[rbacv1.RoleBinding](t, rendered, "manager_events_role_binding.yaml")
		for _, role := range roles {
			check(t, "rules", rules(role.Rules), events)
		}
		check(t, "namespaces of roles", names(roles, func(r rbacv1.Role) string { return r.Namespace }), test.want)
		check(t, "namespaces of bindings",
			names(bindings, func(b rbacv1.RoleBinding) string { return b.Namespace }), test.want)
	}
}

// An unwanted template renders nothing at all: tests for ARC's chart select by file name and expect an error.
func TestControllerTemplatesByMode(t *testing.T) {
	t.Parallel()
	always := []string{
		"actions.github.com_autoscalinglisteners.yaml", "actions.github.com_autoscalingrunnersets.yaml",
		"actions.github.com_ephemeralrunners.yaml", "actions.github.com_ephemeralrunnersets.yaml",
		"deployment.yaml", "leader_election_role.yaml", "leader_election_role_binding.yaml", "manager_events_role.yaml", "manager_events_role_binding.yaml", "manager_listener_config_role.yaml",
		"manager_listener_config_role_binding.yaml", "manager_listener_role.yaml",
		"manager_listener_role_binding.yaml", "scale_set_holders_role.yaml", "scale_set_holders_role_binding.yaml",
		"serviceaccount.yaml", "uninstall_check.yaml",
	}
	cluster := []string{"manager_cluster_role.yaml", "manager_cluster_role_binding.yaml"}
	single := []string{
		"manager_single_namespace_controller_role.yaml", "manager_single_namespace_controller_role_binding.yaml",
		"manager_single_namespace_deletion.yaml",
		"manager_single_namespace_watch_role.yaml", "manager_single_namespace_watch_role_binding.yaml",
	}
	several := []string{"poddisruptionbudget.yaml"}
	for values, want := range map[string][]string{
		"":                                    slices.Concat(always, cluster),
		singleNamespace:                       slices.Concat(always, single),
		"replicaCount: 2\n" + singleNamespace: slices.Concat(always, single, several),
	} {
		slices.Sort(want)
		check(t, "templates of "+values, sortedKeys(render(t, controller, values)), want)
	}
	_, stderr, _ := controller.with("--show-only", "templates/manager_cluster_role.yaml").template(t, singleNamespace)
	checkContains(t, stderr, "could not find template templates/manager_cluster_role.yaml in chart")
}
