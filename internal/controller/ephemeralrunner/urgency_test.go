package ephemeralrunner

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
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
		"a pod that has ended":  {func(q queue) { podUpdated(t, q, ended) }, urgent},
		"a runner that is gone": {func(q queue) { runnerEvents().Delete(t.Context(), event.DeleteEvent{Object: newRunner()}, q) }, patient},
		"a new pod":             {func(q queue) { new(urgencies).podEvents().Create(t.Context(), event.CreateEvent{Object: goingAway}, q) }, patient},
		"a pod that is gone":    {func(q queue) { new(urgencies).podEvents().Delete(t.Context(), event.DeleteEvent{Object: goingAway}, q) }, patient},
		"one that goes away":    {func(q queue) { podUpdated(t, q, goingAway) }, patient},
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
	new(urgencies).podEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: pod}, q)
}

// Telling waits for pods that have ended to be seen to, and for its turn.
func TestTellingStandsBack(t *testing.T) {
	var u urgencies
	if u.any() {
		t.Error("telling waits for nothing")
	}
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	ended := podOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	u.podEvents().Create(t.Context(), event.CreateEvent{Object: ended}, q)
	if !u.any() {
		t.Error("telling does not wait for a pod that has ended")
	}
	if u.seenTo(runnerKey); u.any() {
		t.Error("telling waits for a pod that has been seen to")
	}
	var told []func()
	for range tellersAtOnce {
		told = append(told, u.telling())
	}
	if !u.any() {
		t.Errorf("more than %d tell at once", tellersAtOnce)
	}
	if told[0](); u.any() {
		t.Error("telling waits though one has told")
	}
}

// While others wait to be created it goes unsaid that a runner runs, but not for ever.
func TestRunningIsSaidLateInACrowd(t *testing.T) {
	crowded := func(s *situation) { s.crowded = true }
	upSince := func(d time.Duration) func(*situation) { return func(s *situation) { s.up = noon.Add(-d) } }
	runPlanCases(t, map[string]planCase{
		"just up":          {given(podRunning, crowded, upSince(0)), stepWait, crowdPause},
		"up for long":      {given(podRunning, crowded, upSince(crowdPatience)), stepReportRunning, 0},
		"nobody waits":     {given(podRunning, upSince(0)), stepReportRunning, 0},
		"completed by now": {given(podMissing, crowded, completed), stepRemove, 0},
	})
}

// A set whose GitHub hangs has as many calls under way as it may, and more that wait: that is no crowd for another set.
func TestASetWhoseGitHubHangsDelaysNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		group string
		said  bool
	}{
		"another set hangs": {group: "arc-runners/other", said: true},
		"its own set waits": {group: groupOf(newRunner())},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				for range 100 { // more than the pool has places
					f.workers.Go(test.group, func(ctx context.Context) { <-ctx.Done() })
				}
				f.elapse(time.Minute) // all are slow by now
				f.setPod(runs)
				f.setStatus(hasReportedJob)
				f.settle()
				running := f.runner().Status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
				marked := f.pod().Annotations[v1alpha1.AnnotationDoNotDisrupt] != ""
				if running != test.said || marked != test.said {
					t.Errorf("Running is said: %t, the job is protected: %t, want %t", running, marked, test.said)
				}
			}, newRunner())
		})
	}
}

// In a crowd only a runner of whom there is something to tell is looked at again and again.
func TestMarkingWaitsInACrowd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		other := types.NamespacedName{Namespace: namespace, Name: "other"}
		f.controller.urgencies.add(other)
		if again := f.reconcile().RequeueAfter; again != 0 {
			t.Errorf("without a job: looked at again after %s", again)
		}
		f.setStatus(hasReportedJob)
		if again := f.reconcile().RequeueAfter; again != crowdPause || f.pod().Annotations[v1alpha1.AnnotationJobID] != "" {
			t.Errorf("looked at again after %s, annotations %v; want %s, and nothing told", again, f.pod().Annotations, crowdPause)
		}
		f.controller.urgencies.seenTo(other)
		f.reconcile()
		if f.pod().Annotations[v1alpha1.AnnotationJobID] == "" {
			t.Error("the pod is not told of its job")
		}
	}, newRunner())
}

// A pod that has ended occupies its machine also where the watch of runners is late.
func TestAPodThatWaitsForALateCacheStaysUrgent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setStatus(jobDone)
		f.setPod(exits(0))
		written := &f.controller.memories[f.runner().UID].written
		now := *written
		*written = "1000000"
		if result := f.reconcile(); result.RequeueAfter != lateCache || *result.Priority != urgent {
			t.Errorf("got %+v, want an urgent pass in %s", result, lateCache)
		}
		*written = now
		if result := f.reconcile(); *result.Priority != patient {
			t.Errorf("priority %d once the pod is deleted, want %d", *result.Priority, patient)
		}
	}, newRunner())
}
