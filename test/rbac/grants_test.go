package rbac

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

// permission is one verb on one resource, such as "patch" on "pods/status". Namespace is empty if it is for all.
type permission struct{ namespace, group, resource, verb string }

// covers reports whether p includes other.
func (p permission) covers(other permission) bool {
	everywhere := permission{namespace: other.namespace, group: p.group, resource: p.resource, verb: p.verb}
	return everywhere == other && (p.namespace == "" || p.namespace == other.namespace)
}

// program is the owner of an account.
type program string

const (
	manager  program = "manager"
	listener program = "listener" // whichever listener it is
	check    program = "uninstall check"
)

// programOf tells programs by the names of their accounts. Every listener has an account of its own.
func programOf(account string) program {
	switch account {
	case rig.ControllerAccount:
		return manager
	case rig.UninstallCheckAccount:
		return check
	default:
		return listener
	}
}

// ledger has all permissions that the accounts of a rig ever had, with the names of their Roles.
type ledger struct {
	rig     *rig.Rig
	granted map[program]map[permission]string
	// admission are permissions that the log doesn't show: the API server checks them in addition to a request's own.
	admission []permission
}

func newLedger(r *rig.Rig) *ledger {
	return &ledger{rig: r, granted: map[program]map[permission]string{manager: {}, listener: {}, check: {}}}
}

// note adds the present permissions. It is called before anything is uninstalled.
func (l *ledger) note(t *testing.T) {
	t.Helper()
	for _, binding := range l.bindings(t) {
		rules := l.rules(t, binding)
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == l.rig.SystemNamespace {
				l.add(programOf(subject.Name), binding.Namespace, binding.RoleRef.Name, rules)
			}
		}
	}
	l.checkOwners(t)
}

// add notes the rules of a Role.
func (l *ledger) add(who program, namespace, role string, rules []rbacv1.PolicyRule) {
	all := permissions(namespace, rules)
	if who == listener {
		// Each listener has a Role of its own. Nobody may grant what he hasn't.
		role = string(who)
		l.admission = append(l.admission, all...)
	}
	for _, p := range all {
		l.granted[who][p] = role
	}
}

// noteHooks adds the permissions of the uninstall check. Helm makes and deletes its Role with the check.
func (l *ledger) noteHooks(t *testing.T) {
	t.Helper()
	for _, object := range l.rig.Hooks() {
		role := &rbacv1.ClusterRole{} // it has the fields of Role and one more
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		l.add(check, role.Namespace, role.Name, role.Rules)
	}
}

// needless returns the unused permissions, as lines "role: verb group/resource".
func (l *ledger) needless(made requests) []string {
	var lines []string
	for who, granted := range l.granted {
		lines = append(lines, unused(granted, made.used[who])...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// bindings returns the bindings of the rig's namespaces, and those of the cluster as RoleBindings without a namespace.
func (l *ledger) bindings(t *testing.T) []rbacv1.RoleBinding {
	t.Helper()
	var everywhere rbacv1.ClusterRoleBindingList
	l.list(t, &everywhere)
	var all []rbacv1.RoleBinding
	for _, binding := range everywhere.Items {
		all = append(all, rbacv1.RoleBinding{RoleRef: binding.RoleRef, Subjects: binding.Subjects})
	}
	for _, namespace := range l.namespaces() {
		var found rbacv1.RoleBindingList
		l.list(t, &found, client.InNamespace(namespace))
		all = append(all, found.Items...)
	}
	return all
}

func (l *ledger) namespaces() []string {
	return []string{l.rig.SystemNamespace, l.rig.RunnerNamespace}
}

func (l *ledger) rules(t *testing.T, binding rbacv1.RoleBinding) []rbacv1.PolicyRule {
	t.Helper()
	if binding.RoleRef.Kind == "ClusterRole" {
		role := &rbacv1.ClusterRole{}
		l.get(t, types.NamespacedName{Name: binding.RoleRef.Name}, role)
		return role.Rules
	}
	role := &rbacv1.Role{}
	l.get(t, types.NamespacedName{Namespace: binding.Namespace, Name: binding.RoleRef.Name}, role)
	return role.Rules
}

// get leaves the object empty if it doesn't exist: a binding may outlive its Role.
func (l *ledger) get(t *testing.T, key types.NamespacedName, into client.Object) {
	t.Helper()
	if err := client.IgnoreNotFound(l.rig.Cluster.Client().Get(t.Context(), key, into)); err != nil {
		t.Fatal(err)
	}
}

func (l *ledger) list(t *testing.T, into client.ObjectList, options ...client.ListOption) {
	t.Helper()
	if err := l.rig.Cluster.Client().List(t.Context(), into, options...); err != nil {
		t.Fatal(err)
	}
}

// checkOwners: no owner reference blocks the deletion of its owner. For one that does, the cluster's admission plugin
// OwnerReferencesPermissionEnforcement would require more rights on the owner's kind.
func (l *ledger) checkOwners(t *testing.T) {
	t.Helper()
	for _, object := range l.owned(t) {
		for _, owner := range object.OwnerReferences {
			if strings.HasPrefix(owner.APIVersion, actionsGroup) && owner.BlockOwnerDeletion != nil {
				t.Errorf("%s/%s blocks the deletion of %s %s", object.Namespace, object.Name, owner.Kind, owner.Name)
			}
		}
	}
}

// owned returns all objects of the kinds that the manager makes with an owner.
func (l *ledger) owned(t *testing.T) []metav1.PartialObjectMetadata {
	t.Helper()
	var all []metav1.PartialObjectMetadata
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Group: rbacv1.GroupName, Version: "v1", Kind: "Role"}, {Group: rbacv1.GroupName, Version: "v1", Kind: "RoleBinding"},
		v1alpha1.GroupVersion.WithKind("EphemeralRunner"), v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"),
	} {
		for _, namespace := range l.namespaces() {
			var found metav1.PartialObjectMetadataList
			found.SetGroupVersionKind(kind)
			l.list(t, &found, client.InNamespace(namespace))
			all = append(all, found.Items...)
		}
	}
	return all
}

// earlierManagers returns the rights of managers whose owner references block: one still runs while Helm upgrades the
// chart.
func (l *ledger) earlierManagers() []permission {
	var needed []permission
	for _, namespace := range l.namespaces() {
		for _, owner := range []string{"autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets",
			"ephemeralrunners"} {
			needed = append(needed, permission{namespace, actionsGroup, owner + "/finalizers", "update"})
		}
	}
	return needed
}

// permissions returns the permissions of rules, without the names of objects: they change from rig to rig.
func permissions(namespace string, rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{namespace, group, resource, verb})
				}
			}
		}
	}
	return all
}

// unused returns the permissions that one program did not use.
func unused(granted map[permission]string, used map[permission]bool) []string {
	var lines []string
	for p, role := range granted {
		asked := false
		for u := range used {
			asked = asked || p.covers(u)
		}
		if !asked {
			lines = append(lines, fmt.Sprintf("%s: %s %s/%s", role, p.verb, p.group, p.resource))
		}
	}
	return lines
}
