package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ARC's Deployment has no strategy, so it gets the API server's default. If Helm 4 has installed ARC, it leaves the
// default beside our Recreate, and the API server refuses both. The old way of applying, as in docs/upgrade.md, removes
// it.
func TestDeploymentThatHelm4MadeIsTakenOver(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		helm.succeed(t, "install", "arc", withStrategy(t, formerChart(t), ""), "--namespace", system)
		arguments := []string{"upgrade", "arc", controller.directory(), "--namespace", system, "--take-ownership"}
		if helm.version == "4" {
			checkContains(t, helm.refused(t, arguments...), "rollingUpdate")
			arguments = append(arguments, "--server-side=false")
		}
		helm.succeed(t, arguments...)
		check(t, "strategy", strategyIn(t, helm, system), appsv1.RecreateDeploymentStrategyType)
		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--set", "replicaCount=2")
		check(t, "strategy of two", strategyIn(t, helm, system), appsv1.RecreateDeploymentStrategyType)
	})
}

// Earlier releases of ours set RollingUpdate for two replicas. An ordinary upgrade removes it.
func TestRollingUpdateOfAnEarlierReleaseIsTakenAway(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		earlier := withStrategy(t, formerChart(t),
			"  strategy:\n    type: RollingUpdate\n    rollingUpdate:\n      maxSurge: 25%\n      "+
				"maxUnavailable: 25%\n")
		helm.succeed(t, "install", "arc", earlier, "--namespace", system, "--set", "replicaCount=2")
		check(t, "strategy before", strategyIn(t, helm, system), appsv1.RollingUpdateDeploymentStrategyType)
		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--set", "replicaCount=2",
			"--take-ownership")
		check(t, "strategy", strategyIn(t, helm, system), appsv1.RecreateDeploymentStrategyType)
	})
}

// withStrategy replaces the strategy in the Deployment of a chart.
func withStrategy(t *testing.T, directory, strategy string) string {
	t.Helper()
	path := filepath.Join(directory, "templates", "deployment.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), "  strategy:\n    type: Recreate\n")
	if !found {
		t.Fatal("the Deployment's strategy is not where it was")
	}
	if err := os.WriteFile(path, []byte(before+strategy+after), 0o600); err != nil {
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
