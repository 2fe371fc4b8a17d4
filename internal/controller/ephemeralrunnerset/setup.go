package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// ownerIndex finds the runners of a set by the set's UID.
const ownerIndex = "metadata.controllerUID"

// SetupWithManager registers the controller, its index and its watches.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.EphemeralRunner{}, ownerIndex, ownerUID)
	if err != nil {
		return fmt.Errorf("index runners by their set: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("ephemeralrunnerset").
		For(&v1alpha1.EphemeralRunnerSet{}).
		Watches(&v1alpha1.EphemeralRunner{}, c.runnerEvents()).
		WatchesRawSource(source.Func(c.waker.Start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.Workers, RateLimiter: kube.BackOff()}).
		Complete(c)
}

func ownerUID(object client.Object) []string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return nil
	}
	return []string{string(owner.UID)}
}

// gather is how long events of a set's runners are gathered for one pass. A pass looks at all runners of its set, and a
// runner has ten events in its life: with ten passes a second at most, an event costs the same in a set of any size. What
// follows from a runner's event is not urgent; a change of the set itself is, and isn't delayed.
const gather = 100 * time.Millisecond

// runnerEvents brings a set back for every change of a runner of its own, and notes that a runner was seen even if it
// is gone again before the set is reconciled.
func (c *Controller) runnerEvents() handler.EventHandler {
	see := func(object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			return
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}
		queue.AddAfter(reconcile.Request{NamespacedName: key}, gather)
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { see(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { see(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if owner := metav1.GetControllerOf(e.Object); owner != nil {
				c.expectations.Met(types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: owner.Name}, e.Object.GetName())
			}
			see(e.Object, q)
		},
	}
}
