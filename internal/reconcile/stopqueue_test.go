package reconcile_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/harrier-ci/harrier/internal/reconcile"
)

func requestFor(number int) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: strconv.Itoa(number)}}
}

// newQueue returns the queue that all controllers have.
func newQueue(t *testing.T) priorityqueue.PriorityQueue[ctrl.Request] {
	t.Helper()
	options := reconcile.ControllerOptions(1)
	queue, byPriority := options.NewQueue("test", options.RateLimiter).(priorityqueue.PriorityQueue[ctrl.Request])
	if !byPriority {
		t.Fatal("the queue knows no priorities")
	}
	return queue
}

// Workers that add, take and return requests all leave, whenever the queue is shut down. With controller-runtime's
// queue alone this test hangs within a few rounds.
func TestWorkersLeaveAQueueThatIsShutDown(t *testing.T) {
	const rounds, workers, takenBefore = 200, 16, 500
	for range rounds {
		queue := newQueue(t)
		var taken atomic.Int32
		var left sync.WaitGroup
		enough := make(chan struct{})
		for range workers {
			left.Go(func() {
				for {
					queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(rand.IntN(3))}, requestFor(rand.Int()))
					request, _, shutdown := queue.GetWithPriority()
					if shutdown {
						return
					}
					queue.Done(request)
					if taken.Add(1) == takenBefore {
						close(enough)
					}
				}
			})
		}
		<-enough
		queue.ShutDown()
		left.Wait()
		if !queue.ShuttingDown() {
			t.Fatal("a queue that was shut down does not say so")
		}
	}
}

func TestRequestsComeByPriority(t *testing.T) {
	queue := newQueue(t)
	defer queue.ShutDown()
	for priority := range 3 {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(priority)}, requestFor(priority))
	}
	if queue.Len() != 3 {
		t.Fatalf("%d requests wait, want 3", queue.Len())
	}
	for want := 2; want >= 0; want-- {
		if request, _, _ := queue.GetWithPriority(); request != requestFor(want) {
			t.Errorf("got %v, want %v", request, requestFor(want))
		}
	}
}
