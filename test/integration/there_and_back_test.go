package integration

import (
	"encoding/json"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/arc"
	"github.com/harrier-ci/harrier/test/rig"
)

// ARC → Harrier → ARC → Harrier. A running job goes on whoever serves the scale set, on its runner: one of ARC's, one
// of ours, and one that ARC made when it was back. The scale set on GitHub is the same all the time, and in the end
// nothing is left.
func TestThereAndBackToARC(t *testing.T) {
	g := gomega.NewWithT(t)
	r, set := servedByARC(t)
	busy := func(count int) {
		t.Helper()
		g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(count))
	}
	first := r.QueueJobsFor(arc.Name, 1, rig.Held)
	busy(1)

	r.StartManager()
	awaitOurListener(t, r)
	second := r.QueueJobsFor(arc.Name, 1, rig.Held)
	busy(2)
	ours := runnersOf(r)[second[0]]

	r.StopManager()
	back := serveByARC(t, r, set)
	third := r.QueueJobsFor(arc.Name, 1, rig.Held)
	busy(3)
	r.EndJobs(first)
	removeAsARC(t, r, arc.Runner)

	r.StartManager()
	awaitOurListener(t, r)
	r.WaitDone(r.QueueJobsFor(arc.Name, 2, 0))
	r.EndJobs(append(second, third...))
	ran := runnersOf(r)
	for id, want := range map[int64]string{first[0]: arc.Runner, second[0]: ours, third[0]: back.Runner} {
		if ran[id] != want || ours == "" {
			t.Errorf("job %d ran on %q, want %q", id, ran[id], want)
		}
	}
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID != set.ScaleSet {
		t.Errorf("on GitHub there are %+v, and not scale set %d alone", sets, set.ScaleSet)
	}
	uninstallARCs(t, r)
	g.Eventually(r.MadeFor, rig.Patience).WithArguments(t.Context(), arc.Name).Should(gomega.BeEmpty())
	if anomalies := r.Anomalies(); len(anomalies) > 0 {
		t.Error(anomalies)
	}
}

// runnersOf returns the runner of each job.
func runnersOf(r *rig.Rig) map[int64]string {
	names := map[int64]string{}
	for _, job := range r.GitHub.Jobs("") {
		names[job.RequestID] = job.Runner
	}
	return names
}

// awaitOurListener waits until the only listener has another image than ARC's, and polls.
func awaitOurListener(t *testing.T, r *rig.Rig) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		pods := listenerPods(t, r, arc.Name)
		return len(pods) == 1 && pods[0].Spec.Containers[0].Image == "rig.invalid/manager:test"
	}, rig.Patience).Should(gomega.BeTrue(), "there is not one listener of ours")
	r.AwaitListening(arc.Name)
}

// serveByARC plays the return of ARC's charts and controller, as docs/back-to-arc.md says: objects have ARC's labels,
// annotations and finalizers again and lose the fields that ARC doesn't know, the listener is replaced, and ARC makes
// one more runner.
func serveByARC(t *testing.T, r *rig.Rig, set *arc.Set) *arc.Set {
	t.Helper()
	removeListener(t, r, set.Listener)
	for _, kind := range []string{"AutoscalingRunnerSet", "EphemeralRunnerSet", "EphemeralRunner"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.RunnerNamespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			arc.Forget(object)
			status := object.Object["status"]
			if err := r.Cluster.Client().Update(t.Context(), object, client.FieldOwner("arc")); err != nil {
				t.Fatal(err)
			}
			object.Object["status"] = status
			if err := r.Cluster.Client().Status().Update(t.Context(), object, client.FieldOwner("arc")); err != nil {
				t.Fatal(err)
			}
		}
	}
	back, err := set.Again(t.Context(), arc.Name+"-k7x2m-runner-t5w8z")
	if err == nil {
		err = back.CreateObjects(func(object *unstructured.Unstructured) error { return createOrMark(t, r, object) })
	}
	if err != nil {
		t.Fatal(err)
	}
	r.AwaitListening(arc.Name)
	return back
}

// createOrMark creates an object of ARC's. An existing one gets its labels, annotations and finalizers.
func createOrMark(t *testing.T, r *rig.Rig, wanted *unstructured.Unstructured) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": wanted.GetLabels(), "annotations": wanted.GetAnnotations(), "finalizers": wanted.GetFinalizers(),
	}})
	if err != nil {
		return err
	}
	present := wanted.DeepCopy()
	err = r.Cluster.Client().Patch(t.Context(), present, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return createARC(t, r, wanted)
	}
	wanted.Object = present.Object
	return err
}

// removeListener deletes a listener with its parts, as ARC does before it makes another.
func removeListener(t *testing.T, r *rig.Rig, name string) {
	t.Helper()
	system := metav1.ObjectMeta{Namespace: r.SystemNamespace, Name: name}
	runners := metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: name}
	config := metav1.ObjectMeta{Namespace: r.SystemNamespace, Name: name + "-config"}
	for _, object := range []client.Object{
		&corev1.Pod{ObjectMeta: system}, &corev1.Secret{ObjectMeta: config}, &corev1.ServiceAccount{ObjectMeta: system},
		&rbacv1.RoleBinding{ObjectMeta: runners}, &rbacv1.Role{ObjectMeta: runners},
		&v1alpha1.AutoscalingListener{ObjectMeta: system},
	} {
		remove(t, r, object)
	}
}

// removeAsARC deletes a runner whose container has ended, its pod and its Secret.
func removeAsARC(t *testing.T, r *rig.Rig, name string) {
	t.Helper()
	runner := metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: name}
	for _, object := range []client.Object{&corev1.Pod{ObjectMeta: runner}, &corev1.Secret{ObjectMeta: runner},
		&v1alpha1.EphemeralRunner{ObjectMeta: runner}} {
		remove(t, r, object)
	}
}

// remove deletes an object without its finalizers, and returns when it is gone.
func remove(t *testing.T, r *rig.Rig, object client.Object) {
	t.Helper()
	kube := r.Cluster.Client()
	if err := kube.Patch(t.Context(), object,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(kube.Delete(t.Context(), object)); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(kube.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}, rig.Patience).Should(gomega.BeTrue(), "%T %s is left", object, object.GetName())
}
