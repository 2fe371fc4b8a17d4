package ephemeralrunnerset_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// jobPodOf returns a pod of container hooks that has no node.
func jobPodOf(runner string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: setKey.Namespace, Name: runner + "-workflow",
			Labels: map[string]string{v1alpha1.LabelRunnerPod: runner}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/1 nodes are available"}}},
	}
}

// stepPodOf returns the pod of a Job, to which the hooks give no label. They shorten the runner's name.
func stepPodOf(runner string) *corev1.Pod {
	pod := jobPodOf(runner)
	pod.Name, pod.Labels = runner[:min(len(runner), 49)]+"-step-01234567-abcde", nil
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job",
		Controller: new(true)}}
	return pod
}

func (f *fixture) wantPending(when, phrase string) {
	f.Helper()
	c := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionRunnersPending)
	if told := c != nil && c.Status == metav1.ConditionTrue; told != (phrase != "") ||
		(told && (c.Reason != "Unschedulable" || !strings.Contains(c.Message, phrase))) {
		f.Errorf("%s: RunnersPending %+v, want %q", when, c, phrase)
	}
}

// A job's pod that can't run is a reason why jobs wait, although its runner runs.
func TestJobPodsThatWaitAreACondition(t *testing.T) {
	for title, podOf := range map[string]func(string) *corev1.Pod{"job": jobPodOf, "step": stepPodOf} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.reconcile()
				f.bringUp()
				f.reconcile()
				pod, queue := podOf(f.runners()[0].Name), &controllertest.Queue{}
				events := f.controller.JobPodEvents()
				events.Create(t.Context(), event.CreateEvent{Object: pod}, queue)
				events.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, queue)
				if len(queue.Requests) != 1 || queue.Requests[0].NamespacedName != setKey {
					t.Errorf("enqueued %v, want the set once", queue.Requests)
				}
				if after := f.reconcile().RequeueAfter; after <= 0 || after > jobWaitGrace {
					t.Errorf("reconciled again after %s", after)
				}
				f.wantPending("at first", "")
				controllertest.Elapse(jobWaitGrace)
				f.reconcile()
				f.wantPending("after a while",
					"1 job pod waits: 0/1 nodes are available; see kubectl describe pod "+pod.Name)
				events.Delete(t.Context(), event.DeleteEvent{Object: pod}, queue)
				controllertest.Elapse(reportPeriod)
				f.reconcile()
				f.wantPending("when it is gone", "")
			}, newSet(1))
		})
	}
}
