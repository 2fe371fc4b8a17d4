package controllertest

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// RunnerWatch replaces the watch of runners of a controller that no manager runs.
type RunnerWatch struct {
	// Handler is the controller's event handler.
	Handler handler.EventHandler

	shown map[client.ObjectKey]*v1alpha1.EphemeralRunner
}

// Show calls the handler with the differences between these runners and the runners of the last call, and returns the
// requests that it enqueues.
func (w *RunnerWatch) Show(ctx context.Context, runners []v1alpha1.EphemeralRunner) []reconcile.Request {
	queue := &Queue{}
	former := w.shown
	w.shown = make(map[client.ObjectKey]*v1alpha1.EphemeralRunner, len(runners))
	for i := range runners {
		runner := &runners[i]
		key := client.ObjectKeyFromObject(runner)
		w.shown[key] = runner
		if last, known := former[key]; known {
			w.Handler.Update(ctx, event.UpdateEvent{ObjectOld: last, ObjectNew: runner}, queue)
		} else {
			w.Handler.Create(ctx, event.CreateEvent{Object: runner}, queue)
		}
		delete(former, key)
	}
	for _, gone := range former {
		w.Handler.Delete(ctx, event.DeleteEvent{Object: gone}, queue)
	}
	return queue.Requests
}

// Queue records the requests that an event handler enqueues with a delay.
type Queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	Requests []reconcile.Request
}

// AddAfter implements the workqueue's method.
func (q *Queue) AddAfter(request reconcile.Request, _ time.Duration) {
	q.Requests = append(q.Requests, request)
}
