package kube

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue returns controller-runtime's priority queue in a form that lets go of its workers when it is shut down. As of
// v0.24 it may hand out a request just then, to a worker that has left, and wait for it forever with its locks held
// (kubernetes-sigs/controller-runtime#3538): a manager that was told to stop did so 8 s late and with an error, and its
// successor waited for the Lease as long. This file goes when the module is v0.25 or later.
func newQueue(controller string, rateLimiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return &stopQueue{
		queue: priorityqueue.New(controller, func(o *priorityqueue.Opts[reconcile.Request]) {
			o.Log = ctrl.Log.WithValues("controller", controller)
			o.RateLimiter = rateLimiter
		}),
		stopped: make(chan struct{}),
	}
}

type queue = priorityqueue.PriorityQueue[reconcile.Request]

// stopQueue shuts the queue in it down only when none of its own callers can be held up by that any more.
type stopQueue struct {
	queue
	stop    sync.Once
	stopped chan struct{}
	// returning is held for reading by workers that return a request, and for writing once by ShutDown.
	returning sync.RWMutex
}

// handout is what the queue gave to a worker.
type handout struct {
	request  reconcile.Request
	priority int
	shutdown bool
}

// GetWithPriority waits for a request in a goroutine of its own, which may be left behind.
func (q *stopQueue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	if q.ShuttingDown() {
		return reconcile.Request{}, 0, true
	}
	given := make(chan handout, 1)
	go func() {
		var next handout
		next.request, next.priority, next.shutdown = q.queue.GetWithPriority()
		given <- next
	}()
	select {
	case next := <-given:
		return next.request, next.priority, next.shutdown
	case <-q.stopped:
		return reconcile.Request{}, 0, true
	}
}

// Get is GetWithPriority without the priority.
func (q *stopQueue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// Done returns a request. After the shutdown nobody waits for it.
func (q *stopQueue) Done(request reconcile.Request) {
	q.returning.RLock()
	defer q.returning.RUnlock()
	if !q.ShuttingDown() {
		q.queue.Done(request)
	}
}

// ShuttingDown reports whether ShutDown was called.
func (q *stopQueue) ShuttingDown() bool {
	select {
	case <-q.stopped:
		return true
	default:
		return false
	}
}

// ShutDown lets all workers go, and then ends the queue.
func (q *stopQueue) ShutDown() {
	q.stop.Do(func() {
		close(q.stopped)
		q.returning.Lock()
		defer q.returning.Unlock()
		q.queue.ShutDown()
	})
}

// ShutDownWithDrain is ShutDown, as in the queue itself: controllers don't drain.
func (q *stopQueue) ShutDownWithDrain() { q.ShutDown() }
