package manager

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// startTimeout is for an API server that shares two cores with everything else that is being tested.
const startTimeout = 90 * time.Second

// TestManagerStarts starts two managers with the permissions of the chart on a cluster without CRDs: they are alive but
// not ready and say why. Once the CRDs are there both are ready, the one that leads and the one that stands by, and end
// when told to.
func TestManagerStarts(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster := testkube.Start(t, testkube.Options{CRDs: []string{}})
	grantChartPermissions(t, cluster.Client())
	var log output
	managers := []*process{
		startManager(t, cluster.ConfigFor(t, testkube.User("manager")), &log),
		startManager(t, cluster.ConfigFor(t, testkube.User("manager")), &log),
	}
	for _, manager := range managers {
		g.Eventually(manager.probe("/healthz")).WithTimeout(startTimeout).Should(gomega.Equal(http.StatusOK))
		g.Expect(manager.probe("/readyz")()).To(gomega.Equal(http.StatusInternalServerError))
	}
	g.Eventually(log.String).WithTimeout(startTimeout).Should(gomega.ContainSubstring("lack AutoscalingListener, AutoscalingRunnerSet"))

	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join("..", "..", "apis", "crds")}, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(cluster.Config(), crds); err != nil {
		t.Fatal(err)
	}
	for _, manager := range managers {
		g.Eventually(manager.probe("/readyz")).WithTimeout(startTimeout).Should(gomega.Equal(http.StatusOK), log.String)
	}
	for _, manager := range managers {
		if err := manager.stop(); err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	}
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the chart's permissions were not enough:\n%s", log.String())
	}
}

// process is a manager that runs in this process.
type process struct {
	address string
	stop    func() error
}

func startManager(t *testing.T, cluster *rest.Config, log *output) *process {
	t.Helper()
	options := defaults()
	options.Namespace, options.LeaderElection = "default", true
	options.MetricsAddress, options.HealthAddress = "0", freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, cluster, options, NewLogger(options, log)) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return &process{address: options.HealthAddress, stop: stop}
}

// probe returns a function that asks as the kubelet does. It returns 0 while nobody answers.
func (p *process) probe(path string) func() int {
	return func() int {
		response, err := http.Get("http://" + p.address + path)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// grantChartPermissions lets the user "manager" do what the chart's cluster mode and leader election allow.
func grantChartPermissions(t *testing.T, cluster client.Client) {
	t.Helper()
	watch := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "serviceaccounts"}, Verbs: watch},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles", "rolebindings"}, Verbs: watch},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "watch", "list", "delete", "update", "create"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
	role.Name = "manager"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}},
	}
	binding.Name = "manager"
	for _, object := range []client.Object{role, binding} {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(fmt.Errorf("create %T: %w", object, err))
		}
	}
}

// output collects the log of several managers.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}
