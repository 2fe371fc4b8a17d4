package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

const (
	// firstBackoff doubles with every failed pass up to longestBackoff. The library's default goes up to 17 minutes,
	// long after the cause of the failures has ended.
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = 30 * time.Second
)

// backOff returns a rate limiter with the pauses between failing passes of one object.
func backOff() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstBackoff, longestBackoff)
}

// ControllerOptions returns the options that all controllers share, with the given number of workers.
func ControllerOptions(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, NewQueue: newQueue, RateLimiter: backOff()}
}

// newQueue returns controller-runtime's priority queue, which stopQueue lets stop.
func newQueue(controller string, rateLimiter workqueue.TypedRateLimiter[ctrl.Request]) Queue {
	return &stopQueue{
		queue: priorityqueue.New(controller, func(o *priorityqueue.Opts[ctrl.Request]) {
			o.Log = ctrl.Log.WithValues("controller", controller)
			o.RateLimiter = rateLimiter
		}),
		stopped: make(chan struct{}),
	}
}

// Backoff returns first·2ⁿ⁻¹ after n failures in a row, capped at longest; 0 for n = 0.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	const doublings = 20 // a minute, doubled 20 times, is 2⁵⁶ ns, which fits
	return min(first<<min(failures-1, doublings), longest)
}

// Requests returns a request for each object that a list finds, for the handler of a watch that leads to them.
func Requests(
	ctx context.Context, reader client.Reader, list client.ObjectList, options ...client.ListOption,
) ([]ctrl.Request, error) {
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var requests []ctrl.Request
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{
				Namespace: object.GetNamespace(),
				Name:      object.GetName(),
			}})
		}
		return err
	})
	return requests, err
}

// Seen returns the handler of a watch that calls see with each object as it is now, or as it last was if it is gone.
func Seen(see func(q Queue, object client.Object, gone bool)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q Queue) { see(q, e.Object, false) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q Queue) { see(q, e.ObjectNew, false) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q Queue) { see(q, e.Object, true) },
	}
}
