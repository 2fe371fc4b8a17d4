package manager_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
)

// A manager asks for the schemas until they are right, or it learns that it may not read them: then they are assumed to
// be. It is not ready before.
func TestManagerWaitsUntilTheCRDsAreRight(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(startTimeout)
	server, log := newAPIServer(t, ""), &output{}
	var asked atomic.Int32
	answers := []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusForbidden}
	checked := make(chan struct{})
	server.schemas = func() int {
		number := asked.Add(1)
		if number == int32(len(answers)) {
			<-checked
		}
		return answers[number-1]
	}
	manager := startManager(t, server.kubeconfig(t), log)
	g.Eventually(asked.Load).Should(gomega.BeEquivalentTo(len(answers)), log.String)
	g.Expect(manager.probe("/readyz")()).To(gomega.Equal(http.StatusInternalServerError))
	g.Expect(server.lists()).To(gomega.BeEmpty())
	close(checked)
	g.Eventually(manager.probe("/readyz")).Should(gomega.Equal(http.StatusOK), log.String)
	const waiting = "Waiting for the CustomResourceDefinitions to be upgraded"
	if count := strings.Count(log.String(), waiting); count != 2 || !strings.Contains(log.String(), "EphemeralRunner") {
		t.Errorf("it was said %d times, want for each of two reasons:\n%s", count, log)
	}
}

// A manager that is told to stop while it waits for its CRDs ends in order.
func TestWaitingForCRDsEnds(t *testing.T) {
	server, log := newAPIServer(t, ""), &output{}
	var asked atomic.Int32
	server.schemas = func() int {
		asked.Add(1)
		return http.StatusNotFound
	}
	manager := startManager(t, server.kubeconfig(t), log)
	gomega.NewWithT(t).Eventually(asked.Load).WithTimeout(startTimeout).Should(gomega.BeNumerically(">", 1), log.String)
	if err := manager.stop(); err != nil {
		t.Errorf("the manager ended with: %v\n%s", err, log)
	}
}
