package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// A fault gives up a request after requestTime, which allows for a busy machine and for an API server that has just
	// got etcd back: it may notice that seconds later for some kinds than for others.
	requestTime = 30 * time.Second
	// A fault waits up to busyWithin until a runner has a job.
	busyWithin = 10 * time.Second
)

// deleteRunners deletes runner objects as an operator would, including one with a job if there is any. Only runners
// without a job may stop because of that.
func (w *world) deleteRunners(f fault) {
	busy := w.busyRunners()
	victims := append(w.some(w.observer.runnerPods(), f.percent), busy[:min(1, len(busy))]...)
	w.logf("deleted: %v, with a job: %v", victims, busy)
	w.deleteAll(&v1alpha1.EphemeralRunner{}, victims)
}

// newTemplate changes the pod template, so that idle runners are replaced, while nothing in the cluster shows which
// runners have a job.
func (w *world) newTemplate(fault) {
	busy := w.busyRunners()
	w.logf("reports of their jobs lost: %v", busy)
	w.loseReports(busy)
	w.patchSet(`{"spec": {"template": {"metadata": {"annotations": {"chaos": "changed"}}}}}`)
}

// lowerMaximum lowers maxRunners for a while, so that there are more runners than wanted, while nothing in the cluster
// shows which runners have a job.
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
	w.patchSet(fmt.Sprintf(`{"spec": {"minRunners": %d, "maxRunners": %d}}`, w.schedule.minRunners,
		w.schedule.maxRunners))
}

// refuseImage lets GitHub refuse the version of every runner that starts, so that the set creates no more, until the
// image is replaced.
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
	w.take(victims) // again: while the API server was away they still got jobs
}

// preempt sets the condition that the scheduler sets before it deletes pods.
func (w *world) preempt(pods []types.NamespacedName) {
	const target = `{"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}`
	for _, name := range pods {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = name.Namespace, name.Name
		w.request(func(ctx context.Context) error {
			return w.cluster.Client().Status().
				Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(target)))
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

// request makes a request for a fault. It waits until no other fault keeps the API server away. It is no error if the
// object is gone. An API server has a connection to etcd for each kind: after an outage it may call itself ready and
// still fail requests for a kind whose connection is not back yet, so such requests are repeated.
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

const (
	// GitHub counts at most mostPhantoms jobs that don't exist.
	mostPhantoms = 30
	// Where phantoms come and go, GitHub counts them for swing and then doesn't for swing.
	swing = 4 * time.Second
	// While a job waits, runners without a registration have to be gone within forgottenFor: GitHub is asked about them
	// after 30 s and 15 s later again. Other faults may hold that up, or begin it anew.
	forgottenFor = 2 * time.Minute
)

// countPhantoms makes GitHub count jobs that don't exist, all the time or now and then. The set must never have more
// runners than maxRunners, and as many as before when the fault is over.
func (w *world) countPhantoms(f fault) {
	phantoms := 1 + f.percent*mostPhantoms/100
	for over := time.Now().Add(f.lasts); time.Now().Before(over); w.pause(min(swing, time.Until(over))) {
		w.addPhantoms(phantoms)
		w.pause(min(swing, time.Until(over)))
		if f.variant == phantomsConstant {
			w.pause(time.Until(over))
		}
		w.addPhantoms(-phantoms)
	}
}

// addPhantoms makes GitHub count so many more, or fewer, jobs that don't exist.
func (w *world) addPhantoms(jobs int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.phantoms += jobs
	for _, set := range w.rig.GitHub.Snapshot().ScaleSets {
		if err := w.rig.GitHub.CountPhantoms(set.ID, w.phantoms); err != nil {
			w.t.Errorf("count phantoms: %v", err)
		}
	}
}

// forgetRunners makes GitHub lose the registrations of idle runners, which must then be replaced. A runner has its turn
// to be asked about within ten minutes. A run is shorter, so two jobs that don't exist wait until they are gone: then
// all idle runners are asked about. These jobs also see to it that there are idle runners.
func (w *world) forgetRunners(f fault) {
	w.addPhantoms(2)
	defer w.addPhantoms(-2)
	var forgotten []types.NamespacedName
	w.await(jobsTime, func() bool {
		forgotten = w.forget(w.some(w.observer.runnerPods(), f.percent))
		return len(forgotten) > 0
	})
	w.logf("forgotten: %v", forgotten)
	gone := func() bool {
		return !slices.ContainsFunc(w.observer.runnerPods(),
			func(pod types.NamespacedName) bool { return slices.Contains(forgotten, pod) })
	}
	if !w.await(forgottenFor, gone) {
		w.errorf("%s after their registrations were lost, some of these runners are left: %v", forgottenFor, forgotten)
	}
	w.logf("forgotten runners are gone")
}

// forget makes GitHub lose the registrations of those of the runners that are idle, and returns these.
func (w *world) forget(runners []types.NamespacedName) (forgotten []types.NamespacedName) {
	registrations := map[string]int{}
	for _, runner := range w.rig.GitHub.Snapshot().Runners {
		if runner.Online && !runner.Busy {
			registrations[runner.Name] = runner.ID
		}
	}
	for _, pod := range runners {
		if id, idle := registrations[pod.Name]; idle && w.rig.GitHub.ForgetRunner(id) == nil {
			forgotten = append(forgotten, pod)
		}
	}
	return forgotten
}
