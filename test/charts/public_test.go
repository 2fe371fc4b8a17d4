package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// testdata/public has values as Argo CD, Flux, Terraform and people's files have them. The render is the same whether
// Helm sees a cluster or not, and the API server takes each object by server-side apply, as Argo CD, Flux and Helm 4
// send it, with no field that it doesn't know, and the runner's pod.
func TestValuesOfThePublic(t *testing.T) {
	t.Parallel()
	cluster := testkube.Shared(t)
	namespace := cluster.NewNamespace(t)
	for file, of := range map[string]chart{"scale-sets.yaml": scaleSet, "controllers.yaml": controller} {
		content, err := os.ReadFile(filepath.Join("testdata", "public", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range strings.Split(string(content), "\n---\n")[1:] {
			name, _, _ := strings.Cut(strings.TrimPrefix(values, "# "), "\n")
			// Helm takes a comma in the name of a file, which has the test's, for the end of it.
			t.Run(of.name+"/"+strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
				t.Parallel()
				own := []string{values}
				if of.name == controller.name {
					own = append(own, "crds: {install: false}") // they are in the cluster
				}
				rendered := render(t, of, own...)
				seen := render(t, of.with("--dry-run=server", "--kubeconfig", cluster.AdminKubeconfig()), own...)
				check(t, "render with a cluster", seen, rendered)
				applyAll(t, cluster, namespace, rendered)
				if of.name == scaleSet.name {
					admitPod(t, cluster, namespace, one[v1alpha1.AutoscalingRunnerSet](t, rendered,
						"autoscalingrunnerset.yaml").Spec.Template)
				}
			})
		}
	}
}

// applyAll has the API server look at the objects as if they were applied to the namespace by a tool for GitOps.
func applyAll(t *testing.T, cluster *testkube.Cluster, namespace string, rendered manifests) {
	t.Helper()
	rendered.eachIn(t, namespace, func(object *unstructured.Unstructured) error {
		content, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		return cluster.Client().Patch(t.Context(), object, client.RawPatch(types.ApplyYAMLPatchType, content),
			client.DryRunAll, client.ForceOwnership, client.FieldOwner("argocd-controller"),
			client.FieldValidation(metav1.FieldValidationStrict))
	})
}
