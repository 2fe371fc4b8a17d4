// Package gitops tests that tools which keep a cluster as their rendered charts say (Argo CD, Flux) have nothing to do once
// the product works: it doesn't change what the charts set, and its objects tell by kstatus' rules how they are.
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
		"containerMode": rig.Values{"type": "kubernetes-novolume", "kubernetesModeHookTemplate": rig.Values{"metadata": rig.Values{"labels": rig.Values{"a": "b"}}}},
		"listenerTemplate": rig.Values{"spec": rig.Values{"containers": []any{
			rig.Values{"name": "listener", "resources": rig.Values{"requests": rig.Values{"cpu": "0.01", "memory": "32Mi"}}},
		}}},
		"template": rig.Values{"spec": rig.Values{"containers": []any{
			rig.Values{"name": "runner", "image": "runner", "resources": rig.Values{"requests": rig.Values{"cpu": "1000m"}}},
		}}},
	},
}

// Rendering the charts once more and applying what comes out changes nothing after jobs have run.
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

// checkUnchanged applies the object for show, as Argo CD and Flux do to find differences.
func checkUnchanged(t *testing.T, r *rig.Rig, wanted *unstructured.Unstructured) {
	t.Helper()
	name := wanted.GetKind() + " " + wanted.GetName()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	// Objects whose status changes all the time may do so between the two requests.
	gomega.NewWithT(t).Eventually(func() (string, error) {
		if err := r.Cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(wanted), live); err != nil {
			return "", err
		}
		applied := wanted.DeepCopy()
		configuration := client.ApplyConfigurationFromUnstructured(applied)
		if err := r.Cluster.Client().Apply(t.Context(), configuration, client.FieldOwner("argocd-controller"), client.ForceOwnership, client.DryRunAll); err != nil {
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

// checkStatuses waits until all objects that have a status of ours are what kstatus calls current.
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
