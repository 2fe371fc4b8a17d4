package ephemeralrunner

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Priorities of a pass. Every pass writes, and in a burst everything waits for the API server. So a pass comes first if
// a job waits for it or needs its protection, or a machine that a finished pod still occupies; a pass that only reports
// something or tidies up comes later.
const (
	priorityHigh = 0
	priorityLow  = -1
)

// SetupWithManager registers the controller and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.options.Verdicts.WhenGiven(c.waker.Wake)
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunner").
		Watches(&v1alpha1.EphemeralRunner{}, c.runnerEvents()).
		Watches(&corev1.Pod{}, reconcile.Seen(c.podSeen)).
		WatchesRawSource(&c.waker).
		WatchesRawSource(source.Func(func(ctx context.Context, _ reconcile.Queue) error { return c.begin(ctx) })).
		WatchesRawSource(source.Func(func(ctx context.Context, q reconcile.Queue) error {
			go c.remains.RunSecrets(ctx, func(secret client.Object) {
				enqueue(q, secret, secret.GetName(), priorityLow)
			})
			return nil
		})).
		WithOptions(reconcile.ControllerOptions(c.options.Workers)).
		Complete(c)
}

// runnerEvents enqueues runners, with high priority if they are new or their job has just been reported. A runner that
// is gone without having been deleted first went without its finalization: it was restored without its finalizer, its
// owner is gone, and garbage collection may have been faster than any pass.
func (c *Controller) runnerEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q reconcile.Queue) {
			enqueue(q, e.Object, e.Object.GetName(), priorityHigh)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q reconcile.Queue) {
			priority := priorityLow
			before, isRunner := e.ObjectOld.(*v1alpha1.EphemeralRunner)
			after, _ := e.ObjectNew.(*v1alpha1.EphemeralRunner)
			if isRunner && after != nil && after.Status.JobRunning() && !before.Status.JobRunning() {
				priority = priorityHigh
			}
			enqueue(q, e.ObjectNew, e.ObjectNew.GetName(), priority)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q reconcile.Queue) {
			runner, isRunner := e.Object.(*v1alpha1.EphemeralRunner)
			// what can't be read is left alone
			if isRunner && runner.DeletionTimestamp.IsZero() && informer.IsWhole(runner) {
				c.remains.RememberVanished(client.ObjectKeyFromObject(runner))
			}
			enqueue(q, e.Object, e.Object.GetName(), priorityLow)
		},
	}
}

// podSeen enqueues the runners of pods. If the pod has ended, it does so with high priority, and informs the gate as
// well. The last state of a pod that is gone is kept for the next pass.
func (c *Controller) podSeen(q reconcile.Queue, object client.Object, removed bool) {
	owner := metav1.GetControllerOf(object)
	pod, isPod := object.(*corev1.Pod)
	if isPod && remains.MayBeAbandoned(pod) {
		enqueue(q, object, pod.Name, priorityLow) // a runner of that name is not its owner, but goes first
	}
	if !isPod || !isRunner(owner) {
		return
	}
	runner := types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}
	if removed {
		c.remains.KeepPod(runner, pod)
	}
	priority := priorityLow
	if podstatus.HasEnded(pod, v1alpha1.RunnerContainerName) && pod.DeletionTimestamp == nil {
		priority = priorityHigh
		c.reports.PodEnded(runner)
	}
	enqueue(q, object, owner.Name, priority)
}

// isRunner reports whether an owner, which may be nil, is a runner of this API: anybody may give a pod an owner of the
// same kind of another API.
func isRunner(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "EphemeralRunner"
}

// enqueue adds the runner of that name in the object's namespace. A runner that is queued already keeps the higher
// priority.
func enqueue(q reconcile.Queue, object client.Object, runner string, priority int) {
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: runner}}
	if ordered, ok := q.(priorityqueue.PriorityQueue[ctrl.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}
