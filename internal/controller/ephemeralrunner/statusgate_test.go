package ephemeralrunner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Reports wait until pods that have ended are handled, and while enough passes are writing.
func TestStatusGateHoldsReportsBack(t *testing.T) {
	var gate statusGate
	if gate.closed() {
		t.Error("the gate is closed for nothing")
	}
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	ended := podOf(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	podEvents(&gate, new(removedPods)).Create(t.Context(), event.CreateEvent{Object: ended}, q)
	if !gate.closed() {
		t.Error("the gate is open though a pod has ended")
	}
	if gate.handled(runnerKey); gate.closed() {
		t.Error("the gate is closed for a pod that was handled")
	}
	var leave []func()
	for range maxStatusWrites {
		leave = append(leave, gate.enter())
	}
	if !gate.closed() {
		t.Errorf("the gate is open though %d passes are writing", maxStatusWrites)
	}
	if leave[0](); gate.closed() {
		t.Error("the gate is closed though one has left")
	}
}

// While others wait to be created, the report that a runner runs is deferred. Once its job has ended, so will its pod.
func TestRunningIsReportedLateWhileOthersWait(t *testing.T) {
	deferred := func(o *observation) { o.deferStatus = true }
	completedFor := func(d time.Duration) func(*observation) {
		return func(o *observation) {
			completed(o)
			o.runner.Status.FinishedAt = &metav1.Time{Time: noon.Add(-d)}
		}
	}
	recheckAfter := statusRecheckAt(given(podRunning).runner, noon).Sub(noon)
	runPlanCases(t, map[string]planCase{
		"others wait":       {given(podRunning, deferred), stepWait, recheckAfter},
		"nobody waits":      {given(podRunning), stepReportRunning, 0},
		"completed by now":  {given(podMissing, deferred, completed), stepDeleteRunner, 0},
		"about to end":      {given(podRunning, completedFor(time.Second)), stepWait, resultAfter - time.Second},
		"should have ended": {given(podRunning, completedFor(resultAfter)), stepReportRunning, 0},
	})
}

func TestReportsAreDeferredLessTheLongerARunnerIsUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		gate := &f.controller.statusGate
		deferred := func(up time.Duration) bool { return f.controller.deferStatus(newRunner(), up) }
		gate.podEnded(types.NamespacedName{Namespace: namespace, Name: "other"})
		if !deferred(0) || deferred(maxStatusDelay) {
			t.Errorf("deferred while an ended pod waits: %t, and %t after %s; want only the first", deferred(0), deferred(maxStatusDelay), maxStatusDelay)
		}
		for range maxStatusWrites {
			gate.enter()
		}
		if !deferred(maxStatusDelay) || deferred(2*maxStatusDelay) {
			t.Errorf("deferred while others write: %t after %s, %t after twice that; want only the first", deferred(maxStatusDelay), maxStatusDelay, deferred(2*maxStatusDelay))
		}
	}, newRunner())
}

func TestDeferredReportsAreReconsideredApart(t *testing.T) {
	seen := map[time.Time]int{}
	for i := range 1000 {
		at := statusRecheckAt(newRunner(func(r *v1alpha1.EphemeralRunner) { r.UID = types.UID(fmt.Sprint("uid-", i)) }), noon)
		if after := at.Sub(noon); after < statusRecheckPeriod || after >= 2*statusRecheckPeriod {
			t.Fatalf("reconsidered after %s", after)
		}
		seen[at.Truncate(100*time.Millisecond)]++
	}
	for at, runners := range seen {
		if runners > 200 {
			t.Errorf("%d of 1000 runners are reconsidered within 100 ms of %s", runners, at)
		}
	}
}

// A set whose GitHub hangs has as many calls under way as it may, and more that wait: no other set must wait for them.
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
				annotated := f.pod().Annotations[v1alpha1.AnnotationDoNotDisrupt] != ""
				if running != test.said || annotated != test.said {
					t.Errorf("Running is reported: %t, the job is protected: %t, want %t", running, annotated, test.said)
				}
			}, newRunner())
		})
	}
}

// While the gate is closed, only a runner that has something to report is requeued again and again.
func TestJobMetadataWaitsForTheStatusGate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		other := types.NamespacedName{Namespace: namespace, Name: "other"}
		f.controller.statusGate.podEnded(other)
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != 0 {
			t.Errorf("without a job: requeued after %s", requeueAfter)
		}
		f.setStatus(hasReportedJob)
		want := statusRecheckAt(f.runner(), time.Time{}).Sub(time.Time{})
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != want || f.pod().Annotations[v1alpha1.AnnotationJobID] != "" {
			t.Errorf("requeued after %s, annotations %v; want %s, and no job", requeueAfter, f.pod().Annotations, want)
		}
		f.controller.statusGate.handled(other)
		f.reconcile()
		if f.pod().Annotations[v1alpha1.AnnotationJobID] == "" {
			t.Error("the pod does not get its job")
		}
	}, newRunner())
}
