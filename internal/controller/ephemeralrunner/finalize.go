package ephemeralrunner

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/jobreports"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// A runner that is being deleted waits for countedTimeout until its set has counted its lost job. The set needs a
// second.
const countedTimeout = 30 * time.Second

// finalize does what a runner that is being deleted still needs. Whatever of that fails, the rest is done, but for its
// release.
func (c *Controller) finalize(ctx context.Context, w *world) error {
	if w.Memory.finalizersRemoved || w.Memory.mayVanish {
		return nil
	}
	c.rememberBusy(w)
	w.leaving = c.leaving(w)
	w.needs = rules.PlanFinalization(w.leaving)
	w.RequeueAt(w.needs.RequeueAt)
	w.Memory.Forced = w.Memory.Forced || w.needs.Forced
	return reconcile.InOrder(
		reconcile.Each(c.reportUnanswered, c.askForRemoval, c.reportDraining, c.reportKept, c.deleteRest, c.settleLoss, c.awaitReport),
		c.release,
	)(ctx, w)
}

// askForRemoval asks GitHub to remove the registration, if that is due.
func (c *Controller) askForRemoval(_ context.Context, w *world) error {
	if w.needs.Deregister {
		c.deregister(w)
	}
	return nil
}

// deleteRest deletes what the runner has in the cluster, if it may go.
func (c *Controller) deleteRest(ctx context.Context, w *world) error {
	if !w.needs.DeleteChildren {
		return nil
	}
	return c.deleteChildren(ctx, w, w.needs.OnlyUnbound)
}

// release removes the finalizers when nothing keeps the runner any more.
func (c *Controller) release(ctx context.Context, w *world) error {
	if !w.needs.RemoveFinalizers || !w.lossSettled || w.reportDelayed {
		return nil
	}
	return c.removeFinalizers(ctx, w, w.needs.LeftBehind)
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
func (c *Controller) reportUnanswered(ctx context.Context, w *world) error {
	o := w.leaving
	failure := o.Removal.Failure
	if failure == nil || o.Removal.Busy() || w.Memory.unansweredReported {
		return nil
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
	return nil
}

// reportDraining says a single time, in the status and in an Event, that the deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, w *world) error {
	reported := meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionDraining)
	if !w.needs.ReportDraining || reported || w.Memory.isBehind(w.EphemeralRunner) {
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
func (c *Controller) reportKept(ctx context.Context, w *world) error {
	if !w.needs.ReportKept || w.Memory.isBehind(w.EphemeralRunner) {
		return nil
	}
	before := w.EphemeralRunner.DeepCopy()
	due, finalizers := kube.Termination(w.pod)
	w.setStays(w.leaving.Pod.Phase, v1alpha1.ReasonPodTerminating, kube.WhyTerminating(w.Name, due, finalizers))
	return c.patchStatus(ctx, w, before, report.Warning(v1alpha1.ReasonPodTerminating, actionDelete,
		"the runner has ended and waits for its pod: "+w.Status.Message))
}

// settleLoss writes into the status of a runner that is being deleted what its job was lost to. The runner isn't
// released while that is not known yet, or while its set has not counted the job: its object is the only record of the
// loss.
func (c *Controller) settleLoss(ctx context.Context, w *world) error {
	o := w.leaving
	if w.Memory.pod.left && o.Pod.Phase != podstatus.Missing {
		w.Requeue.After(0)
		return nil // the runner need not wait for a pod that is only collected after it
	}
	lost, due := w.Memory.JobEnd(&w.Status, o.Pod, w.Memory.pod.ending, o.Now).Loss()
	if w.Memory.abandoned && w.Memory.pod.uid == "" {
		// a job that its status names ran at another time, or in another cluster
		lost, due = podstatus.Ending{}, time.Time{}
	}
	switch {
	case !due.IsZero():
		w.RequeueAt(due)
		return nil
	case lost.Cause != "" && behind(w):
		return waitForCache(ctx, w)
	case lost.Cause != "":
		before := w.EphemeralRunner.DeepCopy()
		d := rules.Decision{}.Lose(lost)
		w.Status.Phase, w.Status.Ready, w.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, false, lost.Cause
		w.Status.Reason, w.Status.Message = d.Reason, d.Message
		if err := c.patchStatus(ctx, w, before, runnerFailed(d)); err != nil {
			return err
		}
	case w.Status.LostCause == "":
		w.lossSettled = true
		return nil
	}
	counted, err := c.lossCounted(ctx, w)
	kube.SetIfZero(&w.Memory.HeldAt, o.Now)
	if w.lossSettled = counted || !o.Now.Before(w.Memory.HeldAt.Add(countedTimeout)); !w.lossSettled {
		w.Requeue.After(time.Second)
	}
	return err
}

// awaitReport keeps a runner that may have had a job while a listener that was away when it ended may still bring what
// GitHub says of it: the runner's object is where that is written, and read by the ledger.
func (c *Controller) awaitReport(ctx context.Context, w *world) error {
	exited := w.Memory.Attempt.Ending == podstatus.Succeeded
	if !w.needs.RemoveFinalizers || !w.lossSettled || !w.Status.Done() || w.Status.JobCompleted() ||
		w.Status.LostCause != "" || (!w.Status.HadJob() && !exited) {
		return nil
	}
	set, err := c.originOf(ctx, w)
	if set == nil || err != nil {
		return err
	}
	kube.SetIfZero(&w.Memory.ReportAwaitedAt, w.Now)
	due, delayed := jobreports.Delayed(set, w.Memory.ReportAwaitedAt, w.Now)
	if w.reportDelayed = delayed; delayed { // no event of a runner tells that the listener is back
		w.RequeueAt(kube.EarlierOf(due, w.Now.Add(awaitedInterval)))
	}
	return nil
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
	switch {
	case owner == nil && runner.Annotations[v1alpha1.AnnotationStandalone] == "true":
		return "it stands alone, but no scale set of its name lives in its namespace that registers runners at the same " +
			"address with the same id, or its status is that of another time"
	case owner == nil || owner.Kind != "EphemeralRunnerSet":
		return "no EphemeralRunnerSet owns it"
	}
	return fmt.Sprintf("it belongs to an EphemeralRunnerSet %s that is gone (UID %s)", owner.Name, owner.UID)
}
