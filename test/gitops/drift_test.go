// Package gitops tests the product under tools that keep a cluster like their rendered charts (Argo CD, Flux). They
// have nothing to do while it works: it doesn't change fields that the charts set, and kstatus' rules can read its
// objects.
package gitops

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// sets are scale sets by name with their values.
var sets = map[string]rig.Values{
	rig.DefaultSet: nil,
	"customized": {
		"labels": rig.Values{"team": "ci"}, "annotations": rig.Values{"note": "n"},
		"containerMode": rig.Values{"type": "kubernetes-novolume",
			"kubernetesModeHookTemplate": rig.Values{"metadata": rig.Values{"labels": rig.Values{"a": "b"}}}},
		"listenerTemplate": rig.Values{"spec": rig.Values{"containers": []any{
			rig.Values{"name": "listener", "resources": rig.Values{"requests": rig.Values{"cpu": "0.01", "memory": "32Mi"}}},
		}}},
		"template": rig.Values{"spec": rig.Values{"containers": []any{
			rig.Values{"name": "runner", "image": "runner", "resources": rig.Values{"requests": rig.Values{"cpu": "1000m"}}},
		}}},
	},
}

// After jobs have run, rendering the charts again and applying the objects changes nothing.
func TestNoDrift(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{MinRunners: 1})
	r.InstallSet("customized", sets["customized"])
	r.AwaitListening("customized")
	r.WaitDone(r.QueueJobs(2, time.Second))
	for set, values := range sets {
		objects := r.Rendered(set, values)
		if len(objects) < 15 {
			t.Fatalf("the charts render only %d objects", len(objects))
		}
		for _, object := range objects {
			checkUnchanged(t, r, object)
		}
	}
	checkStatuses(t, r)
}

// checkUnchanged applies the object as a dry run, as Argo CD and Flux do to find differences.
func checkUnchanged(t *testing.T, r *rig.Rig, wanted *unstructured.Unstructured) {
	t.Helper()
	name := wanted.GetKind() + " " + wanted.GetName()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	// The status of some objects changes all the time, also between the two requests.
	gomega.NewWithT(t).Eventually(func() (string, error) {
		if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(wanted), live); err != nil {
			return "", err
		}
		applied := wanted.DeepCopy()
		configuration := client.ApplyConfigurationFromUnstructured(applied)
		if err := r.Cluster.Client().Apply(t.Context(), configuration, client.FieldOwner("argocd-controller"),
			client.ForceOwnership, client.DryRunAll); err != nil {
			return "", err
		}
		for _, object := range []*unstructured.Unstructured{live, applied} {
			object.SetManagedFields(nil)
			unstructured.RemoveNestedField(object.Object, "metadata", "resourceVersion")
			unstructured.RemoveNestedField(object.Object, "status")
		}
		return cmp.Diff(live.Object, applied.Object), nil
	}, rig.Patience).Should(gomega.BeEmpty(), "applying %s again changes it", name)
}

// checkStatuses waits until kstatus calls all objects with a status of ours current.
func checkStatuses(t *testing.T, r *rig.Rig) {
	t.Helper()
	for kind, namespace := range map[string]string{
		"AutoscalingRunnerSet": r.RunnerNamespace, "EphemeralRunnerSet": r.RunnerNamespace,
		"EphemeralRunner": r.RunnerNamespace, "AutoscalingListener": r.SystemNamespace,
	} {
		gomega.NewWithT(t).Eventually(func() (map[string]string, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(namespace))
			waiting := map[string]string{}
			for _, object := range list.Items {
				if status := kstatus(object.Object); status != current {
					waiting[object.GetName()] = status
				}
			}
			return waiting, err
		}, rig.Patience).Should(gomega.BeEmpty(), "objects of kind "+kind+" that are not current")
	}
}
