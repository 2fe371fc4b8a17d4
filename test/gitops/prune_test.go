package gitops

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// The labels by which Argo CD and kubectl's ApplySets find the objects that they have applied.
const (
	instance = "argocd.argoproj.io/instance"
	named    = "app.kubernetes.io/instance" // Argo CD's default
	applySet = "applyset.kubernetes.io/part-of"
	app      = "runners-of-production"
)

// pruned are the kinds that the tools prune.
var pruned = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("AutoscalingRunnerSet"), v1alpha1.GroupVersion.WithKind("AutoscalingListener"),
	v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"), v1alpha1.GroupVersion.WithKind("EphemeralRunner"),
	{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "ConfigMap"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// A tool that tracks by label deletes objects with its label that it has not applied: Argo CD if they have no owner,
// ApplySets and their like in any case. The labels are added while the set works, as when an application adopts it. No
// object of the set is pruned, neither while jobs run nor after a change of the set.
func TestNothingIsPrunedByLabel(t *testing.T) {
	r := rig.Start(t, testkube.Shared(t), rig.Options{MinRunners: 1})
	applied := map[string]bool{}
	for _, object := range r.Rendered(rig.DefaultSet, nil) {
		applied[identify(object)] = true
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q,%q:%q,%q:%q},"annotations":{"argocd.argoproj.io/tracking-id":%q}}}`,
			named, app, instance, app, applySet, app, app+":"+identify(object))
		if err := r.Cluster.Client().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)),
			client.FieldOwner("argocd")); err != nil {
			t.Fatal(err)
		}
	}
	awaitInherited(t, r)
	held := r.QueueJobs(2, rig.Held)
	gomega.NewWithT(t).Eventually(func() (busy int) {
		for _, runner := range r.GitHub.Snapshot().Runners {
			if runner.Busy {
				busy++
			}
		}
		return busy
	}, rig.Patience).Should(gomega.Equal(2), "runners with a job")
	prune(t, r, applied)
	r.EndJobs(held)
	r.WaitDone(r.QueueJobs(2, time.Second))
	prune(t, r, applied)
}

// awaitInherited waits until the manager has seen the labels: the objects of the set get those that Argo CD doesn't
// prune by.
func awaitInherited(t *testing.T, r *rig.Rig) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (int, error) {
		var sets v1alpha1.EphemeralRunnerSetList
		err := r.Cluster.Client().List(t.Context(), &sets, client.InNamespace(r.RunnerNamespace),
			client.MatchingLabels{instance: app})
		return len(sets.Items), err
	}, rig.Patience).Should(gomega.Equal(1), "EphemeralRunnerSets with the set's labels")
}

// prune fails the test for each object that a tool would delete.
func prune(t *testing.T, r *rig.Rig, applied map[string]bool) {
	t.Helper()
	for _, kind := range pruned {
		for _, namespace := range []string{r.SystemNamespace, r.RunnerNamespace} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				object := &list.Items[i]
				labels, owner := object.GetLabels(), metav1.GetControllerOf(object)
				byArgoCD := (labels[named] == app || labels[instance] == app) && owner == nil
				if !applied[identify(object)] && (byArgoCD || labels[applySet] == app) {
					t.Errorf("%s is pruned: labels %v, owner %v", identify(object), labels, owner)
				}
				if tracked := object.GetAnnotations()["argocd.argoproj.io/tracking-id"]; tracked != "" &&
					!applied[identify(object)] {
					t.Errorf("%s names a tracked object, %s", identify(object), tracked)
				}
			}
		}
	}
}

// identify returns a text that identifies an object.
func identify(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
}
