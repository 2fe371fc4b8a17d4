package failpoints

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/test/arc"
)

// takeovers begin with a scale set of actions-runner-controller whose runner is busy and whose manager is gone.
var takeovers = []scenario{{name: "take-over from ARC", before: servedByARC, run: func(w *world) {
	w.queueFor(arc.Name, 1, time.Minute)
	if !w.done() {
		return
	}
	w.rest()
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
}}}

// servedByARC leaves a scale set as ARC does, with a job that runs.
func servedByARC(w *world) {
	set, err := arc.Register(w.t.Context(), arc.Place{
		System: system, Runners: runners, Account: "harrier", URL: gitHubURL + "/org", Token: "token",
		RoundTripper: w.github.Transport(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	err = set.CreateObjects(func(object *unstructured.Unstructured) error {
		status, reported := object.Object["status"]
		if err := w.user.Create(w.t.Context(), object); err != nil || !reported {
			return err
		}
		object.Object["status"] = status
		return w.user.Status().Update(w.t.Context(), object)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.queueFor(arc.Name, 1, 3*time.Minute)
	w.until("a job runs", time.Minute, func() bool { return w.jobs("running") == 1 })
}

// queueFor queues jobs for a scale set of another name.
func (w *world) queueFor(set string, count int, takes time.Duration) {
	_, err := w.github.QueueJobs(fakegithub.JobRequest{
		Count: count, ScaleSet: set, Duration: fakegithub.Duration(takes),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
