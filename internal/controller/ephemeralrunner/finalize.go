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

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// countedTimeout is how long a runner that is being deleted waits for its set to count its lost job. The set needs a second.
const countedTimeout = 30 * time.Second

// finalize does what a runner that is being deleted still needs, and returns when to reconcile it again.
func (c *Controller) finalize(ctx context.Context, p *pass) (time.Time, error) {
	if p.memory.FinalizersRemoved || !slices.ContainsFunc(p.Finalizers, isOurs) {
		return time.Time{}, nil
	}
	c.noteBusy(p)
	o := c.observeFinalizing(p)
	f := rules.PlanFinalization(o)
	p.memory.Forced = p.memory.Forced || f.Forced
	var errs []error
	c.reportUnanswered(ctx, p, o)
	if f.Deregister {
		c.deregister(p)
	}
	if f.ReportDraining {
		errs = append(errs, c.reportDraining(ctx, p))
	}
	if f.ReportKept {
		errs = append(errs, c.reportKept(ctx, p, o.Pod))
	}
	if f.DeleteChildren {
		errs = append(errs, c.deleteChildren(ctx, p, f.OnlyUnbound))
	}
	if p.memory.Pod.Left && o.Pod.Phase != podstatus.Missing {
		return c.options.Clock.Now(), errors.Join(errs...) // the runner need not wait for a pod that is only collected after it
	}
	settledAt, err := c.settleLoss(ctx, p, o)
	if f.RequeueBy(settledAt); err != nil || !settledAt.IsZero() {
		return f.RequeueAt, errors.Join(append(errs, err)...)
	}
	if f.RemoveFinalizers && errors.Join(errs...) == nil {
		errs = append(errs, c.removeFinalizers(ctx, p, f.LeftBehind))
	}
	return f.RequeueAt, errors.Join(errs...)
}

// noteBusy remembers, for MayHaveJob, that GitHub has refused to remove the registration because of a job: the next call
// replaces the one that was refused.
func (c *Controller) noteBusy(p *pass) {
	p.memory.Busy = p.memory.Busy || c.removal(p).Busy()
}

// reportUnanswered records one Event: the deletion waits for GitHub, for how long, and why no answer has come.
func (c *Controller) reportUnanswered(ctx context.Context, p *pass, o *rules.Leaving) {
	failure := o.Removal.Failure
	if failure == nil || o.Removal.Busy() || p.memory.UnansweredReported {
		return
	}
	p.memory.UnansweredReported = true
	limit := fmt.Sprintf("for %s at most", rules.AnswerTimeout)
	if o.MayHaveJob {
		limit = "until its job has ended"
	}
	c.record(ctx, p, report.Warning("RemovalUnanswered", actionDelete, // the cause comes last because it may be long
		fmt.Sprintf("GitHub is asked to remove the registration, %s; the last attempt failed: %s", limit, failure.Message)))
}

// reportDraining says once, in the status and in an Event, that the deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, p *pass) error {
	reported := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDraining)
	if reported || p.memory.IsBehind(p.EphemeralRunner) {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	// Not a warning: a job may take as long as it needs.
	event := report.Normal(v1alpha1.ConditionDraining, actionDelete, "the runner has a job; it is deleted once the job has finished")
	c.setConditions(p, report.True(v1alpha1.ConditionDraining, "JobRunning", event.Note))
	return c.patchStatus(ctx, p, before, event)
}

// reportKept says once, in the status and in an Event, that the runner has ended and who keeps its pod. If the status already
// has a final phase, it stays.
func (c *Controller) reportKept(ctx context.Context, p *pass, pod rules.Outcome) error {
	if p.memory.IsBehind(p.EphemeralRunner) {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	status := &p.Status
	switch {
	case status.Done():
	case pod.Phase == podstatus.Succeeded:
		status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	default:
		status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
	}
	due, finalizers := terminationOf(p.pod)
	status.Ready, status.Reason = false, v1alpha1.ReasonPodTerminating
	status.Message = kube.WhyTerminating(p.Name, due, finalizers)
	return c.patchStatus(ctx, p, before, report.Warning(v1alpha1.ReasonPodTerminating, actionDelete,
		"the runner has ended and waits for its pod: "+status.Message))
}

// settleLoss writes into the status of a runner that is being deleted what its job was lost to. It returns when to look again while
// that is not known yet, or while the runner's set has not counted the job: its object is the only record of it.
func (c *Controller) settleLoss(ctx context.Context, p *pass, o *rules.Leaving) (time.Time, error) {
	lost, due := p.memory.JobEnd(&p.Status, o.Pod, p.memory.Pod.Ending, o.Now).Loss()
	if p.memory.Abandoned && p.memory.Pod.UID == "" {
		lost, due = podstatus.Ending{}, time.Time{} // a job that its status names ran at another time, or in another cluster
	}
	stale := p.memory.IsBehind(p.EphemeralRunner)
	switch {
	case !due.IsZero():
		return due, nil
	case lost.Cause != "" && stale:
		return o.Now.Add(staleRequeueAfter), nil
	case lost.Cause != "":
		before := p.EphemeralRunner.DeepCopy()
		d := rules.Decision{}.Lose(lost)
		p.Status.Phase, p.Status.Ready, p.Status.LostCause = v1alpha1.EphemeralRunnerPhaseFailed, false, lost.Cause
		p.Status.Reason, p.Status.Message = d.Reason, d.Message
		if err := c.patchStatus(ctx, p, before, runnerFailed(d)); err != nil {
			return time.Time{}, err
		}
	case p.Status.LostCause == "":
		return time.Time{}, nil
	}
	counted, err := c.lossCounted(ctx, p)
	kube.SetIfZero(&p.memory.HeldAt, o.Now)
	if counted || !o.Now.Before(p.memory.HeldAt.Add(countedTimeout)) {
		return time.Time{}, err
	}
	return o.Now.Add(time.Second), err
}

// lossCounted reports whether the runner's set has counted its lost job, or is gone.
func (c *Controller) lossCounted(ctx context.Context, p *pass) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return true, nil
	}
	set := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}, set, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return set.UID != owner.UID || slices.Contains(set.Status.LostRunners, p.UID), nil
}

// A runner whose set doesn't live is nobody's: no maxRunners limits it, and no uninstall removes it. Such runners, Secrets and pods come
// from backups, which lose owners or have those of another time or cluster, or are made by hand. They are removed before they get
// anything, and adopted by nobody: how many a set wants is for the set to say.

// removeAbandoned deletes a runner that no set counts. The finalization that follows lets a job finish and removes what the runner has,
// so a runner whose finalizer was lost gets it back first.
func (c *Controller) removeAbandoned(ctx context.Context, p *pass) (time.Time, error) {
	later := c.options.Clock.Now().Add(staleRequeueAfter)
	if p.memory.RunnerDeleted {
		return later, nil
	}
	p.memory.Launch.Abandon()
	why := whyAbandoned(p.EphemeralRunner)
	if err := kube.AddFinalizer(ctx, c.options.Client, p.EphemeralRunner, v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration); err != nil {
		p.memory.Launch.Resume() // somebody may have given it an owner
		return later, kube.IgnoreOvertaken(err)
	}
	unchanged := kube.UnchangedPrecondition(p.EphemeralRunner) // somebody may be giving it an owner
	if err := c.options.Client.Delete(ctx, p.EphemeralRunner.DeepCopy(), unchanged); err != nil {
		p.memory.Launch.Resume()
		if err = kube.IgnoreOvertaken(err); err != nil {
			err = fmt.Errorf("delete runner without a set: %w", err)
		}
		return later, err
	}
	p.memory.RunnerDeleted, p.memory.Abandoned = true, true
	c.record(ctx, p, report.Warning(v1alpha1.ReasonOwnerless, actionDelete, fmt.Sprintf(
		"the runner is removed: %s, as after a restore from a backup; a job that it runs is finished. Only the manager creates runners: "+
			"leave EphemeralRunners out of backups and manifests", why)))
	return later, nil
}

func whyAbandoned(runner *v1alpha1.EphemeralRunner) string {
	owner := metav1.GetControllerOfNoCopy(runner)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return "no EphemeralRunnerSet owns it"
	}
	return fmt.Sprintf("it belongs to an EphemeralRunnerSet %s that is gone (UID %s)", owner.Name, owner.UID)
}
