package remains

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// The deletion of a pod that the manager may not delete is tried again every abandonedPodInterval. The right comes from
// a scale set's Role.
const abandonedPodInterval = 5 * time.Minute

// A pod that nobody counts and that may have a job has its end waited for until it is longestOrphan old: GitHub ends a
// job after 6 h unless its workflow has another timeout-minutes. Nothing waits for such a pod.
const longestOrphan = 6 * time.Hour

// Its container has startGrace to start on its node, which a kubelet reports within seconds.
const startGrace = time.Minute

// RemoveOf deletes the pod and the Secret of a runner that doesn't exist, if they have no owner: a backup has brought
// them back. The registration is used up or another's, and nobody counts the pod. The pod is read anew first: the
// cache's part of a pod doesn't tell a runner's from one that only has its label. The Secret goes first, because the
// pod leads to it. If the runner has vanished, without its finalization, its Secret may be left alone: mayVanish says
// that it had no finalizer any more, and finalized that it was finalized.
func (r *Remover) RemoveOf(
	ctx context.Context, name types.NamespacedName, mayVanish, finalized bool,
) (ctrl.Result, error) {
	r.gone.mu.Lock()
	vanished := !finalized && (mayVanish || r.gone.runners.Has(name))
	r.gone.mu.Unlock()
	result, err := r.removeOf(ctx, name, vanished)
	if err == nil {
		r.gone.mu.Lock()
		defer r.gone.mu.Unlock()
		delete(r.gone.pods, name)
		r.gone.runners.Delete(name)
	}
	return result, err
}

func (r *Remover) removeOf(ctx context.Context, name types.NamespacedName, vanished bool) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.options.Client.Get(ctx, name, pod, client.UnsafeDisableDeepCopy)
	if err != nil || !MayBeAbandoned(pod) {
		if vanished {
			secretErr := r.options.DeleteSecret(ctx, name)
			if apierrors.IsForbidden(secretErr) {
				secretErr = nil // the Role that permits it goes with the scale set, and nothing brings it back
			}
			err = errors.Join(client.IgnoreNotFound(err), secretErr)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if left := r.mayEnd(pod); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	pod = &corev1.Pod{}
	err = r.options.Reader.Get(ctx, name, pod)
	if err == nil && (!MayBeAbandoned(pod) || !launch.TakesRegistration(pod)) {
		return ctrl.Result{}, nil
	}
	if left := r.mayEnd(pod); err == nil && left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if err == nil {
		err = r.options.DeleteSecret(ctx, name)
	}
	if err == nil {
		// unless it has got a node meanwhile
		err = r.options.Client.Delete(ctx, pod, kube.UnchangedPrecondition(pod))
	}
	switch {
	case apierrors.IsForbidden(err):
		return ctrl.Result{RequeueAfter: abandonedPodInterval}, nil // the doctor names the pod
	case err != nil:
		return ctrl.Result{}, kube.IgnoreOvertaken(err)
	}
	report.RecordEvent(ctx, r.options.Recorder, pod, nil, report.Warning(v1alpha1.ReasonOwnerless, "Delete",
		"the pod is deleted: no EphemeralRunner owns it, so nobody counts it, as after a restore from a backup; leave "+
			"runner pods and their Secrets out of backups"))
	return ctrl.Result{}, nil
}

// mayEnd returns for how long an abandoned pod may end by itself, 0 if it need not: it has ended, or certainly has no
// job, because it has no node. Somebody may have taken its owner away (kubectl delete --cascade=orphan), a moment after
// GitHub has given it a job, before anybody marked it. A restored pod has no node when it comes back, and if it gets one
// it usually ends at once, because its registration is used up. What is marked as busy has all the time that it needs.
func (r *Remover) mayEnd(pod *corev1.Pod) time.Duration {
	now := r.options.Clock.Now()
	ended := podstatus.IsFinished(pod) || podstatus.HasEnded(pod, v1alpha1.RunnerContainerName)
	started := podstatus.IsRunning(pod) || podstatus.Of(pod, v1alpha1.RunnerContainerName, now).Started()
	switch age := now.Sub(pod.CreationTimestamp.Time); {
	case ended || (pod.Spec.NodeName == "" && !podstatus.IsRunning(pod)):
		return 0
	case pod.Labels[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerBusy && podstatus.IsRunning(pod):
		return longestOrphan
	case !started:
		return max(0, startGrace-age)
	default:
		return max(0, longestOrphan-age)
	}
}

// MayBeAbandoned reports whether a pod has the label of runners and no owner, as far as the cache tells.
func MayBeAbandoned(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelRunner] != "" && metav1.GetControllerOfNoCopy(pod) == nil &&
		pod.DeletionTimestamp == nil
}
