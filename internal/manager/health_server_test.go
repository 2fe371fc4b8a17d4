package manager_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
)

// An address turns the server of the probes on or off. One at which nothing can be served ends the manager.
func TestHealthServer(t *testing.T) {
	for _, off := range []string{"", "0"} {
		server, log := newAPIServer(t, "another"), &output{}
		manager := startManager(t, server.kubeconfig(t), log, "--health-probe-bind-address="+off)
		g := gomega.NewWithT(t)
		g.Eventually(server.lists).WithTimeout(startTimeout).ShouldNot(gomega.BeEmpty(), log.String)
		if err := manager.stop(); err != nil || serving.MatchString(log.String()) {
			t.Errorf("%q: the manager ended with %v:\n%s", off, err, log)
		}
	}
	server, log := newAPIServer(t, "another"), &output{}
	manager := startManager(t, server.kubeconfig(t), log, "--health-probe-bind-address=256.0.0.1:1")
	if code := manager.ExitCode(); code != 1 || !strings.Contains(log.String(), "change --health-probe-bind-address") {
		t.Errorf("an impossible address is no error, but %d:\n%s", code, log)
	}
}
