package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/arc"
)

// ARC's Deployment has no strategy, so it gets the API server's default, which server-side apply leaves beside ours:
// Helm 4 and GitOps tools can take it over because ours is of the same type. The way back leaves the default again.
func TestDeploymentIsTakenOverAndGivenBackByHelm(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system, former := helm.cluster.NewNamespace(t), withStrategy(t, formerChart(t), "")
		helm.succeed(t, "install", "arc", former, "--namespace", system)
		for _, replicas := range []string{"replicaCount=1", "replicaCount=2"} {
			helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--take-ownership",
				"--set", replicas)
			check(t, "strategy with "+replicas, strategyIn(t, helm.cluster, system), noSurge())
			helm.succeed(t, "upgrade", "arc", former, "--namespace", system, "--set", replicas)
			check(t, "strategy of the former chart with "+replicas, strategyIn(t, helm.cluster, system), surging())
		}
	})
}

// Earlier releases of ours had Recreate, and before that RollingUpdate for two replicas.
func TestStrategiesOfEarlierReleasesAreReplaced(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		for name, strategy := range map[string]string{
			"recreate": "  strategy:\n    type: Recreate\n",
			"rolling": "  strategy:\n    type: RollingUpdate\n    rollingUpdate:\n      maxSurge: 25%\n      " +
				"maxUnavailable: 25%\n",
		} {
			system := helm.cluster.NewNamespace(t)
			earlier := withStrategy(t, formerChart(t), strategy)
			arguments := []string{"--namespace", system, "--set", "crds.install=false,replicaCount=2,rbac.clusterRoles=false," +
				"flags.watchSingleNamespace=" + system, "--skip-crds"}
			helm.succeed(t, append([]string{"install", name, earlier}, arguments...)...)
			helm.succeed(t, append([]string{"upgrade", name, controller.directory()}, arguments...)...)
			check(t, "strategy after "+name, strategyIn(t, helm.cluster, system), noSurge())
		}
	})
}

// What Argo CD and Flux do: each object is applied by the server, with force, by their own field manager.
func TestDeploymentIsTakenOverAndGivenBackByServerSideApply(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	for _, replicas := range []int{1, 2} {
		system := cluster.NewNamespace(t)
		theirs, err := arc.Controller(system, replicas)
		if err != nil {
			t.Fatal(err)
		}
		ours := renderedDeployment(t, system, replicas)
		for _, step := range []struct {
			object *unstructured.Unstructured
			want   appsv1.DeploymentStrategy
		}{{theirs, surging()}, {ours, noSurge()}, {theirs, surging()}, {ours, noSurge()}} {
			if err := cluster.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(step.object.DeepCopy()),
				client.FieldOwner("argocd-controller"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			check(t, fmt.Sprintf("strategy of %d", replicas), strategyIn(t, cluster, system), step.want)
		}
	}
}

// renderedDeployment returns the Deployment of our chart, as the release that is called arc has it.
func renderedDeployment(t *testing.T, namespace string, replicas int) *unstructured.Unstructured {
	t.Helper()
	got := deployment(t, fmt.Sprintf("{replicaCount: %d, namespaceOverride: %s}", replicas, namespace))
	content, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	unstructured.RemoveNestedField(object.Object, "status")
	return object
}

// noSurge is the strategy that ends all old pods before it creates new ones.
func noSurge() appsv1.DeploymentStrategy {
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromString("100%")),
		},
	}
}

// surging is the strategy that the API server gives a Deployment that names none.
func surging() appsv1.DeploymentStrategy {
	strategy := noSurge()
	quarter := *strategy.RollingUpdate.MaxUnavailable
	quarter.StrVal = "25%"
	strategy.RollingUpdate.MaxSurge, strategy.RollingUpdate.MaxUnavailable = &quarter, &quarter
	return strategy
}

// withStrategy replaces the strategy in the Deployment of a chart.
func withStrategy(t *testing.T, directory, strategy string) string {
	t.Helper()
	path := filepath.Join(directory, "templates", "deployment.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), "  strategy:\n    type: RollingUpdate\n    rollingUpdate:\n"+
		"      maxSurge: 0\n      maxUnavailable: 100%\n")
	if !found {
		t.Fatal("the Deployment's strategy is not where it was")
	}
	if err := os.WriteFile(path, []byte(before+strategy+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

func strategyIn(t *testing.T, cluster *testkube.Cluster, namespace string) appsv1.DeploymentStrategy {
	t.Helper()
	var deployments appsv1.DeploymentList
	if err := cluster.Client().List(t.Context(), &deployments, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments, want 1", len(deployments.Items))
	}
	return deployments.Items[0].Spec.Strategy
}
