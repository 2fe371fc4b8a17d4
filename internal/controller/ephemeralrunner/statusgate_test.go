package ephemeralrunner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A set whose GitHub hangs has as many calls under way as it may, and more that wait: no other set must wait for them.
func TestASetWhoseGitHubHangsDelaysNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		group string
		said  bool
	}{
		"another set hangs": {group: "arc-runners/other", said: true},
		"its own set waits": {group: kube.ScaleSetOf(newRunner()).String()},
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
				if running := f.runner().Status.Phase == v1alpha1.EphemeralRunnerPhaseRunning; running != test.said {
					t.Errorf("Running is reported: %t, want %t", running, test.said)
				}
				f.wantBusy("whoever hangs", true)
			}, newRunner())
		})
	}
}

// While the gate is closed, only a runner that has something to report is requeued again and again. That its job has
// started is never held back, because that protects the job.
func TestOnlyTheEndOfAJobWaitsForTheStatusGate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		started := f.start()
		started.Added(endedPod(another("other"))) // its pass has to wait for its turn
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != mark.IdleAfter {
			t.Errorf("without a job: requeued after %s, want %s", requeueAfter, mark.IdleAfter)
		}
		f.setStatus(startJob)
		f.reconcile()
		f.wantBusy("at the start of the job", true)
		f.setStatus(endJob(time.Time{}))
		want := mark.RecheckAt(f.runner(), time.Time{}).Sub(time.Time{})
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != want {
			t.Errorf("requeued after %s, want %s", requeueAfter, want)
		}
		f.wantBusy("while the gate is closed", true)
		if handled, _ := started.Next(); handled.Name != "other" {
			t.Fatalf("a pass of %s, want one of the other runner", handled)
		}
		f.reconcile()
		f.wantBusy("at the end of the job", false)
	}, newRunner())
}

// Five hundred jobs start together, when a thousand reports about other runners are overdue, which alone take 2.5 s:
// each write takes the API server 60 ms. The PodDisruptionBudget covers every one of the jobs 2 s later.
func TestEveryPodOfABurstIsMarkedWithinTwoSeconds(t *testing.T) {
	const burst, others, latency, atMost = 500, 1000, 60 * time.Millisecond, 2 * time.Second
	inBubble(t, func(f *fixture) {
		var runners []client.Object
		objects := []client.Object{newSet(), controllertest.Origin(newSet())}
		for i := range burst + others {
			runner, pod := runningRunner(i)
			runners, objects = append(runners, runner), append(objects, runner, pod)
		}
		f.api.WithWatch = controllertest.NewKubernetes().
			WithStatusSubresource(&v1alpha1.EphemeralRunner{}, &corev1.Pod{}).WithObjects(objects...).Build()
		// as many as the manager has, and one that is stuck
		f.configure(func(o *ephemeralrunner.Options) { o.Workers = 24 + 1 })
		started := f.start()
		started.Added(endedPod(another("other"))) // which keeps the gate closed
		for _, other := range runners[burst:] {
			// its report waits for the gate
			controllertest.Reconcile(t, f.controller, client.ObjectKeyFromObject(other))
		}
		f.elapse(2 * mark.DeferTimeout)
		for _, other := range runners[burst:] {
			started.Updated(other, other)
		}
		f.api.latency = latency
		for _, before := range runners[:burst] {
			after := &v1alpha1.EphemeralRunner{}
			if !controllertest.Read(t, f.api.WithWatch, client.ObjectKeyFromObject(before), after) {
				t.Fatal("the runner is gone")
			}
			startJob(after)
			if err := f.api.WithWatch.Status().Update(t.Context(), after); err != nil {
				t.Fatal(err)
			}
			started.Updated(before, after)
		}
		started.Free("other")
		f.elapse(atMost)
		var pods corev1.PodList
		if err := f.api.WithWatch.List(t.Context(), &pods,
			client.MatchingLabels{v1alpha1.LabelRunnerBusy: "true"}); err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) != burst {
			t.Errorf("%d of %d pods are marked after %s", len(pods.Items), burst, atMost)
		}
	})
}

// runningRunner returns a runner whose pod runs, and the pod.
func runningRunner(i int) (*v1alpha1.EphemeralRunner, *corev1.Pod) {
	runner := newRunner(func(r *v1alpha1.EphemeralRunner) {
		r.Name, r.UID = fmt.Sprint("set-runner-", i), types.UID(fmt.Sprint("runner-", i))
	})
	pod := newPod(runner, i+1, "1.2.3")
	pod.UID = types.UID(fmt.Sprint("pod-", i))
	runs(pod)
	return runner, pod
}
