package jobpods

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// jobPodOf returns a pod of container hooks that has no node.
func jobPodOf(runner string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: runner + "-workflow",
			Labels: map[string]string{v1alpha1.LabelRunnerPod: runner}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/1 nodes are available"}}},
	}
}

// Neither runners nor listeners are taken for pods of jobs, whatever their labels.
func TestOtherPodsAreNotThoseOfJobs(t *testing.T) {
	pods, q := New(clock.RealClock{}), &controllertest.Queue{}
	events := pods.Events(func(reconcile.Queue, types.NamespacedName) {})
	for _, kind := range []string{"EphemeralRunner", "AutoscalingListener", "ReplicaSet"} {
		pod := jobPodOf("set-runner-abcde")
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: new(true)}}
		events.Create(t.Context(), event.CreateEvent{Object: pod}, q)
	}
	if len(pods.waiting) > 0 {
		t.Errorf("counted: %v", pods.waiting)
	}
}

// A workflow may create as many pods under its runner's label as it likes.
func TestWaitingPodsOfARunnerAreLimited(t *testing.T) {
	pods, q := New(clock.RealClock{}), &controllertest.Queue{}
	events := pods.Events(func(reconcile.Queue, types.NamespacedName) {})
	for i := range 3 * jobPodsPerRunner {
		pod := jobPodOf("set-runner-abcde")
		pod.Name = fmt.Sprintf("pod-%d", i)
		events.Create(t.Context(), event.CreateEvent{Object: pod}, q)
	}
	for _, kept := range pods.waiting {
		if len(kept) != jobPodsPerRunner {
			t.Errorf("%d are kept, want %d", len(kept), jobPodsPerRunner)
		}
	}
}

func TestJobPodsForgetWhatIsGone(t *testing.T) {
	pods, q := New(clock.RealClock{}), &controllertest.Queue{}
	events, pod := pods.Events(func(reconcile.Queue, types.NamespacedName) {}), jobPodOf("set-runner-abcde")
	events.Create(t.Context(), event.CreateEvent{Object: pod}, q)
	if len(pods.waiting) != 1 {
		t.Fatalf("kept: %v, want the pod that waits", pods.waiting)
	}
	if events.Delete(t.Context(), event.DeleteEvent{Object: pod}, q); len(pods.waiting) > 0 {
		t.Errorf("kept: %v", pods.waiting)
	}
}
