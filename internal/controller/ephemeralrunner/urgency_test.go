package ephemeralrunner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// podOf returns the runner's pod with its runner container in a state.
func podOf(state corev1.ContainerState) *corev1.Pod {
	pod := newPod(newRunner(), 7, "dev")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runner", State: state}}
	return pod
}

func TestWhatAJobOrAMachineWaitsForIsUrgent(t *testing.T) {
	ended := podOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	goingAway := ended.DeepCopy()
	goingAway.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, test := range map[string]struct {
		tell func(queue)
		want int
	}{
		"a new runner":      {func(q queue) { runnerEvents().Create(t.Context(), event.CreateEvent{Object: newRunner()}, q) }, urgent},
		"a runner's status": {func(q queue) { updated(t, q, newRunner(), newRunner()) }, patient},
		"a pod that runs": {func(q queue) {
			podUpdated(t, q, podOf(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
		}, patient},
		"a pod that has ended": {func(q queue) { podUpdated(t, q, ended) }, urgent},
		"one that goes away":   {func(q queue) { podUpdated(t, q, goingAway) }, patient},
	} {
		t.Run(name, func(t *testing.T) {
			q := priorityqueue.New[reconcile.Request]("test")
			defer q.ShutDown()
			test.tell(q)
			request, priority, _ := q.GetWithPriority()
			if request.NamespacedName != runnerKey || priority != test.want {
				t.Errorf("got %s with priority %d, want %s with %d", request, priority, runnerKey, test.want)
			}
		})
	}
}

func updated(t *testing.T, q queue, before, after client.Object) {
	t.Helper()
	before.SetResourceVersion("1")
	after.SetResourceVersion("2")
	runnerEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
}

func podUpdated(t *testing.T, q queue, pod *corev1.Pod) {
	t.Helper()
	before := pod.DeepCopy()
	before.ResourceVersion = "1"
	podEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: pod}, q)
}

// While others wait to be created it goes unsaid that a runner runs, but not for ever.
func TestRunningIsSaidLateInACrowd(t *testing.T) {
	crowded := func(s *situation) { s.crowded = true }
	upSince := func(d time.Duration) func(*situation) { return func(s *situation) { s.up = noon.Add(-d) } }
	runPlanCases(t, map[string]planCase{
		"just up":          {given(podRunning, crowded, upSince(0)), wait, crowdPause},
		"up for long":      {given(podRunning, crowded, upSince(crowdPatience)), reportRunning, 0},
		"nobody waits":     {given(podRunning, upSince(0)), reportRunning, 0},
		"completed by now": {given(podMissing, crowded, completed), remove, 0},
	})
}
