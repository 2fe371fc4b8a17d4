package failpoints

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/arc"
)

// takeovers begin with a scale set of actions-runner-controller whose runner is busy and whose manager is gone.
var takeovers = []scenario{
	{name: "take-over from ARC", before: servedByARC, installs: true, uninstalls: true, run: func(w *world) {
		w.queueFor(arc.Name, 1, time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		w.uninstallARC()
	}},
	{name: "back to ARC, and again from it", before: servedByARC, installs: true, uninstalls: true, run: func(w *world) {
		w.queueFor(arc.Name, 1, 10*time.Minute)
		if !w.busy(2) || !w.until("both are reported", 5*time.Minute, func() bool { return w.reported(2) }) {
			return
		}
		w.managers.end()
		w.serveByARC()
		w.queueFor(arc.Name, 1, 5*time.Minute)
		if !w.busy(3) && !w.busy(2) { // the first may have ended
			return
		}
		w.managers.begin(w, 1, w.runManagers)
		w.queueFor(arc.Name, 1, time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		if sets := w.github.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID != w.arc.ScaleSet {
			w.violate("GitHub has %d scale sets, and not the one of ARC alone", len(sets))
		}
		w.uninstallARC()
	}},
}

func (w *world) uninstallARC() {
	for _, object := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "arc-gha-rs-manager"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "arc-gha-rs-manager"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "arc-gha-rs-github-secret"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "arc-gha-rs-no-permission"}},
		&v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Name: arc.Name}},
	} {
		object.SetNamespace(runners)
		if err := w.user.Delete(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
	if !w.until("uninstalled", 20*time.Minute, w.nothingLeft) {
		w.violate("left: %v", w.left())
	}
}

// serveByARC plays the return of ARC's charts and controller, as docs/back-to-arc.md says: the listener is replaced,
// objects have ARC's labels, annotations and finalizers again and lose the fields that ARC doesn't know, and ARC makes
// one more runner.
func (w *world) serveByARC() {
	ctx, listener := w.t.Context(), w.arc.Listener
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for _, object := range []client.Object{
		&corev1.Pod{ObjectMeta: in(system, listener)}, &corev1.Secret{ObjectMeta: in(system, listener+"-config")},
		&corev1.ServiceAccount{ObjectMeta: in(system, listener)}, &rbacv1.RoleBinding{ObjectMeta: in(runners, listener)},
		&rbacv1.Role{ObjectMeta: in(runners, listener)}, &v1alpha1.AutoscalingListener{ObjectMeta: in(system, listener)},
	} {
		_ = w.user.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = w.user.Delete(ctx, object) // what isn't there needn't go
		w.until("gone", time.Minute, func() bool {
			return apierrors.IsNotFound(w.user.Get(ctx, client.ObjectKeyFromObject(object), object))
		})
	}
	for _, kind := range []string{"AutoscalingRunnerSet", "EphemeralRunnerSet", "EphemeralRunner"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := w.user.List(ctx, list, client.InNamespace(runners)); err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			arc.Forget(object)
			status := object.Object["status"]
			if err := w.user.Update(ctx, object); err != nil {
				w.t.Fatal(err)
			}
			object.Object["status"] = status
			if err := w.user.Status().Update(ctx, object); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	back, err := w.arc.Again(ctx, arc.Name+"-k7x2m-runner-t5w8z")
	if err == nil {
		err = back.CreateObjects(w.createOrMark)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// createOrMark creates an object of ARC's. An existing one gets its labels, annotations and finalizers.
func (w *world) createOrMark(wanted *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": wanted.GetLabels(), "annotations": wanted.GetAnnotations(), "finalizers": wanted.GetFinalizers(),
	}})
	if err != nil {
		return err
	}
	present := wanted.DeepCopy()
	err = w.user.Patch(w.t.Context(), present, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return w.createARC(wanted)
	}
	wanted.Object = present.Object
	return err
}

// servedByARC leaves a scale set as ARC does, with a job that runs.
func servedByARC(w *world) {
	set, err := arc.Register(w.t.Context(), arc.Place{
		System: system, Runners: runners, Account: "harrier", URL: gitHubURL + "/org", Token: "token",
		RoundTripper: w.github.Transport(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.arc = set
	if err := set.CreateObjects(w.createARC); err != nil {
		w.t.Fatal(err)
	}
	w.queueFor(arc.Name, 1, 3*time.Minute)
	w.until("a job runs", time.Minute, func() bool { return w.jobs("running") == 1 })
}

func (w *world) createARC(object *unstructured.Unstructured) error {
	status, reported := object.Object["status"]
	if err := w.user.Create(w.t.Context(), object); err != nil || !reported {
		return err
	}
	object.Object["status"] = status
	return w.user.Status().Update(w.t.Context(), object)
}

// queueFor queues jobs for a scale set of another name.
func (w *world) queueFor(set string, count int, takes time.Duration) {
	_, err := w.github.QueueJobs(fakegithub.JobRequest{
		Count: count, ScaleSet: set, Duration: fakegithub.Duration(takes), Event: "push",
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
