// Package doctor breaks real installations, one way after the other, and reads only what users can read: the lines of
// kubectl get, conditions, Events, metrics with the chart's alerts, and the doctor's report.
package doctor

import (
	"flag"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/test/rig"
)

// lanes is the number of tests that run at a time, each on a cluster of its own. They mostly wait for deadlines of the
// product, as users have to, so they need few processors.
const lanes = "3"

func TestMain(m *testing.M) {
	// The command line is read later, so it wins.
	if err := flag.Set("test.parallel", lanes); err != nil {
		panic(err)
	}
	os.Exit(rig.Main(m))
}

func TestInstallations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *testkube.Cluster){
		"without a manager": doctorOnAnInstallation, "healthy": healthyObjects, "with jobs": jobsAreFound,
	} {
		t.Run(name, func(t *testing.T) { test(t, testkube.Shared(t)) })
	}
}

// reasons returns a function that asks the doctor for its reasons of a severity.
func reasons(t *testing.T, r *rig.Rig, severity finding.Severity) func() ([]string, error) {
	return func() (reasons []string, err error) {
		report, _, err := consult(t.Context(), r, rig.DefaultSet)
		for _, finding := range report.Findings {
			if finding.Severity == severity {
				reasons = append(reasons, finding.Reason)
			}
		}
		return reasons, err
	}
}

// The doctor tells a healthy set without jobs what a job needs to reach it, and a set without a manager that it has
// none.
func doctorOnAnInstallation(t *testing.T, cluster *testkube.Cluster) {
	r := rig.Start(t, cluster, rig.Options{})
	metrics := observe(t, r)
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(rig.Patience)
	g.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	problems := reasons(t, r, finding.Problem)
	g.Eventually(reasons(t, r, finding.Info)).Should(ContainElement("NoJobAssigned"))
	// The manager's probes have a period of 10 s, and its Deployment follows them.
	g.Eventually(problems).Should(BeEmpty())
	restore := ageCRD(t, r)
	g.Eventually(problems).Should(ContainElement("OutdatedCRDs"))
	restore()
	g.Eventually(problems).Should(BeEmpty())
	r.StopManager()
	g.Eventually(problems).Should(ContainElement("ManagerNotRunning"))
	g.Eventually(func() (bool, error) { return metrics.alerts("HarrierManagerDown", "") }).Should(BeTrue())
	r.StartManager()
}

// ageCRD takes a field away that ARC's CustomResourceDefinition of runners lacks.
func ageCRD(t *testing.T, r *rig.Rig) (restore func()) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{
		Group:   "apiextensions.k8s.io",
		Version: "v1",
		Kind:    "CustomResourceDefinition",
	})
	crd.SetName("ephemeralrunners.actions.github.com")
	if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	whole := crd.DeepCopy()
	patch := `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/jobPatchID"}]`
	if err := r.Cluster.Client().Patch(t.Context(), crd,
		client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	for _, version := range []*unstructured.Unstructured{whole, crd} {
		version.SetResourceVersion("") // only the schema is to be patched
		version.SetManagedFields(nil)
		version.SetGeneration(0)
	}
	return func() {
		if err := r.Cluster.Client().Patch(t.Context(), whole, client.MergeFrom(crd)); err != nil {
			t.Fatal(err)
		}
	}
}
