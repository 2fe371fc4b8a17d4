package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/claims"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// deletePod deletes the runner's pod unless it is already being deleted. A pod whose containers have all ended, or
// whose node does not answer, is deleted without a grace period. One whose runner has ended gets no more time than its
// sidecars may take, also if somebody else is deleting it, with more. The caller's options come after its own.
func (c *Controller) deletePod(ctx context.Context, w *world, more ...client.DeleteOption) error {
	if w.pod == nil || w.Memory.pod.passedOver() {
		return nil
	}
	options := []client.DeleteOption{kube.UIDPrecondition(w.pod)}
	hangs := podstatus.Stuck(w.pod, w.Memory.apiServerTime(w.pod, w.Now))
	over := podstatus.IsFinished(w.pod)
	limit, lingers := rules.SidecarGrace(w.EphemeralRunner, w.pod)
	if !w.podStays() && !hangs && (!lingers || w.Memory.pod.cutShort) {
		return nil
	}
	switch {
	case over || hangs:
		options = append(options, client.GracePeriodSeconds(0))
	case lingers:
		options = append(options, client.GracePeriodSeconds(limit))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name}}
	err := c.options.Client.Delete(ctx, pod, append(options, more...)...)
	w.Memory.pod.left = apierrors.IsForbidden(err) && !w.DeletionTimestamp.IsZero()
	if err == nil {
		w.Memory.pod.deleted, w.Memory.pod.cutShort = true, lingers
		w.Memory.pod.removed = (over || hangs) && len(w.pod.Finalizers) == 0
	}
	return launch.DeletionFailure(w.EphemeralRunner, "delete pod", err)
}

// deregister asks GitHub to remove the runner's registration.
func (c *Controller) deregister(w *world) {
	certain := w.Memory.pod.uid != "" || w.Memory.launch.WasAsked()
	c.launcher.Deregister(w.EphemeralRunner, w.Memory.runnerID, certain, &w.Memory.launch)
}

// deleteSecret deletes the runner's Secret a single time.
func (c *Controller) deleteSecret(ctx context.Context, w *world) error {
	if w.Memory.secretDeleted {
		return nil
	}
	err := c.launcher.DeleteSecret(ctx, w.EphemeralRunner, &w.Memory.launch)
	w.Memory.secretDeleted = err == nil
	return err
}

// deleteHooked deletes the objects that container hooks created for the runner's job, after the runner container has
// ended.
func (c *Controller) deleteHooked(ctx context.Context, w *world) error {
	if !w.outcome.Over() && w.outcome.Phase != podstatus.Missing && !w.Memory.pod.passedOver() {
		return nil
	}
	exited := w.Memory.Attempt.Ending == podstatus.Succeeded || w.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded
	return c.remains.DeleteHooked(ctx, w.EphemeralRunner, exited, &w.Memory.hooked)
}

// deleteChildren deletes the pod, the Secret, and what container hooks created. With onlyUnbound, a pod that has
// changed since the cache showed it is left, with its Secret: the watch will show what has become of it.
func (c *Controller) deleteChildren(ctx context.Context, w *world, onlyUnbound bool) error {
	var options []client.DeleteOption
	if onlyUnbound {
		options = append(options, kube.UnchangedPrecondition(w.pod))
	}
	err := c.deletePod(ctx, w, options...)
	if onlyUnbound && !w.Memory.pod.deleted && !w.Memory.pod.left {
		return err
	}
	return errors.Join(err, c.deleteSecret(ctx, w), c.deleteHooked(ctx, w))
}

// removeFinalizers removes the finalizers a single time, after the claims that must not be passed on are deleted, and
// records an Event if something is left on GitHub.
func (c *Controller) removeFinalizers(ctx context.Context, w *world, leftBehind string) error {
	if w.Memory.finalizersRemoved {
		return nil
	}
	if settled, err := c.settleClaims(ctx, w); err != nil || !settled {
		return err
	}
	err := kube.RemoveFinalizersAndManagedFields(ctx, c.options.Client, w.EphemeralRunner,
		v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration)
	if err != nil {
		return err
	}
	w.Memory.finalizersRemoved = true
	if leftBehind != "" {
		c.record(ctx, w, report.Warning("RegistrationLeft", actionDelete,
			"the registration is left on GitHub, which removes it after a day: "+leftBehind))
	}
	return nil
}

// verdict returns what the runner's set has found out about its registration.
func (c *Controller) verdict(w *world) registrations.Answer {
	return c.options.Verdicts.Of(registrations.Registration{Runner: w.UID, ID: w.Memory.runnerID})
}

// use returns what is known of the use of the runner's claims.
func (w *world) use() claims.Facts {
	m, made := w.Memory, w.launched
	unseen := w.pod == nil && !m.hadPod(&w.Status)
	return claims.Facts{
		Status:    &w.Status,
		Hinted:    m.busy || (unseen && made.Known && (made.Failure == nil || made.Failure.Kind == rules.Away)),
		Inherited: w.pod == nil && m.mayBeLaunched(w.EphemeralRunner),
	}
}

const (
	// A claim that the manager may not delete is tried again every forbiddenInterval.
	forbiddenInterval = 30 * time.Second
	// A runner that waits for a report decides every awaitedInterval again whether it still does: the listener may be
	// back, and no event of a runner tells that. That costs no request. While the set takes no jobs, it does so every
	// unservedInterval.
	awaitedInterval  = 10 * time.Second
	unservedInterval = time.Minute
)

// settleClaims deletes the claims of a runner that is about to go, if its job has left something in them that must not
// be passed on. It returns false while that is not known, or while the manager may not delete them: until the runner is
// gone nobody else gets the claims.
func (c *Controller) settleClaims(ctx context.Context, w *world) (settled bool, err error) {
	if !volumeclaims.Named(w.Spec.VolumeClaims) || w.Memory.claims.Settled {
		return true, nil
	}
	set, err := c.originOf(ctx, w)
	if set == nil || err != nil {
		return err == nil, err // no set that lives has the claims
	}
	kube.SetIfZero(&w.Memory.claims.EndedAt, w.Now)
	runner := &volumeclaims.Runner{
		Started: w.Memory.claims.MayHaveRun(w.use()), EndedAt: w.Memory.claims.EndedAt,
		Job:    volumeclaims.Job{Event: w.Status.Event, Result: w.Status.JobResult},
		Claims: w.Spec.VolumeClaims, UsedPercent: w.Memory.claims.UsedPercent,
	}
	verdict, why, due := volumeclaims.Returns(set, runner, w.Now)
	if verdict == volumeclaims.Awaited {
		interval := awaitedInterval
		if due.IsZero() {
			interval = unservedInterval
		}
		w.RequeueAt(kube.EarlierOf(due, w.Now.Add(interval)))
		return false, c.reportAwaited(ctx, w)
	}
	if verdict == volumeclaims.Spoiled {
		switch err := c.launcher.DiscardClaims(ctx, set, w.EphemeralRunner); {
		case apierrors.IsForbidden(err):
			w.RequeueAt(w.Now.Add(forbiddenInterval))
			return false, c.reportNotDeleted(ctx, w, why, err)
		case err != nil:
			return false, err
		}
		log.FromContext(ctx).Info("Deleted the runner's claims", "claims", w.Spec.VolumeClaims, "message", why)
	}
	if verdict == volumeclaims.Kept && runner.Started && set.Spec.OfSnapshots() {
		err := c.launcher.CommitClaims(ctx, set, w.EphemeralRunner, w.Now)
		switch {
		case apierrors.IsForbidden(err): // no snapshot is made of it, and that is all
			log.FromContext(ctx).Info("No snapshot can be made after the job: the manager may not write to claims",
				"cause", err.Error())
		case err != nil:
			return false, err
		}
	}
	w.Memory.claims.Settled = true
	return true, nil
}

// reportAwaited says a single time, in the status, that the runner stays because of a report that may still come,
// unless its set doesn't count it any more. One whose deletion comes next would count as one that has failed by itself.
func (c *Controller) reportAwaited(ctx context.Context, w *world) error {
	if w.DeletionTimestamp.IsZero() || w.Status.Done() || w.Memory.isBehind(w.EphemeralRunner) {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	w.setStays(w.Memory.Attempt.Ending, v1alpha1.ReasonVolumeClaimAwaited, "the runner has ended, and stays until the "+
		"result of its job is reported, which decides whether its claims are kept: for some minutes at most or, while its "+
		"scale set takes no jobs, until a minute after it takes some again, which brings the report")
	return c.patchStatus(ctx, w, before)
}

// reportNotDeleted says a single time, in the status and in an Event, that the runner stays because of a claim that the
// manager may not delete.
func (c *Controller) reportNotDeleted(ctx context.Context, w *world, why string, refusal error) error {
	if w.Status.Reason == v1alpha1.ReasonVolumeClaimNotDeleted || w.Memory.isBehind(w.EphemeralRunner) {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	w.setStays(w.Memory.Attempt.Ending, v1alpha1.ReasonVolumeClaimNotDeleted, fmt.Sprintf(
		"the runner has ended, and stays until its claims are deleted, which no other runner may have: %s. The "+
			"API server says: %v. The chart of the scale set gives the manager the right while its values have "+
			"volumeClaimTemplates or volumeClaimPool", why, refusal))
	return c.patchStatus(ctx, w, before,
		report.Warning(v1alpha1.ReasonVolumeClaimNotDeleted, actionDelete, w.Status.Message))
}
