package charts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// Clouds report minor versions such as "33+". There too Docker is a sidecar, in Helm's own reading of the version and
// in ours.
func TestDindOnProvidersVersion(t *testing.T) {
	t.Parallel()
	kubeconfig := providerKubeconfig(t, testkube.Shared(t),
		`{"major": "1", "minor": "33+", "gitVersion": "v1.33.4-eks-1234567"}`)
	live := scaleSet.with("--dry-run=server", "--kubeconfig", kubeconfig)
	pod := runnerSet(t, live, mode("dind")).Spec.Template.Spec
	check(t, "init containers", names(pod.InitContainers, func(c corev1.Container) string { return c.Name }),
		[]string{"init-dind-externals", "dind"})
	render(t, controller.with("--dry-run=server", "--kubeconfig", kubeconfig), "crds: {install: false}")
}

// providerKubeconfig returns the path of a kubeconfig. With it the cluster reports the version, as at a provider.
func providerKubeconfig(t *testing.T, cluster *testkube.Cluster, version string) string {
	t.Helper()
	target, err := url.Parse(cluster.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(cluster.Config()); err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.Handle("/", proxy)
	routes.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, version)
	})
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: provider, cluster: {server: %q}}]
contexts: [{name: provider, context: {cluster: provider}}]
current-context: provider
`, server.URL), 0o600)
	return path
}
