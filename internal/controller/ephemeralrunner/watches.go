package ephemeralrunner

import (
	"context"
	"sync"

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
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// Priorities of a pass. Every pass writes, and in a burst everything waits for the API server. So a pass comes first if a job
// waits for it or needs its protection, or a machine that a finished pod still occupies; a pass that only reports something or
// tidies up comes later.
const (
	priorityHigh = 0
	priorityLow  = -1
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// runnerEvents enqueues runners, with high priority if they are new or their job has just been reported.
func runnerEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			enqueue(q, e.Object, e.Object.GetName(), priorityHigh)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			priority := priorityLow
			before, isRunner := e.ObjectOld.(*v1alpha1.EphemeralRunner)
			after, _ := e.ObjectNew.(*v1alpha1.EphemeralRunner)
			if isRunner && after != nil && after.Status.JobRunning() && !before.Status.JobRunning() {
				priority = priorityHigh
			}
			enqueue(q, e.ObjectNew, e.ObjectNew.GetName(), priority)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			enqueue(q, e.Object, e.Object.GetName(), priorityLow)
		},
	}
}

// podEvents enqueues the runners of pods, with high priority if the pod has ended, and then informs the gate as well. The last state
// of a pod that is gone is kept for the next pass.
func podEvents(gate *mark.Gate, removed *removedPods) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueueOwner(q, e.Object, gate) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueueOwner(q, e.ObjectNew, gate) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			removed.keep(e.Object)
			enqueueOwner(q, e.Object, gate)
		},
	}
}

func enqueueOwner(q queue, object client.Object, gate *mark.Gate) {
	owner := metav1.GetControllerOf(object)
	pod, isPod := object.(*corev1.Pod)
	if isPod && remains.MayBeAbandoned(pod) {
		enqueue(q, object, pod.Name, priorityLow) // a runner of that name is not its owner, but goes first
	}
	if !isPod || !isRunner(owner) {
		return
	}
	priority := priorityLow
	if podstatus.HasEnded(pod, v1alpha1.RunnerContainerName) && pod.DeletionTimestamp == nil {
		priority = priorityHigh
		gate.PodEnded(types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name})
	}
	enqueue(q, object, owner.Name, priority)
}

// isRunner reports whether an owner, which may be nil, is a runner of this API: anybody may give a pod another one of that kind.
func isRunner(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "EphemeralRunner"
}

// enqueue adds the runner of that name in the object's namespace. A runner that is queued already keeps the higher priority.
func enqueue(q queue, object client.Object, runner string, priority int) {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: runner}}
	if ordered, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}

// removedPods holds the last state of pods that are gone, by their runners, until the next pass: the cache no longer has them, and
// several events may lead to one pass. Safe for concurrent use.
type removedPods struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*corev1.Pod
}

// keep keeps the last state of a runner's pod.
func (r *removedPods) keep(object client.Object) {
	pod, isPod := object.(*corev1.Pod)
	owner := metav1.GetControllerOfNoCopy(object)
	if !isPod || !isRunner(owner) {
		return // nobody would take it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.NamespacedName]*corev1.Pod{}
	}
	r.pods[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}] = pod
}

// take returns the last state of the runner's pod and forgets it. It returns nil if one is present, or if that pod was deleted
// at the controller's request.
func (r *removedPods) take(runner *v1alpha1.EphemeralRunner, present *corev1.Pod, known *lastPod) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(runner)
	pod := r.pods[name]
	delete(r.pods, name)
	if pod == nil || present != nil || !metav1.IsControlledBy(pod, runner) || known.deleted || known.uid != "" && known.uid != pod.UID {
		return nil
	}
	return pod
}

// drop forgets the pod of a runner that is gone.
func (r *removedPods) drop(runner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, runner)
}
