package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// API server and GitHub have addresses in brackets, and there is no other address of Services: manager and listener reach
// both, a job is run, and all goes again.
func TestClusterWithIPv6Only(t *testing.T) {
	options := rig.ClusterOptions()
	options.IPv6 = true
	r := rig.Start(t, testkube.Start(t, options), rig.Options{MinRunners: 1, GitHubAddress: "::1"})
	if host := r.Cluster.Config().Host; !strings.HasPrefix(host, "https://[::1]:") ||
		!strings.HasPrefix(r.GitHubURL, "http://[::1]:") {
		t.Fatalf("the API server is at %s, GitHub at %s", host, r.GitHubURL)
	}
	awaitIdle(t, r, 1)
	r.EndJobs(r.QueueJobs(2, rig.Held))
	r.AwaitQuiet()
	var services corev1.ServiceList
	if err := r.Cluster.Client().List(t.Context(), &services); err != nil {
		t.Fatal(err)
	}
	for _, service := range services.Items {
		if address := service.Spec.ClusterIP; address != corev1.ClusterIPNone && !strings.Contains(address, ":") {
			t.Errorf("Service %s has the address %s", service.Name, address)
		}
	}
}
