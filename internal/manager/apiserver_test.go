package manager_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onsi/gomega"
)

// oneSet is a scale set to which a manager writes first of all.
const oneSet = `{"apiVersion":"actions.github.com/v1alpha1","kind":"AutoscalingRunnerSet","metadata":{"namespace":` +
	`"runners","name":"set","resourceVersion":"1","uid":"u"},"spec":{"githubConfigUrl":"https://github.com/org"}}`

// A burst's writes fill the streams of a connection. Watches and the Lease must not queue behind them.
func TestWatchesAndTheLeaseHaveConnectionsOfTheirOwn(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	server, log := newAPIServer(t, ""), &output{}
	server.objects["autoscalingrunnersets"] = oneSet
	startManager(t, server.kubeconfig(t), log)
	g.Eventually(func() int { return len(server.writes()) }).Should(gomega.BeNumerically(">", 1), log.String)

	writes, leases := map[string]bool{}, map[string]bool{}
	for _, r := range server.writes() {
		writes[r.from] = true
	}
	for _, r := range server.seen(ofLease) {
		leases[r.from] = true
	}
	if len(writes) != 1 || len(leases) != 1 {
		t.Errorf("writes come from %v and the Lease's requests from %v, want one connection each", writes, leases)
	}
	watches := server.seen(func(r request) bool { return r.watch })
	if len(watches) == 0 {
		t.Error("nothing is watched")
	}
	for _, r := range append(watches, server.seen(ofLease)...) {
		if writes[r.from] || (r.watch && leases[r.from]) {
			t.Errorf("%s %s comes by a connection of others", r.method, r.path)
		}
	}
}

// A manager that is up is not ended by an API server that fails right after the CRDs were checked. Its caches wait for
// the server; if the process ended instead, the kubelet would restart it with a growing back-off.
func TestAManagerOutlivesAnAPIServerThatFails(t *testing.T) {
	for name, arguments := range map[string][]string{
		"of all namespaces": nil, "of one namespace": {"--watch-namespace=runners"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			g.SetDefaultEventuallyTimeout(startTimeout)
			server, log := newAPIServer(t, ""), &output{}
			server.broken = true
			manager := startManager(t, server.kubeconfig(t), log, arguments...)
			lists := func(resource string) func() int {
				return func() int {
					return len(server.seen(func(r request) bool {
						return r.method == http.MethodGet && strings.HasSuffix(r.path, "/"+resource)
					}))
				}
			}
			for _, resource := range []string{
				"autoscalinglisteners", "ephemeralrunners", "rolebindings", "persistentvolumeclaims",
			} {
				g.Eventually(lists(resource)).Should(gomega.BeNumerically(">", 1), log.String)
			}
			if !manager.Running() || len(server.writes()) > 0 {
				t.Errorf("it has ended, or written %v:\n%s", server.writes(), log)
			}
			g.Expect(manager.probe("/readyz")()).To(gomega.Equal(http.StatusInternalServerError))
			g.Expect(manager.probe("/healthz")()).To(gomega.Equal(http.StatusOK))
			_ = manager.Stop(0) // it would be 9 s: its caches are not filled
		})
	}
}

// A manager that stands by is ready and changes nothing.
func TestAStandbyChangesNothing(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	server, log := newAPIServer(t, "another"), &output{}
	server.objects["autoscalingrunnersets"] = oneSet
	manager := startManager(t, server.kubeconfig(t), log)
	g.Eventually(manager.probe("/readyz")).Should(gomega.Equal(http.StatusOK), log.String)
	before := len(server.seen(ofLease))
	g.Eventually(func() int { return len(server.seen(ofLease)) }).Should(gomega.BeNumerically(">", before+1), log.String)
	g.Expect(server.writes()).To(gomega.BeEmpty())
	g.Expect(server.seen(func(r request) bool { return ofLease(r) && r.method != http.MethodGet })).To(gomega.BeEmpty())
	if err := manager.stop(); err != nil {
		t.Errorf("the manager ended with: %v", err)
	}
}
