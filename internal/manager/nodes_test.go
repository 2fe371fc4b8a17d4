package manager_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A manager that may not watch nodes says so a single time, is ready and works.
func TestManagerWithoutTheRightToWatchNodes(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testkube.Start(t, testkube.Options{})
	grantChartPermissions(t, cluster.Client())
	role := &rbacv1.ClusterRole{}
	role.Name = "manager"
	g.Expect(cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(role), role)).To(gomega.Succeed())
	for i := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(resource string) bool {
			return resource == "nodes"
		})
	}
	g.Expect(cluster.Client().Update(t.Context(), role)).To(gomega.Succeed())
	g.Eventually(func() (bool, error) {
		return testkube.Allowed(t.Context(), cluster.Client(), "manager", authorizationv1.ResourceAttributes{
			Verb:     "list",
			Resource: "nodes",
		})
	}).WithTimeout(startTimeout).WithPolling(10 * time.Millisecond).Should(gomega.BeFalse())

	var log output
	manager := startInCluster(t, cluster, &log)
	g.Eventually(manager.probe("/readyz")).WithTimeout(startTimeout).Should(gomega.Equal(http.StatusOK), log.String)
	const told = "Nodes can't be watched"
	g.Eventually(log.String).WithTimeout(startTimeout).Should(gomega.ContainSubstring(told))
	if err := manager.stop(); err != nil {
		t.Errorf("the manager ended with: %v", err)
	}
	if count := strings.Count(log.String(), told); count != 1 {
		t.Errorf("it was said %d times, want once:\n%s", count, log.String())
	}
}
