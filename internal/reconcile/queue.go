package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	// firstPause doubles with every failed pass up to longestPause. The library's default goes up to 17 minutes, long after
	// the cause of the failures has ended.
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
)

// backOff returns a rate limiter with the pauses between failing passes of one object.
func backOff() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, longestPause)
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

// Queue is what the handler of a watch is given for requests to reconcile.
type Queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Waker requeues objects from outside a pass, such as at the end of a call to GitHub. It is a source for one controller. Before
// that controller has started there is nothing to wake, because it begins with all objects. Unlike a channel it never blocks,
// even if nobody listens any more.
type Waker struct {
	mu    sync.Mutex
	queue Queue
}

// Start stores the controller's queue. It implements controller-runtime's Source.
func (w *Waker) Start(_ context.Context, queue Queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Wake enqueues the object.
func (w *Waker) Wake(object types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(ctrl.Request{NamespacedName: object})
	}
}
