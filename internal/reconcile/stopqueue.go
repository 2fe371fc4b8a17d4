package reconcile

import (
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type queue = priorityqueue.PriorityQueue[ctrl.Request]

// stopQueue releases the workers of the queue that it wraps before that is shut down. As of v0.24, controller-runtime's
// own may hand out a request at that moment, to a worker that has left, and wait for it forever with its locks held
// (kubernetes-sigs/controller-runtime#3538): a manager that was asked to stop did so 8 s late and with an error, and
// its successor waited as long for the Lease. Delete this file when the module is at v0.25 or later.
type stopQueue struct {
	queue
	stop    sync.Once
	stopped chan struct{}
	// returning is held for reading by workers that return a request, and a single time for writing by ShutDown.
	returning sync.RWMutex
}

// handout is a request that the queue hands to a worker.
type handout struct {
	request  ctrl.Request
	priority int
	shutdown bool
}

// GetWithPriority waits for a request in a goroutine of its own, which a shutdown leaves behind.
func (q *stopQueue) GetWithPriority() (request ctrl.Request, priority int, shutdown bool) {
	if q.ShuttingDown() {
		return ctrl.Request{}, 0, true
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
		return ctrl.Request{}, 0, true
	}
}

// Get is GetWithPriority without the priority.
func (q *stopQueue) Get() (request ctrl.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// Done returns a request. After the shutdown nobody waits for it.
func (q *stopQueue) Done(request ctrl.Request) {
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

// ShutDown releases all workers, and then shuts down the wrapped queue.
func (q *stopQueue) ShutDown() {
	q.stop.Do(func() {
		close(q.stopped)
		q.returning.Lock()
		defer q.returning.Unlock()
		q.queue.ShutDown()
	})
}

// ShutDownWithDrain is the same as ShutDown, as in the wrapped queue: controllers don't drain.
func (q *stopQueue) ShutDownWithDrain() { q.ShutDown() }
