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
	// requestTime is how long a request that a fault makes may take. It allows for a busy machine and for an API server that has
	// just got etcd back, which it may notice seconds later for some kinds than for others.
	requestTime = 30 * time.Second
	// busyWithin is how long a fault waits until a runner has a job.
	busyWithin = 10 * time.Second
)

// deleteRunners deletes runner objects as an operator would, including one with a job if there is any. Only runners without a job
// may stop because of that.
func (w *world) deleteRunners(f fault) {
	busy := w.busyRunners()
	victims := append(w.some(w.observer.runnerPods(), f.percent), busy[:min(1, len(busy))]...)
	w.logf("deleted: %v, with a job: %v", victims, busy)
	w.deleteAll(&v1alpha1.EphemeralRunner{}, victims)
}

// newTemplate changes the pod template, so that idle runners are replaced, while nothing in the cluster says which runners have a
// job.
func (w *world) newTemplate(fault) {
	busy := w.busyRunners()
	w.logf("reports of their jobs lost: %v", busy)
	w.loseReports(busy)
	w.patchSet(`{"spec": {"template": {"metadata": {"annotations": {"chaos": "changed"}}}}}`)
}

// lowerMaximum lowers maxRunners for a while, so that there are more runners than wanted, while nothing in the cluster says which
// ones have a job.
func (w *world) lowerMaximum(f fault) {
	busy := w.busyRunners()
	w.logf("reports of their jobs lost: %v", busy)
	w.loseReports(busy)
	w.patchSet(fmt.Sprintf(`{"spec": {"maxRunners": %d}}`, max(1, w.schedule.minRunners)))
	w.pause(f.lasts)
	w.patchSet(fmt.Sprintf(`{"spec": {"maxRunners": %d}}`, w.schedule.maxRunners))
}

// closeSet sets maxRunners to 0 for a while, during which jobs are queued.
func (w *world) closeSet(f fault) {
	w.patchSet(`{"spec": {"minRunners": 0, "maxRunners": 0}}`)
	w.pause(f.lasts)
	w.logf("sessions at the end of the closure: %d", len(w.rig.GitHub.Snapshot().Sessions))
	w.patchSet(fmt.Sprintf(`{"spec": {"minRunners": %d, "maxRunners": %d}}`, w.schedule.minRunners, w.schedule.maxRunners))
}

// refuseImage lets GitHub refuse the version of every runner that starts, so that the set creates no more, until the image is replaced.
func (w *world) refuseImage(f fault) {
	w.rig.GitHub.DeprecateRunnerVersion("*", true)
	w.pause(f.lasts)
	w.rig.GitHub.DeprecateRunnerVersion("*", false)
	w.patchSet(`{"spec": {"template": {"metadata": {"annotations": {"chaos-image": "newer"}}}}}`)
}

// busyRunners returns the runners that have a job on GitHub. It waits up to busyWithin until there is one.
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

// loseReports removes from the runners' status what the listener has reported of their jobs.
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

// deletePods deletes runner pods with their grace period.
func (w *world) deletePods(f fault) {
	victims := w.some(w.observer.runnerPods(), f.percent)
	w.logf("deleted: %v", victims)
	if f.variant == podsPreempted {
		w.preempt(victims)
	}
	w.take(victims)
	w.deleteAll(&corev1.Pod{}, victims)
	w.take(victims) // once more: while the API server was away they still got jobs
}

// preempt sets the condition that the scheduler sets before it deletes pods.
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

// deleteAll deletes the named objects of a kind.
func (w *world) deleteAll(kind client.Object, names []types.NamespacedName, options ...client.DeleteOption) {
	for _, name := range names {
		kind.SetNamespace(name.Namespace)
		kind.SetName(name.Name)
		w.request(func(ctx context.Context) error { return w.cluster.Client().Delete(ctx, kind, options...) })
	}
}

// request makes a request for a fault, once no other fault keeps the API server away. It is no error if the object is gone. An
// API server has a connection to etcd for each kind: after an outage it may call itself ready and still fail requests for a kind
// whose connection is not back yet, so these are repeated.
func (w *world) request(do func(context.Context) error) {
	w.apiServer.Lock()
	defer w.apiServer.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), requestTime)
	defer cancel()
	err := do(ctx)
	for unavailable(err) && rig.Wait(ctx, lookInterval) {
		err = do(ctx)
	}
	if client.IgnoreNotFound(err) != nil {
		w.errorf("%v", err)
	}
}

// unavailable reports whether the API server has answered with a server error (5xx).
func unavailable(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError
}
