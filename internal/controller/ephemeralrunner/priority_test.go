package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// podOf returns a runner's pod with its runner container in the given state.
func podOf(runner *v1alpha1.EphemeralRunner, state corev1.ContainerState) *corev1.Pod {
	pod := newPod(runner, 7, "dev")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runner", State: state}}
	return pod
}

// endedPod returns a runner's pod that has ended.
func endedPod(runner *v1alpha1.EphemeralRunner) *corev1.Pod {
	return podOf(runner, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
}

// another returns a runner that the API server doesn't know.
func another(name string) *v1alpha1.EphemeralRunner {
	return newRunner(func(r *v1alpha1.EphemeralRunner) { r.Name = name })
}

// A pass with high priority overtakes one with low priority that is queued before it.
func TestWhatAJobOrAMachineWaitsForHasHighPriority(t *testing.T) {
	ended := endedPod(newRunner())
	goingAway := ended.DeepCopy()
	goingAway.DeletionTimestamp = &metav1.Time{Time: noon}
	runningPod := podOf(newRunner(), corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	for name, test := range map[string]struct {
		happens func(*controllertest.Started)
		high    bool
	}{
		"a new runner":          {func(s *controllertest.Started) { s.Added(newRunner()) }, true},
		"a runner's status":     {func(s *controllertest.Started) { s.Updated(newRunner(), newRunner()) }, false},
		"a job's start":         {func(s *controllertest.Started) { s.Updated(newRunner(), newRunner(startJob)) }, true},
		"a pod that runs":       {func(s *controllertest.Started) { s.Updated(runningPod, runningPod) }, false},
		"a pod that has ended":  {func(s *controllertest.Started) { s.Updated(ended, ended) }, true},
		"a runner that is gone": {func(s *controllertest.Started) { s.Deleted(newRunner()) }, false},
		"a new pod":             {func(s *controllertest.Started) { s.Added(goingAway) }, false},
		"a pod that is gone":    {func(s *controllertest.Started) { s.Deleted(goingAway) }, false},
		"one that goes away":    {func(s *controllertest.Started) { s.Updated(goingAway, goingAway) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				started := f.start()
				order := func(events ...func()) (first, second client.ObjectKey) {
					started.Added(another("first")) // whose pass keeps the only worker until its turn
					for _, happens := range events {
						happens()
					}
					started.Next()
					first, _ = started.Next()
					second, _ = started.Next()
					return first, second
				}
				happens := func() { test.happens(started) }
				low := func() { started.Updated(another("low"), another("low")) }
				high := func() { started.Updated(endedPod(another("high")), endedPod(another("high"))) }
				if first, second := order(low, happens); (first == runnerKey) != test.high || (second == runnerKey) == test.high {
					t.Errorf("%s, then %s; want the runner first: %t", first, second, test.high)
				}
				if first, second := order(happens, high); (first == runnerKey) != test.high || (second == runnerKey) == test.high {
					t.Errorf("%s, then %s; want the runner first: %t", first, second, test.high)
				}
			})
		})
	}
}

// A pod that has ended occupies its machine even if the watch of runners is late.
func TestAPodThatWaitsForALateCacheKeepsHighPriority(t *testing.T) {
	const high, low = 0, -1 // that of a pass which nothing else is said of, and less
	inBubble(t, func(f *fixture) {
		f.settle()
		before := f.runner()
		f.setPod(runs)
		f.settle()
		f.setStatus(jobDone)
		f.setPod(exits(0))
		f.cache.Client = staleCache{recordingAPI: f.api, runner: before}
		if result := f.reconcile(); result.RequeueAfter != 2*time.Second || *result.Priority != high {
			t.Errorf("got %+v, want a pass with high priority in 2 s", result)
		}
		f.cache.Client = f.api
		if result := f.reconcile(); *result.Priority != low {
			t.Errorf("priority %d once the pod is deleted, want %d", *result.Priority, low)
		}
	}, newRunner())
}
