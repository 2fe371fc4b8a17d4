package charts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// helms are the oldest and the newest Helm that the charts are for. hack/helm3 pins the former.
var helms = map[string]func(*testing.T, ...string) (string, string, error){
	"3": func(t *testing.T, arguments ...string) (string, string, error) {
		t.Helper()
		program, err := findOldest()
		if err != nil {
			t.Fatal(err)
		}
		return run(t, program, arguments...)
	},
	"4": helm,
}

// findOldest compiles the oldest Helm and returns its path. That takes a minute, a single time per machine.
var findOldest = sync.OnceValues(func() (string, error) {
	var out, errs bytes.Buffer
	command := exec.Command(filepath.Join(root, "hack", "tool.sh"), "--path", "helm")
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("build Helm 3 with hack/tool.sh: %w\n%s", err, errs.String())
	}
	return strings.TrimSpace(out.String()), nil
})

// forHelms runs the test with every version of Helm, each against a cluster of its own that has no CRDs.
func forHelms(t *testing.T, test func(*testing.T, installer)) {
	t.Helper()
	for _, version := range sortedKeys(helms) {
		t.Run("Helm "+version, func(t *testing.T) {
			t.Parallel()
			cluster := testkube.Start(t, testkube.Options{
				CRDs:        []string{},
				AddToScheme: []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, v1alpha1.AddToScheme},
			})
			test(t, installer{cluster: cluster, version: version})
		})
	}
}

// installer is one version of Helm with one cluster.
type installer struct {
	cluster *testkube.Cluster
	version string
}

func (i installer) run(t *testing.T, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	return helms[i.version](t, append(arguments, "--kubeconfig", i.cluster.AdminKubeconfig())...)
}

// succeed runs helm and returns its output; the test fails when helm does.
func (i installer) succeed(t *testing.T, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := i.run(t, arguments...)
	if err != nil {
		t.Fatalf("helm %s %v: %v\n%s", i.version, arguments, err, stderr)
	}
	return stdout
}

// refused runs helm and returns its error. The test fails if helm succeeds.
func (i installer) refused(t *testing.T, arguments ...string) string {
	t.Helper()
	_, stderr, err := i.run(t, arguments...)
	if err == nil {
		t.Fatalf("helm %s %v succeeded", i.version, arguments)
	}
	return stderr
}

// Both versions render the same objects, also without a cluster. Blank lines between the objects differ.
func TestHelmVersionsRenderTheSame(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wild/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata/wild: %v", err)
	}
	for _, file := range append(files, "testdata/controller-all.yaml", "testdata/scale-set-all.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			rendered := map[string][]string{}
			for version, helm := range helms {
				stdout, stderr, err := helm(t, "template", "test", chartFor(file).directory(), "--values", file)
				if err != nil {
					t.Fatalf("helm %s: %v\n%s", version, err, stderr)
				}
				rendered[version] = nonBlankLines(stdout)
			}
			check(t, "Helm 3 and Helm 4", rendered["3"], rendered["4"])
		})
	}
}

// docs/scaling.md says about patched numbers: with Helm 4 a number in the values conflicts, and one that they leave out
// stays as patched.
func TestUpgradeAfterAPatch(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "scaling.md"))
	if err != nil {
		t.Fatal(err)
	}
	cluster := testkube.Shared(t)
	for version := range helms {
		helm := installer{cluster: cluster, version: version}
		for _, inValues := range []bool{true, false} {
			namespace := cluster.NewNamespace(t)
			release := []string{"set", scaleSet.directory(), "--namespace", namespace, "--set",
				"githubConfigUrl=https://github.com/actions,githubConfigSecret=s",
				"--set", "controllerServiceAccount.name=arc,controllerServiceAccount.namespace=arc-system"}
			upgrade := append([]string{"upgrade"}, release...)
			if inValues {
				release, upgrade = append(release, "--set", "minRunners=0"), append(upgrade, "--set", "minRunners=1")
			}
			helm.succeed(t, append([]string{"install"}, release...)...)
			set := &unstructured.Unstructured{}
			set.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"))
			set.SetNamespace(namespace)
			set.SetName("set")
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minRunners":2}}`))
			if err := cluster.Client().Patch(t.Context(), set, patch, client.FieldOwner("kubectl-patch")); err != nil {
				t.Fatal(err)
			}
			want := int64(2)
			if inValues {
				want = 1
			}
			if inValues && version == "4" {
				_, conflict, _ := strings.Cut(helm.refused(t, upgrade...), "Error: UPGRADE FAILED: ")
				conflict = regexp.MustCompile(`Apply failed with 1 conflict: .*`).FindString(conflict)
				check(t, "docs/scaling.md shows "+conflict,
					conflict != "" && strings.Contains(string(page), "\n"+conflict+"\n"), true)
				upgrade = append(upgrade, "--force-conflicts")
			}
			helm.succeed(t, upgrade...)
			if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			got, _, _ := unstructured.NestedInt64(set.Object, "spec", "minRunners")
			check(t, fmt.Sprintf("minRunners by Helm %s, in the values: %t", version, inValues), got, want)
		}
	}
}

// Both versions render without a cluster, whatever version of Kubernetes they then assume.
func TestHelmsWithoutCluster(t *testing.T) {
	t.Parallel()
	for version, helm := range helms {
		if _, stderr, err := helm(t, "template", "arc", controller.directory()); err != nil {
			t.Errorf("helm %s: %v\n%s", version, err, stderr)
		}
	}
}

// Both versions refuse a typo by its name.
func TestHelmVersionsRefuseTypos(t *testing.T) {
	t.Parallel()
	for version, helm := range helms {
		_, stderr, err := helm(t, "template", "test", scaleSet.directory(), "--set", "maxRuners=1")
		if err == nil {
			t.Fatalf("helm %s took a typo", version)
		}
		checkContains(t, stderr, "'maxRuners' not allowed")
	}
}
