package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// requestTime is how long a request of a fault's may take: on a busy machine, and with an API server that etcd has just
	// come back to, which it may notice seconds later for one kind than for another.
	requestTime = 30 * time.Second
	// busyWithin is how long a question waits for a runner with a job to ask about.
	busyWithin = 10 * time.Second
)

// deleteRunners deletes runner objects by hand, with and without a job. Only what has no job may stop for that.
func (w *world) deleteRunners(f fault) {
	busy := w.busyRunners()
	victims := append(w.some(w.observer.runnerPods(), f.percent), busy[:min(1, len(busy))]...)
	w.logf("deleted: %v, with a job: %v", victims, busy)
	w.deleteAll(&v1alpha1.EphemeralRunner{}, victims)
}

// newTemplate replaces idle runners while nobody in the cluster knows which ones have a job.
func (w *world) newTemplate(fault) {
	busy := w.busyRunners()
	w.logf("told no more of their jobs: %v", busy)
	w.loseReports(busy)
	w.patchSet(`{"spec": {"template": {"metadata": {"annotations": {"chaos": "changed"}}}}}`)
}

// lowerMaximum makes more runners than wanted of those that have a job nobody in the cluster knows about.
func (w *world) lowerMaximum(f fault) {
	busy := w.busyRunners()
	w.logf("told no more of their jobs: %v", busy)
	w.loseReports(busy)
	w.patchSet(fmt.Sprintf(`{"spec": {"maxRunners": %d}}`, max(1, w.schedule.minRunners)))
	w.pause(f.lasts)
	w.patchSet(fmt.Sprintf(`{"spec": {"maxRunners": %d}}`, w.schedule.maxRunners))
}

// busyRunners are those that GitHub has given a job.
func (w *world) busyRunners() []types.NamespacedName {
	var busy []types.NamespacedName
	w.await(busyWithin, func() bool {
		for _, runner := range w.rig.GitHub.Snapshot().Runners {
			if runner.Busy {
				busy = append(busy, types.NamespacedName{Namespace: w.rig.RunnerNamespace, Name: runner.Name})
			}
		}
		return len(busy) > 0
	})
	return busy
}

// loseReports takes from the runners' status what the listener has written into it.
func (w *world) loseReports(runners []types.NamespacedName) {
	const lost = `{"status": {"jobId": null, "jobRequestId": null}}`
	for _, name := range runners {
		runner := &v1alpha1.EphemeralRunner{}
		runner.Namespace, runner.Name = name.Namespace, name.Name
		w.request(func(ctx context.Context) error {
			return w.cluster.Client().Status().Patch(ctx, runner, client.RawPatch(types.MergePatchType, []byte(lost)))
		})
	}
}

// patchSet changes the scale set.
func (w *world) patchSet(patch string) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	set.Namespace, set.Name = w.rig.RunnerNamespace, rig.DefaultSet
	w.request(func(ctx context.Context) error {
		return w.cluster.Client().Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(patch)))
	})
}

// deletePods deletes pods of runners, with their grace period.
func (w *world) deletePods(f fault) {
	victims := w.some(w.observer.runnerPods(), f.percent)
	w.logf("deleted: %v", victims)
	if f.variant == podsPreempted {
		w.preempt(victims)
	}
	w.take(victims)
	w.deleteAll(&corev1.Pod{}, victims)
	w.take(victims) // they got jobs for as long as the API server was away
}

// preempt says of pods what the scheduler says before it deletes them.
func (w *world) preempt(pods []types.NamespacedName) {
	const target = `{"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}`
	for _, name := range pods {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = name.Namespace, name.Name
		w.request(func(ctx context.Context) error {
			return w.cluster.Client().Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(target)))
		})
	}
}

// deleteAll deletes objects of a kind.
func (w *world) deleteAll(kind client.Object, names []types.NamespacedName, options ...client.DeleteOption) {
	for _, name := range names {
		kind.SetNamespace(name.Namespace)
		kind.SetName(name.Name)
		w.request(func(ctx context.Context) error { return w.cluster.Client().Delete(ctx, kind, options...) })
	}
}

// request makes a request of a fault's own, once no other fault holds the API server. What it is about may have gone. An API
// server that is ready again has a connection to etcd for each kind, and refuses writes until that of the kind is back, too.
func (w *world) request(do func(context.Context) error) {
	w.apiServer.Lock()
	defer w.apiServer.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), requestTime)
	defer cancel()
	err := do(ctx)
	for unavailable(err) && wait(ctx, lookInterval) {
		err = do(ctx)
	}
	if client.IgnoreNotFound(err) != nil {
		w.errorf("%v", err)
	}
}

// unavailable reports whether the API server has answered that it can't do what it was asked for.
func unavailable(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError
}
