package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// With Roles in place of the ClusterRole: one set is served in full, another one's namespace is out of reach.
func TestControllerOfASingleNamespaceServesThatOneOnly(t *testing.T) {
	const name = "single"
	inside := prepare(t, serve(t, fakegithub.Options{}), name, 1, 2)
	// The chart puts Roles into the watched namespace, so it has to be there.
	inside.makeNamespace()
	// Checked after the controller's own Roles have gone from the namespace with the return to all namespaces.
	t.Cleanup(func() { inside.awaitNothing(context.WithoutCancel(t.Context())) })
	reconfigureController(t, func(values site.Values) { values["flags"].(site.Values)["watchSingleNamespace"] = inside.namespace })
	inside.expectNoClusterRole()
	inside.install()
	inside.awaitIdle(1)
	inside.awaitSuccess(inside.queue(3, time.Second))
	inside.expectOthersRefused()
	inside.withdraw(t.Context())
	inside.await(t.Context(), "the scale set to be gone from GitHub", func() (string, error) {
		if set := inside.onGitHub(t.Context()); set != nil {
			return set.Name + " is there", nil
		}
		return "", nil
	})
}

// expectOthersRefused: Helm says at once that nobody would serve a set in another namespace.
func (s *scaleSet) expectOthersRefused() {
	s.t.Helper()
	err := place.Apply(s.t.Context(), "outside", site.ScaleSetChart, s.namespace+"-outside", s.values)
	if err == nil || !strings.Contains(err.Error(), "watch this namespace") {
		s.t.Errorf("a set in a namespace that no controller watches: %v, want a refusal that says so", err)
	}
}

// expectNoClusterRole: what the release had for all namespaces went with the upgrade.
func (s *scaleSet) expectNoClusterRole() {
	s.t.Helper()
	account := "system:serviceaccount:" + managerObject.Namespace + ":" + managerObject.Name
	for _, resource := range []string{"ephemeralrunners." + v1alpha1.GroupVersion.Group, "pods", "secrets"} {
		output, err := place.Kubectl(s.t.Context(), "auth", "can-i", "create", resource, "--namespace=default", "--as="+account)
		if !strings.HasPrefix(output, "no") { // which kubectl says with exit code 1, as it does of a request that failed
			s.t.Errorf("may the manager create %s in the namespace default? %s %v", resource, output, err)
		}
	}
}
