package manager_test

import (
	"net/http"
	"testing"

	"github.com/onsi/gomega"
)

// Selectors of what is cached: objects of scale sets, and claims of theirs.
const (
	ours     = "actions.github.com/scale-set-name"
	claims   = ours + ",actions.github.com/volume-claim-template"
	ofSetsIn = "actions.github.com/scale-set-namespace="
	// ownBinding is the manager's own RoleBinding, which has no scale set's label.
	ownBinding = "app.kubernetes.io/component=single-namespace-deletion,app.kubernetes.io/namespace=default"
)

// Several managers may run in one namespace, each watching another namespace, or one of them its own. None may touch
// the objects of another: two managers that reconcile the same runner take its registration from each other. What a
// listener names is written with the manager's rights, so those in other namespaces, which tenants may write, are not
// read.
func TestWhatAManagerCaches(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		want      []string // as "namespace/resource selector"
		leading   string   // what it caches only if it leads
	}{
		"of all namespaces": {nil, []string{
			"autoscalingrunnersets ",
			"default/autoscalinglisteners ",
			"ephemeralrunners ",
			"ephemeralrunnersets ",
			"persistentvolumeclaims " + claims,
			"pods " + ours,
			"rolebindings " + ours,
			"roles " + ours,
			"serviceaccounts " + ours,
		}, "nodes "},
		"of another namespace": {[]string{"--watch-namespace=runners"}, []string{
			"default/autoscalinglisteners " + ofSetsIn + "runners",
			"default/pods " + ofSetsIn + "runners",
			"default/rolebindings " + ours,
			"default/roles " + ours,
			"default/serviceaccounts " + ours,
			"runners/autoscalingrunnersets ",
			"runners/ephemeralrunners ",
			"runners/ephemeralrunnersets ",
			"runners/persistentvolumeclaims " + claims,
			"runners/pods " + ours,
			"runners/rolebindings " + ours,
			"runners/roles " + ours,
			"runners/serviceaccounts " + ours,
		}, "runners/rolebindings " + ownBinding},
		"of its own namespace": {[]string{"--watch-namespace=default"}, []string{
			"default/autoscalinglisteners " + ofSetsIn + "default",
			"default/autoscalingrunnersets ",
			"default/ephemeralrunners ",
			"default/ephemeralrunnersets ",
			"default/persistentvolumeclaims " + claims,
			"default/pods " + ours,
			"default/rolebindings " + ours,
			"default/roles " + ours,
			"default/serviceaccounts " + ours,
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// While it stands by, it lists only what it caches.
			server, log := newAPIServer(t, "another"), &output{}
			manager := startManager(t, server.kubeconfig(t), log, test.arguments...)
			g := gomega.NewWithT(t)
			g.SetDefaultEventuallyTimeout(startTimeout)
			g.Eventually(manager.probe("/readyz")).Should(gomega.Equal(http.StatusOK), log.String)
			g.Eventually(func() int { return len(server.lists()) }).Should(
				gomega.BeNumerically(">=", len(test.want)), log.String,
			)
			g.Expect(server.lists()).To(gomega.Equal(test.want))
			if test.leading != "" {
				server.releaseLease()
				g.Eventually(server.lists).Should(gomega.ContainElement(test.leading), log.String)
			}
		})
	}
}
