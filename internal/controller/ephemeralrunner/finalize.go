package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/claims"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// A runner that is being deleted waits for countedTimeout until its set has counted its lost job. The set needs a
// second.
const countedTimeout = 30 * time.Second

// finalize does what a runner that is being deleted still needs.
func (c *Controller) finalize(ctx context.Context, w *world) error {
	if w.Memory.finalizersRemoved || w.Memory.mayVanish {
		return nil
	}
	c.rememberBusy(w)
	o := c.leaving(w)
	f := rules.PlanFinalization(o)
	w.RequeueAt(f.RequeueAt)
	w.Memory.Forced = w.Memory.Forced || f.Forced
	var errs []error
	c.reportUnanswered(ctx, w, o)
	if f.Deregister {
		c.deregister(w)
	}
	if f.ReportDraining {
		errs = append(errs, c.reportDraining(ctx, w))
	}
	if f.ReportKept {
		errs = append(errs, c.reportKept(ctx, w, o.Pod))
	}
	if f.DeleteChildren {
		errs = append(errs, c.deleteChildren(ctx, w, f.OnlyUnbound))
	}
	if w.Memory.pod.left && o.Pod.Phase != podstatus.Missing {
		w.Requeue.After(0)
		return errors.Join(errs...) // the runner need not wait for a pod that is only collected after it
	}
	settled, err := c.settleLoss(ctx, w, o)
	if err != nil || !settled {
		return errors.Join(append(errs, err)...)
	}
	if f.RemoveFinalizers && errors.Join(errs...) == nil {
		errs = append(errs, c.removeFinalizers(ctx, w, f.LeftBehind))
	}
	return errors.Join(errs...)
}

// leaving returns the facts on which a finalization depends.
func (c *Controller) leaving(w *world) *rules.Leaving {
	m, now, removal := w.Memory, w.Now, w.removal()
	if c.verdict(w) == registrations.Removed {
		removal = rules.Progress{Known: true} // at its set's request
	}
	pod := w.outcome
	if m.pod.passedOver() {
		pod.Phase = podstatus.Missing
	}
	status := &w.Status
	return &rules.Leaving{
		Pod: pod, Bound: w.pod != nil && w.pod.Spec.NodeName != "", MayHaveJob: m.mayHaveJob(status),
		Completed:  m.hadItsJob(status) && !m.diedSilently(status, w.outcome),
		Registered: !m.unregistered(w.EphemeralRunner, c.beganAt), Provisioning: w.launched.Running,
		Unseen: w.launched.Succeeded() && !m.hadPod(status) &&
			now.Before(w.launched.FinishedAt.Add(rules.UnseenFinalizingTimeout)),
		Removal: removal, PodDueAt: m.podDueAt(w.EphemeralRunner, w.pod, now), Deletion: m.Deletion, Now: now,
		KeptReported: status.Done() && status.Reason == v1alpha1.ReasonPodTerminating,
	}
}

// hadItsJob reports whether the registration has had its one job. A report of the job's end may be late and belong to
// an earlier registration of the same name, so it counts only if there was no earlier one: no attempt has ended, and
// either no other manager can have registered the runner, or this one found it with a pod and has requested no
// registration itself.
func (m *memory) hadItsJob(status *v1alpha1.EphemeralRunnerStatus) bool {
	alone := !m.inherited || (m.hadPod(status) && !m.launch.WasAsked())
	return status.JobCompleted() && rules.AttemptsRecorded(status) == 0 && alone
}

// diedSilently reports whether the runner ended without exiting with 0, or lost its pod to somebody else. It then had
// no chance to tell GitHub, which may keep its record for a day even though the job has ended.
func (m *memory) diedSilently(status *v1alpha1.EphemeralRunnerStatus, pod rules.Outcome) bool {
	switch {
	case m.Attempt.Ending == podstatus.Succeeded || status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return false
	case m.Attempt.Ending != podstatus.Missing || status.Phase == v1alpha1.EphemeralRunnerPhaseFailed:
		return true
	default:
		return pod.Phase == podstatus.Missing && m.pod.uid != "" && !m.pod.deleted
	}
}

// rememberBusy remembers, for MayHaveJob, that GitHub has refused to remove the registration because of a job: the next
// call replaces the one that was refused.
func (c *Controller) rememberBusy(w *world) {
	w.Memory.busy = w.Memory.busy || w.removal().Busy()
}

// reportUnanswered records one Event: the deletion waits for GitHub, with the limit of the wait and the last failure.
func (c *Controller) reportUnanswered(ctx context.Context, w *world, o *rules.Leaving) {
	failure := o.Removal.Failure
	if failure == nil || o.Removal.Busy() || w.Memory.unansweredReported {
		return
	}
	w.Memory.unansweredReported = true
	limit := fmt.Sprintf("for %s at most", o.UnansweredFor())
	switch {
	case o.MayHaveJob:
		limit = "until its job has ended"
	case o.UnansweredFor() == rules.SilenceTimeout:
		limit += ", because its container runs and may have a job; delete its pod if it has none"
	}
	c.record(ctx, w, report.Warning("RemovalUnanswered", actionDelete, // the cause comes last because it may be long
		fmt.Sprintf("GitHub is asked to remove the registration, %s; the last attempt failed: %s", limit,
			failure.Message)))
}

// reportDraining says a single time, in the status and in an Event, that the deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, w *world) error {
	reported := meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionDraining)
	if reported || w.Memory.isBehind(w.EphemeralRunner) {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	// Not a warning: a job may take as long as it needs.
	event := report.Normal(v1alpha1.ConditionDraining, actionDelete,
		"the runner has a job; it is deleted once the job has finished")
	c.setConditions(w, report.True(v1alpha1.ConditionDraining, "JobRunning", event.Note))
	return c.patchStatus(ctx, w, before, event)
}

// reportKept says a single time, in the status and in an Event, that the runner has ended and who keeps its pod. A
// final phase that the status already has stays.
func (c *Controller) reportKept(ctx context.Context, w *world, pod rules.Outcome) error {
	if w.Memory.isBehind(w.EphemeralRunner) {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	due, finalizers := kube.Termination(w.pod)
	w.setStays(pod.Phase, v1alpha1.ReasonPodTerminating, kube.WhyTerminating(w.Name, due, finalizers))
	return c.patchStatus(ctx, w, before, report.Warning(v1alpha1.ReasonPodTerminating, actionDelete,
		"the runner has ended and waits for its pod: "+w.Status.Message))
}

// setStays writes into the status why a runner that has ended stays. If the status has no final phase, it gets one:
// then the runner's set counts it no longer.
func (w *world) setStays(ended podstatus.Phase, reason, message string) {
	status := &w.Status
	switch {
	case status.Done():
	case ended == podstatus.Succeeded:
		status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	default:
		status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
	}
	status.Ready, status.Reason, status.Message = false, reason, message
}

// settleLoss writes into the status of a runner that is being deleted what its job was lost to. It returns false while
// that is not known yet, or while the runner's set has not counted the job: the runner's object is the only record of
// the loss.
func (c *Controller) settleLoss(ctx context.Context, w *world, o *rules.Leaving) (settled bool, err error) {
	lost, due := w.Memory.JobEnd(&w.Status, o.Pod, w.Memory.pod.ending, o.Now).Loss()
	if w.Memory.abandoned && w.Memory.pod.uid == "" {
		// a job that its status names ran at another time, or in another cluster
		lost, due = podstatus.Ending{}, time.Time{}
	}
	switch {
	case !due.IsZero():
		w.RequeueAt(due)
		return false, nil
	case lost.Cause != "" && behind(w):
		return false, waitForCache(ctx, w)
	case lost.Cause != "":
		before := w.EphemeralRunner.DeepCopy()
		d := rules.Decision{}.Lose(lost)
		w.Status.Phase, w.Status.Ready, w.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, false, lost.Cause
		w.Status.Reason, w.Status.Message = d.Reason, d.Message
		if err := c.patchStatus(ctx, w, before, runnerFailed(d)); err != nil {
			return false, err
		}
	case w.Status.LostCause == "":
		return true, nil
	}
	counted, err := c.lossCounted(ctx, w)
	kube.SetIfZero(&w.Memory.HeldAt, o.Now)
	if counted || !o.Now.Before(w.Memory.HeldAt.Add(countedTimeout)) {
		return true, err
	}
	w.Requeue.After(time.Second)
	return false, err
}

// lossCounted reports whether the runner's set has counted its lost job, or is gone.
func (c *Controller) lossCounted(ctx context.Context, w *world) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(w)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return true, nil
	}
	set := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, set,
		client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return set.UID != owner.UID || slices.Contains(set.Status.LostRunners, w.UID), nil
}

// A runner whose set doesn't live is nobody's: no maxRunners limits it, and no uninstall removes it. Such runners,
// Secrets and pods come from backups, which lose owners or have those of another time or cluster, or are made by hand.
// They are removed before they get anything, and adopted by nobody: only the set decides the number of its runners.

// removeAbandoned deletes a runner that no set counts. Its finalization lets a job finish and removes pod, Secret and
// registration, so a runner that has lost its finalizer gets it back first.
func (c *Controller) removeAbandoned(ctx context.Context, w *world) error {
	w.Requeue.After(staleInterval)
	if w.Memory.runnerDeleted {
		return nil
	}
	w.Memory.launch.Abandon()
	err := kube.AddFinalizer(ctx, c.options.Client, w.EphemeralRunner, v1alpha1.FinalizerEphemeralRunner,
		v1alpha1.FinalizerRunnerRegistration)
	if err == nil {
		unchanged := kube.UnchangedPrecondition(w.EphemeralRunner) // somebody may be giving it an owner
		err = c.options.Client.Delete(ctx, w.EphemeralRunner.DeepCopy(), unchanged)
	}
	if err != nil {
		w.Memory.launch.Resume() // somebody may have given it an owner
		if err = kube.IgnoreOvertaken(err); err != nil {
			err = fmt.Errorf("delete runner without a set: %w", err)
		}
		return err
	}
	w.Memory.runnerDeleted, w.Memory.abandoned = true, true
	c.record(ctx, w, report.Warning(v1alpha1.ReasonOwnerless, actionDelete, fmt.Sprintf(
		"the runner is removed: %s, as after a restore from a backup; a job that it runs is finished. Only the "+
			"manager creates runners: leave EphemeralRunners out of backups and manifests",
		whyAbandoned(w.EphemeralRunner))))
	return nil
}

func whyAbandoned(runner *v1alpha1.EphemeralRunner) string {
	owner := metav1.GetControllerOfNoCopy(runner)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return "no EphemeralRunnerSet owns it"
	}
	return fmt.Sprintf("it belongs to an EphemeralRunnerSet %s that is gone (UID %s)", owner.Name, owner.UID)
}

const (
	// A claim that the manager may not delete is tried again every forbiddenInterval.
	forbiddenInterval = 30 * time.Second
	// A runner that waits for a report decides every awaitedInterval again whether it still does: the listener may be
	// back, and no event of a runner tells that. That costs no request.
	awaitedInterval = 10 * time.Second
)

// settleClaims deletes the claims of a runner that is about to go, if its job has left something in them that must not
// be passed on. It returns false while that is not known, or while the manager may not delete them: until the runner is
// gone nobody else gets the claims.
func (c *Controller) settleClaims(ctx context.Context, w *world) (settled bool, err error) {
	if !claims.Named(w.EphemeralRunner) || w.Memory.claims.Settled {
		return true, nil
	}
	set, err := c.claimedSet(ctx, w)
	if set == nil || err != nil {
		return err == nil, err // no set that lives has the claims
	}
	kube.SetIfZero(&w.Memory.claims.EndedAt, w.Now)
	runner := &volumeclaims.Runner{
		Started: w.Memory.claims.MayHaveRun(w.use()), EndedAt: w.Memory.claims.EndedAt,
		Job: volumeclaims.Job{Event: w.Status.Event, Result: w.Status.JobResult},
	}
	verdict, why, due := volumeclaims.Returns(set, runner, w.Now)
	if verdict == volumeclaims.Awaited {
		w.RequeueAt(kube.EarlierOf(due, w.Now.Add(awaitedInterval)))
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
		"result of its job is reported, which decides whether its claims are kept; for some minutes at most")
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

// claimedSet returns the AutoscalingRunnerSet to which a runner's claims belong, even if the set is being deleted, nil
// if there is none.
func (c *Controller) claimedSet(ctx context.Context, w *world) (*v1alpha1.AutoscalingRunnerSet, error) {
	owner := metav1.GetControllerOfNoCopy(w)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return nil, nil
	}
	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, runnerSet,
		client.UnsafeDisableDeepCopy)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return c.origin(ctx, runnerSet)
}
