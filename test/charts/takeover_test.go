package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ARC's Deployment has no strategy, so the API server's default stands there. Helm 4 leaves it beside our Recreate, which
// the API server refuses, where Helm 4 has installed ARC; the old way of applying, which docs/upgrade.md names, takes it away.
func TestDeploymentThatHelm4MadeIsTakenOver(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		helm.succeed(t, "install", "arc", withoutStrategy(t, formerChart(t)), "--namespace", system)
		arguments := []string{"upgrade", "arc", controller.directory(), "--namespace", system, "--take-ownership"}
		if helm.version == "4" {
			checkContains(t, helm.refused(t, arguments...), "rollingUpdate")
			arguments = append(arguments, "--server-side=false")
		}
		helm.succeed(t, arguments...)
		check(t, "strategy", strategyIn(t, helm, system), appsv1.RecreateDeploymentStrategyType)
		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--set", "replicaCount=2")
		check(t, "strategy of two", strategyIn(t, helm, system), appsv1.RollingUpdateDeploymentStrategyType)
	})
}

// withoutStrategy removes the strategies from the Deployment of a chart.
func withoutStrategy(t *testing.T, directory string) string {
	t.Helper()
	path := filepath.Join(directory, "templates", "deployment.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), `  {{- if le (int (default 1 .Values.replicaCount)) 1 }}`)
	_, after, ends := strings.Cut(rest, "{{- end }}\n")
	if !found || !ends {
		t.Fatal("the Deployment's strategy is not where it was")
	}
	if err := os.WriteFile(path, []byte(before+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

func strategyIn(t *testing.T, helm installer, namespace string) appsv1.DeploymentStrategyType {
	t.Helper()
	var deployments appsv1.DeploymentList
	if err := helm.cluster.Client().List(t.Context(), &deployments, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments, want 1", len(deployments.Items))
	}
	return deployments.Items[0].Spec.Strategy.Type
}
