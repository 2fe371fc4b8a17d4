package jobpods_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/jobpods"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
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

// inBubble runs a test with pods whose clock is the bubble's, and with the handler of their watch. kept returns the
// number of the runner's pods that can't run and are kept: they are told of after half a minute.
func inBubble(t *testing.T, test func(t *testing.T, events handler.EventHandler, kept func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pods := jobpods.New(clock.RealClock{})
		test(t, pods.Events(func(reconcile.Queue, types.NamespacedName) {}), func() int {
			controllertest.Elapse(30 * time.Second)
			waits, _ := pods.Of("arc-runners", []*roster.Runner{{Name: "set-runner-abcde"}})
			return len(waits)
		})
	})
}

// Neither runners nor listeners are taken for pods of jobs, whatever their labels.
func TestOtherPodsAreNotThoseOfJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, events handler.EventHandler, kept func() int) {
		for _, kind := range []string{"EphemeralRunner", "AutoscalingListener", "ReplicaSet"} {
			pod := jobPodOf("set-runner-abcde")
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: new(true)}}
			events.Create(t.Context(), event.CreateEvent{Object: pod}, nil)
			if count := kept(); count > 0 {
				t.Errorf("%s: its pod is taken for that of a job", kind)
			}
		}
	})
}

// A workflow may create as many pods under its runner's label as it likes. Ten are kept.
func TestWaitingPodsOfARunnerAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T, events handler.EventHandler, kept func() int) {
		for i := range 30 {
			pod := jobPodOf("set-runner-abcde")
			pod.Name = fmt.Sprintf("pod-%d", i)
			events.Create(t.Context(), event.CreateEvent{Object: pod}, nil)
		}
		if count := kept(); count != 10 {
			t.Errorf("%d are kept, want 10", count)
		}
	})
}

func TestJobPodsForgetWhatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, events handler.EventHandler, kept func() int) {
		pod := jobPodOf("set-runner-abcde")
		events.Create(t.Context(), event.CreateEvent{Object: pod}, nil)
		if count := kept(); count != 1 {
			t.Fatalf("%d are kept, want the pod that waits", count)
		}
		if events.Delete(t.Context(), event.DeleteEvent{Object: pod}, nil); kept() > 0 {
			t.Error("it is kept though it is gone")
		}
	})
	events := jobpods.New(clock.RealClock{}).Events(func(reconcile.Queue, types.NamespacedName) {})
	controllertest.WantNothingLeft(t, func(i int) {
		pod := jobPodOf(fmt.Sprint("set-runner-", i))
		events.Create(t.Context(), event.CreateEvent{Object: pod}, nil)
		events.Delete(t.Context(), event.DeleteEvent{Object: pod}, nil)
	})
}
