package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/arc"
)

const (
	crdName = "autoscalingrunnersets.actions.github.com"
	// Earlier CRDs lack newField. It shows which CRDs the cluster has.
	newField = "failedHistoryLimit"
)

// longestCell has what cells have that are longer than their headings: a scale set's name, a reason such as
// ScaleSetNameAmbiguous, an age. spacing is kubectl's, behind each column.
var longestCell = map[string]int{"Name": 24 + spacing, "Reason": 21, "Age": 4}

const spacing = 3

// What kubectl get shows of the sets fits beside their names: eight columns, and those of an AutoscalingRunnerSet on a
// terminal of 100. The rest, ARC's among them, comes with -o
// wide under its name.
func TestColumnsOfSets(t *testing.T) {
	t.Parallel()
	for kind, arcs := range map[string][]string{
		"autoscalingrunnersets": {"Minimum Runners", "Maximum Runners", "Current Runners", "Phase", "Pending Runners", "Running Runners"},
		"ephemeralrunnersets":   {"DesiredReplicas", "CurrentReplicas", "Phase", "Pending Runners", "Running Runners"},
	} {
		text, err := os.ReadFile(filepath.Join(root, "apis", "crds", "actions.github.com_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		shown, wide, all := 0, 0, map[string]bool{}
		for _, column := range decode[apiextensionsv1.CustomResourceDefinition](t, string(text)).Spec.Versions[0].AdditionalPrinterColumns {
			all[column.Name] = true
			if column.Priority == 0 {
				shown++
				wide += max(len(column.Name), longestCell[column.Name]) + spacing
			}
		}
		check(t, kind+": columns", shown, 8)
		if most := 100 - longestCell["Name"]; kind == "autoscalingrunnersets" && wide-spacing > most { // nothing is behind the last
			t.Errorf("%s: beside the name %d columns of a terminal are taken, of %d", kind, wide, most)
		}
		for _, name := range arcs {
			check(t, kind+": column "+name, all[name], true)
		}
	}
}

// Helm upgrades CRDs with the chart, leaves them when the release goes, and takes them up again.
func TestCRDsFollowTheChart(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		helm.succeed(t, "install", "arc", earlierChart(t), "--namespace", system)
		check(t, "new field before", hasNewField(t, helm.cluster), false)
		set := createRunnerSet(t, helm.cluster, system)

		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system)
		check(t, "new field after the upgrade", hasNewField(t, helm.cluster), true)
		check(t, "scale set after the upgrade", uidOf(t, helm.cluster, set), set.GetUID())

		// No kubelet runs the hook's Job here.
		helm.succeed(t, "uninstall", "arc", "--namespace", system, "--no-hooks")
		check(t, "scale set without the release", uidOf(t, helm.cluster, set), set.GetUID())
		helm.succeed(t, "install", "arc", controller.directory(), "--namespace", system)
		check(t, "scale set of the next release", uidOf(t, helm.cluster, set), set.GetUID())
	})
}

// ARC's chart has its CRDs in crds/: Helm installs these and then forgets them. --take-ownership makes them the
// release's. Without it Helm says that they aren't, and changes nothing.
func TestCRDsAreTakenOver(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		system := helm.cluster.NewNamespace(t)
		// Most installations were made with Helm 3, whoever upgrades them.
		former := installer{cluster: helm.cluster, version: "3"}
		former.succeed(t, "install", "arc", formerChart(t), "--namespace", system)
		set := createRunnerSet(t, helm.cluster, system)

		said := helm.refused(t, "upgrade", "arc", controller.directory(), "--namespace", system)
		checkContains(t, said, `cannot be imported into the current release`)
		check(t, "new field after the refusal", hasNewField(t, helm.cluster), false)

		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--take-ownership")
		check(t, "new field after the upgrade", hasNewField(t, helm.cluster), true)
		check(t, "scale set after the upgrade", uidOf(t, helm.cluster, set), set.GetUID())
		check(t, "owner", ownerOfCRDs(t, helm.cluster), system+"/arc")
		// From now on the flag isn't needed, also after a while with ARC's chart, which leaves the CRDs as they are.
		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system, "--set", "replicaCount=2")
		helm.succeed(t, "upgrade", "arc", formerChart(t), "--namespace", system)
		check(t, "new field under ARC's chart", hasNewField(t, helm.cluster), true)
		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", system)
		check(t, "scale set after there and back", uidOf(t, helm.cluster, set), set.GetUID())
	})
}

// Tenants have a controller each. The first release owns the CRDs and upgrades them, the others leave them to it. When
// it goes the CRDs stay, and another release takes them with --take-ownership.
func TestCRDsAreOfOneRelease(t *testing.T) {
	t.Parallel()
	forHelms(t, func(t *testing.T, helm installer) {
		first, second := helm.cluster.NewNamespace(t), helm.cluster.NewNamespace(t)
		helm.succeed(t, "install", "arc", earlierChart(t), "--namespace", first, "--set",
			"flags.watchSingleNamespace="+first)
		ours := []string{
			"other", controller.directory(), "--namespace", second, "--set", "flags.watchSingleNamespace=" + second,
		}
		notes := helm.succeed(t, append([]string{"install"}, ours...)...)
		checkContains(t, notes, "belong to another release, "+first+"/arc.")
		helm.succeed(t, append([]string{"upgrade"}, ours...)...)
		check(t, "owner", ownerOfCRDs(t, helm.cluster), first+"/arc")
		check(t, "new field of the second", hasNewField(t, helm.cluster), false)

		helm.succeed(t, "upgrade", "arc", controller.directory(), "--namespace", first, "--set",
			"flags.watchSingleNamespace="+first)
		check(t, "new field after the first's upgrade", hasNewField(t, helm.cluster), true)
		helm.succeed(t, "uninstall", "arc", "--namespace", first, "--no-hooks")
		checkContains(t, helm.refused(t, append([]string{"upgrade"}, ours...)...),
			`cannot be imported into the current release`)
		helm.succeed(t, append([]string{"upgrade", "--take-ownership"}, ours...)...)
		check(t, "owner after the first is gone", ownerOfCRDs(t, helm.cluster), second+"/other")
	})
}

func ownerOfCRDs(t *testing.T, cluster *testkube.Cluster) string {
	t.Helper()
	annotations := crd(t, cluster).Annotations
	return annotations["meta.helm.sh/release-namespace"] + "/" + annotations["meta.helm.sh/release-name"]
}

func crd(t *testing.T, cluster *testkube.Cluster) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	object := &apiextensionsv1.CustomResourceDefinition{}
	if err := cluster.Client().Get(t.Context(), types.NamespacedName{Name: crdName}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func hasNewField(t *testing.T, cluster *testkube.Cluster) bool {
	t.Helper()
	_, found := crd(t, cluster).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties[newField]
	return found
}

func createRunnerSet(t *testing.T, cluster *testkube.Cluster, namespace string) *v1alpha1.AutoscalingRunnerSet {
	t.Helper()
	set := runnerSet(t, scaleSet)
	set.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "set"}
	// An API server serves a kind a moment after it has taken the CRD.
	create := func() error { return cluster.Client().Create(t.Context(), &set) }
	gomega.NewWithT(t).Eventually(create).WithTimeout(time.Minute).Should(gomega.Succeed())
	return &set
}

func uidOf(t *testing.T, cluster *testkube.Cluster, object client.Object) types.UID {
	t.Helper()
	found := &v1alpha1.AutoscalingRunnerSet{}
	if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(object), found); err != nil {
		t.Fatal(err)
	}
	return found.UID
}

// earlierCRDs writes ARC's CRDs to a directory. They have none of the later fields.
func earlierCRDs(t *testing.T, directory string) {
	t.Helper()
	makeDirectory(t, directory)
	crds, err := arc.CRDs(filepath.Join(root, "apis", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		content, err := yaml.Marshal(crd.Object)
		if err != nil {
			t.Fatal(err)
		}
		plural, _, _ := strings.Cut(crd.GetName(), ".")
		write(t, filepath.Join(directory, crdFile(plural)), string(content), 0o644)
	}
}

// earlierChart returns the directory of our chart with the CRDs of one that came before.
func earlierChart(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	earlierCRDs(t, filepath.Join(directory, "crds"))
	target := filepath.Join(directory, "charts", controller.name)
	if err := os.CopyFS(target, os.DirFS(controller.directory())); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(directory, "charts", "sync-crds.sh")
	copyFile(t, filepath.Join(root, "charts", "sync-crds.sh"), script, 0o755)
	if _, stderr, err := run(t, script, filepath.Join(directory, "crds")); err != nil {
		t.Fatal(stderr)
	}
	return target
}

// formerChart returns the directory of a chart made like ARC's: its CRDs are in crds/ and no template mentions them;
// its other objects are our chart's, under the same names.
func formerChart(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), controller.name)
	if err := os.CopyFS(directory, os.DirFS(controller.directory())); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(directory, "templates", "crds")); err != nil {
		t.Fatal(err)
	}
	for _, ours := range []string{"uninstall_check.yaml", "manager_events_role.yaml", "manager_events_role_binding.yaml",
		"manager_listener_config_role.yaml", "manager_listener_config_role_binding.yaml",
		"scale_set_holders_role.yaml", "scale_set_holders_role_binding.yaml"} {
		if err := os.Remove(filepath.Join(directory, "templates", ours)); err != nil {
			t.Fatal(err)
		}
	}
	earlierCRDs(t, filepath.Join(directory, "crds"))
	return directory
}

func makeDirectory(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
