package ephemeralrunner

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Priorities of a pass. Every pass writes, and in a burst the API server is what everything waits for. So what a job, or
// the machine that a finished pod occupies, waits for goes first; what only tells, or tidies up, comes after it.
const (
	urgent  = 0
	patient = -1
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// runnerEvents bring a runner to its controller: a new one at once.
func runnerEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			enqueue(q, e.Object, e.Object.GetName(), urgent)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			enqueue(q, e.ObjectNew, e.ObjectNew.GetName(), patient)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			enqueue(q, e.Object, e.Object.GetName(), patient)
		},
	}
}

// podEvents bring a pod's runner to its controller: that of one that has ended at once.
func podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueueOwner(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueueOwner(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueueOwner(q, e.Object) },
	}
}

func enqueueOwner(q queue, object client.Object) {
	owner := metav1.GetControllerOf(object)
	pod, isPod := object.(*corev1.Pod)
	if owner == nil || !isPod || owner.APIVersion != v1alpha1.GroupVersion.String() || owner.Kind != "EphemeralRunner" {
		return
	}
	priority := patient
	if status := runnerStatus(pod); status != nil && status.State.Terminated != nil && pod.DeletionTimestamp == nil {
		priority = urgent
	}
	enqueue(q, object, owner.Name, priority)
}

// enqueue adds the runner of that name in the object's namespace. One that waits already keeps the higher priority.
func enqueue(q queue, object client.Object, runner string, priority int) {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: runner}}
	if ordered, is := q.(priorityqueue.PriorityQueue[reconcile.Request]); is {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}
