package charts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
)

// A chart with both charts as dependencies is installed, upgraded and uninstalled as docs/upgrade.md says.
func TestControllerAndScaleSetsInOneRelease(t *testing.T) {
	t.Parallel()
	helm := installer{cluster: testkube.Start(t, testkube.Options{CRDs: []string{}}), version: "4"}
	namespace, directory := helm.cluster.NewNamespace(t), umbrella(t)
	release := []string{"all", directory, "--namespace", namespace,
		"--set", "gha-runner-scale-set.githubConfigUrl=https://github.com/actions,gha-runner-scale-set.githubConfigSecret=s",
		"--set", "gha-runner-scale-set.controllerServiceAccount.name=all-gha-rs-controller",
		"--set", "gha-runner-scale-set.controllerServiceAccount.namespace=" + namespace}
	checkContains(t, helm.refused(t, append([]string{"install"}, release...)...), "ensure CRDs are installed first")
	applyCRDs(t, helm.cluster)
	helm.succeed(t, append([]string{"install", "--take-ownership"}, release...)...)
	helm.succeed(t, append([]string{"upgrade"}, release...)...)
	helm.succeed(t, append([]string{"upgrade", "--set", "gha-runner-scale-set.enabled=false"}, release...)...)
	helm.succeed(t, "uninstall", "all", "--namespace", namespace, "--no-hooks") // nothing runs the check's Job here
	checkGone(t, helm.cluster, namespace)
}

// umbrella returns the directory of a chart that has both charts as dependencies.
func umbrella(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	definition := "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n"
	for _, c := range []chart{controller, scaleSet} {
		definition += "  - {name: " + c.name + ", version: 0.1.0, condition: " + c.name + ".enabled}\n"
		if err := os.CopyFS(filepath.Join(directory, "charts", c.name), os.DirFS(c.directory())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(directory, "Chart.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

// applyCRDs has kubectl make the CRDs, and waits until the API server knows their kinds.
func applyCRDs(t *testing.T, cluster *testkube.Cluster) {
	t.Helper()
	programs, err := testkube.Programs()
	if err != nil {
		t.Fatal(err)
	}
	_, stderr, err := run(t, filepath.Join(programs, "kubectl"), "apply", "--server-side", "--filename",
		filepath.Join(root, "apis", "crds"), "--kubeconfig", cluster.AdminKubeconfig())
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, stderr)
	}
	awaitKind(t, cluster)
}
