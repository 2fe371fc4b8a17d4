package ephemeralrunner

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/harrier-ci/harrier/internal/reconcile"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// podOf returns the runner's pod with its runner container in the given state.
func podOf(state corev1.ContainerState) *corev1.Pod {
	pod := newPod(newRunner(), 7, "dev")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runner", State: state}}
	return pod
}

func TestWhatAJobOrAMachineWaitsForHasHighPriority(t *testing.T) {
	ended := podOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	goingAway := ended.DeepCopy()
	goingAway.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, test := range map[string]struct {
		send func(reconcile.Queue)
		want int
	}{
		"a new runner": {func(q reconcile.Queue) {
			NewController(Options{}).runnerEvents().Create(t.Context(), event.CreateEvent{Object: newRunner()}, q)
		}, priorityHigh},
		"a runner's status": {func(q reconcile.Queue) { updated(t, q, newRunner(), newRunner()) }, priorityLow},
		"a pod that runs": {func(q reconcile.Queue) {
			podUpdated(t, q, podOf(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
		}, priorityLow},
		"a pod that has ended": {func(q reconcile.Queue) { podUpdated(t, q, ended) }, priorityHigh},
		"a runner that is gone": {func(q reconcile.Queue) {
			NewController(Options{}).runnerEvents().Delete(t.Context(), event.DeleteEvent{Object: newRunner()}, q)
		}, priorityLow},
		"a new pod": {func(q reconcile.Queue) {
			NewController(Options{}).podEvents().Create(t.Context(), event.CreateEvent{Object: goingAway}, q)
		}, priorityLow},
		"a pod that is gone": {func(q reconcile.Queue) {
			NewController(Options{}).podEvents().Delete(t.Context(), event.DeleteEvent{Object: goingAway}, q)
		}, priorityLow},
		"one that goes away": {func(q reconcile.Queue) { podUpdated(t, q, goingAway) }, priorityLow},
	} {
		t.Run(name, func(t *testing.T) {
			q := priorityqueue.New[ctrl.Request]("test")
			defer q.ShutDown()
			test.send(q)
			request, priority, _ := q.GetWithPriority()
			if request.NamespacedName != runnerKey || priority != test.want {
				t.Errorf("got %s with priority %d, want %s with %d", request, priority, runnerKey, test.want)
			}
		})
	}
}

func updated(t *testing.T, q reconcile.Queue, before, after client.Object) {
	t.Helper()
	before.SetResourceVersion("1")
	after.SetResourceVersion("2")
	NewController(Options{}).runnerEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after},
		q)
}

func podUpdated(t *testing.T, q reconcile.Queue, pod *corev1.Pod) {
	t.Helper()
	before := pod.DeepCopy()
	before.ResourceVersion = "1"
	NewController(Options{}).podEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: pod}, q)
}

// A pod that has ended occupies its machine even if the watch of runners is late.
func TestAPodThatWaitsForALateCacheKeepsHighPriority(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setStatus(jobDone)
		f.setPod(exits(0))
		written := &f.controller.reconciler.MemoryOf(f.runner()).writtenVersion
		now := *written
		*written = "1000000"
		if result := f.reconcile(); result.RequeueAfter != staleInterval || *result.Priority != priorityHigh {
			t.Errorf("got %+v, want a pass with high priority in %s", result, staleInterval)
		}
		*written = now
		if result := f.reconcile(); *result.Priority != priorityLow {
			t.Errorf("priority %d once the pod is deleted, want %d", *result.Priority, priorityLow)
		}
	}, newRunner())
}
