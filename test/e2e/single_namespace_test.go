package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// With Roles in place of the ClusterRole: one set is served in full, another one's namespace is out of reach.
func TestControllerOfASingleNamespaceServesThatOneOnly(t *testing.T) {
	const name = "single"
	inside := prepare(t, serve(t, fakegithub.Options{}), name, 1, 2)
	// Checked after the controller's own Roles have gone from the namespace with the return to all namespaces.
	t.Cleanup(func() { inside.awaitNothing(context.WithoutCancel(t.Context())) })
	inside.restrictController()
	inside.install()
	inside.awaitIdle(1)
	inside.awaitSuccess(inside.queue(3, time.Second))
	inside.expectOthersRefused()
	inside.withdraw(t.Context())
	inside.awaitReleased()
}

// The deletion of the namespace removes the manager's Role within a second. The sets in it are removed from GitHub all
// the same, here by a manager that was started after that. Then nothing keeps the controller.
func TestWatchedNamespaceCanBeDeleted(t *testing.T) {
	s := prepare(t, serve(t, fakegithub.Options{}), "watched", 2, 3)
	s.restrictController()
	s.install()
	s.awaitSuccess(s.queue(1, time.Second))
	s.awaitIdle(2)
	id, err := s.github.AddFault(t.Context(), fakegithub.Fault{
		Endpoint: "remove-runner",
		Status:   http.StatusServiceUnavailable,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.deleteNamespace("--wait=false")
	s.awaitNoRoles()
	kill(t, managers(t, 1)[0])
	managers(t, 1)
	if err := s.github.RemoveFault(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s.deleteNamespace("--ignore-not-found", "--timeout="+limit.String())
	s.awaitNothing(t.Context())
	if err := place.Uninstall(t.Context(), site.ControllerName, site.SystemNamespace); err != nil {
		t.Fatal(err)
	}
}

// restrictController makes the set's namespace, where the controller's chart puts Roles, and restricts the controller
// to it.
func (s *scaleSet) restrictController() {
	s.t.Helper()
	s.makeNamespace()
	reconfigureController(s.t,
		func(values site.Values) { values["flags"].(site.Values)["watchSingleNamespace"] = s.namespace })
	s.expectNoClusterRole()
}

// awaitReleased waits until only objects of the controller's chart are left in the set's namespace, none of them held
// by a finalizer.
func (s *scaleSet) awaitReleased() {
	s.t.Helper()
	s.await(s.t.Context(), "the scale set to be gone", func() (string, error) {
		if set := s.onGitHub(s.t.Context()); set != nil {
			return set.Name + " is on GitHub", nil
		}
		if _, err := s.object(s.t.Context()); !apierrors.IsNotFound(err) {
			return s.name + " is in the cluster", err
		}
		for _, binding := range s.roleBindings() {
			if len(binding.Finalizers) > 0 {
				return fmt.Sprintf("RoleBinding %s waits for %v", binding.Name, binding.Finalizers), nil
			}
		}
		return "", nil
	})
}

// awaitNoRoles waits until the deletion of the namespace has left only one RoleBinding for the manager, which a
// finalizer holds.
func (s *scaleSet) awaitNoRoles() {
	s.t.Helper()
	s.await(s.t.Context(), "the namespace to have lost the manager's Role", func() (string, error) {
		bindings := s.roleBindings()
		if len(bindings) == 1 && bindings[0].RoleRef.Kind == "ClusterRole" && bindings[0].DeletionTimestamp != nil {
			return "", nil
		}
		return fmt.Sprintf("%d RoleBindings are there, want the one of the ClusterRole, being deleted", len(bindings)),
			nil
	})
}

func (s *scaleSet) roleBindings() []rbacv1.RoleBinding {
	s.t.Helper()
	var bindings rbacv1.RoleBindingList
	if err := kube.List(s.t.Context(), &bindings, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	return bindings.Items
}

// deleteNamespace deletes the set's namespace, and the release with it.
func (s *scaleSet) deleteNamespace(options ...string) {
	s.t.Helper()
	s.installed = false
	if _, err := place.Kubectl(s.t.Context(),
		append([]string{"delete", "namespace", s.namespace}, options...)...); err != nil {
		s.t.Fatal(err)
	}
}

// expectOthersRefused: Helm refuses a set in another namespace, because nobody would serve it.
func (s *scaleSet) expectOthersRefused() {
	s.t.Helper()
	err := place.Apply(s.t.Context(), "outside", site.ScaleSetChart, s.namespace+"-outside", s.values)
	if err == nil || !strings.Contains(err.Error(), "watch this namespace") {
		s.t.Errorf("a set in a namespace that no controller watches: %v, want a refusal that says so", err)
	}
}

// expectNoClusterRole: the release's ClusterRole went with the upgrade.
func (s *scaleSet) expectNoClusterRole() {
	s.t.Helper()
	account := "system:serviceaccount:" + managerObject.Namespace + ":" + managerObject.Name
	for _, resource := range []string{"ephemeralrunners." + v1alpha1.GroupVersion.Group, "pods", "secrets"} {
		output, err := place.Kubectl(s.t.Context(), "auth", "can-i", "create", resource, "--namespace=default",
			"--as="+account)
		if !strings.HasPrefix(output, "no") { // with exit code 1, as after a request that failed
			s.t.Errorf("may the manager create %s in the namespace default? %s %v", resource, output, err)
		}
	}
}
