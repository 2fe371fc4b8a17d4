package ephemeralrunner

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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

// priority is that of a pass which nothing but time brings about. A pod that has ended may have to wait for a late cache.
func (p *pass) priority() int {
	if p.podStays() && hasEnded(p.pod) {
		return urgent
	}
	return patient
}

// hasEnded says that the runner's container has ended.
func hasEnded(pod *corev1.Pod) bool {
	status := runnerStatus(pod)
	return status != nil && status.State.Terminated != nil
}

// tellersAtOnce is about how many passes at once may write what only tells: each looks before it counts. An API server
// that is given as much of it as it can take delivers its watches late: with 32 at once on two cores pods were seen to
// have ended 5 s after they had.
const tellersAtOnce = 4

// urgencies are what stands before telling: the runners whose pods have ended and that no pass has seen to since, and
// those who are telling already.
type urgencies struct {
	mu      sync.Mutex
	ended   sets.Set[types.NamespacedName]
	tellers int
}

// telling counts a pass that tells, until the returned function is called.
func (u *urgencies) telling() (told func()) {
	count := func(change int) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.tellers += change
	}
	count(1)
	return func() { count(-1) }
}

func (u *urgencies) add(runner types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		u.ended = sets.New[types.NamespacedName]()
	}
	u.ended.Insert(runner)
}

// seenTo takes a runner out at the end of its pass.
func (u *urgencies) seenTo(runner types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended.Delete(runner)
}

// any says that telling has to wait.
func (u *urgencies) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended.Len() > 0 || u.tellers >= tellersAtOnce
}

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
func (u *urgencies) podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { u.enqueueOwner(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { u.enqueueOwner(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { u.enqueueOwner(q, e.Object) },
	}
}

func (u *urgencies) enqueueOwner(q queue, object client.Object) {
	owner := metav1.GetControllerOf(object)
	pod, isPod := object.(*corev1.Pod)
	if owner == nil || !isPod || owner.APIVersion != v1alpha1.GroupVersion.String() || owner.Kind != "EphemeralRunner" {
		return
	}
	priority := patient
	if hasEnded(pod) && pod.DeletionTimestamp == nil {
		priority = urgent
		u.add(types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name})
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
