package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// finalize does what a runner that is being deleted still needs, and returns when to reconcile it again.
func (c *Controller) finalize(ctx context.Context, p *pass) (time.Time, error) {
	if p.memory.finalizersRemoved || !slices.ContainsFunc(p.Finalizers, isOurs) {
		return time.Time{}, nil
	}
	c.noteBusy(p)
	o := c.observeFinalizing(p)
	f := planFinalization(o)
	p.memory.forced = p.memory.forced || f.forced
	var errs []error
	c.reportUnanswered(ctx, p, o)
	if f.deregister {
		c.deregister(p)
	}
	if f.reportDraining {
		errs = append(errs, c.reportDraining(ctx, p))
	}
	if f.reportKept {
		errs = append(errs, c.reportKept(ctx, p, o.pod))
	}
	if f.deleteChildren {
		errs = append(errs, c.deleteChildren(ctx, p, f.onlyUnbound))
	}
	if p.memory.pod.left && o.pod.state != podMissing {
		return c.options.Clock.Now(), errors.Join(errs...) // the runner need not wait for a pod that is only collected after it
	}
	settledAt, err := c.settleLoss(ctx, p, o)
	if f.requeueBy(settledAt); err != nil || !settledAt.IsZero() {
		return f.requeueAt, errors.Join(append(errs, err)...)
	}
	if f.removeFinalizers && errors.Join(errs...) == nil {
		errs = append(errs, c.removeFinalizers(ctx, p, f.leftBehind))
	}
	return f.requeueAt, errors.Join(errs...)
}

// noteBusy remembers, for mayHaveJob, that GitHub has refused to remove the registration because of a job: the next call
// replaces the one that was refused.
func (c *Controller) noteBusy(p *pass) {
	p.memory.busy = p.memory.busy || c.removal(p).busy()
}

// observeFinalizing gathers what a finalization depends on.
func (c *Controller) observeFinalizing(p *pass) *finalizing {
	now := c.options.Clock.Now()
	provisioning, removal := p.provisioning, c.removal(p)
	if c.options.Removed.Has(p.UID, p.memory.runnerID) {
		removal = progress{known: true} // at its set's request
	}
	pod := p.outcome
	if p.memory.pod.passedOver() {
		pod.state = podMissing
	}
	return &finalizing{
		pod: pod, bound: p.pod != nil && p.pod.Spec.NodeName != "", mayHaveJob: p.mayHaveJob(), completed: p.spent() && !p.died(),
		registered: !c.unregistered(p), provisioning: provisioning.running,
		unseen: provisioning.succeeded() && !p.hadPod() &&
			now.Before(provisioning.finishedAt.Add(unseenFinalizingTimeout)),
		removal: removal, podDueAt: p.podDueAt(now), keptReported: p.keptReported(), deletion: p.memory.deletion, now: now,
	}
}

// deleteChildren deletes the pod, the Secret, and what container hooks created. With onlyUnbound, a pod that has changed
// since the cache showed it is left, with its Secret: the watch will show what has become of it.
func (c *Controller) deleteChildren(ctx context.Context, p *pass, onlyUnbound bool) error {
	var options []client.DeleteOption
	if onlyUnbound {
		options = append(options, kube.UnchangedPrecondition(p.pod))
	}
	err := c.deletePod(ctx, p, options...)
	if onlyUnbound && !p.memory.pod.deleted && !p.memory.pod.left {
		return err
	}
	return errors.Join(err, c.deleteSecret(ctx, p), c.deleteHookResources(ctx, p))
}

// isOurs reports whether the finalizer belongs to this controller or to ARC's.
func isOurs(finalizer string) bool {
	return finalizer == v1alpha1.FinalizerEphemeralRunner || finalizer == v1alpha1.FinalizerRunnerRegistration
}

// reportUnanswered records one Event: the deletion waits for GitHub, and why no answer has come.
func (c *Controller) reportUnanswered(ctx context.Context, p *pass, o *finalizing) {
	if failure := o.removal.failure; failure != nil && !o.removal.busy() && !p.memory.unansweredReported {
		p.memory.unansweredReported = true
		c.record(ctx, p, removalUnanswered(o.mayHaveJob, failure.message))
	}
}

// reportDraining says once, in the status and in an Event, that the deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, p *pass) error {
	reported := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDraining)
	if reported || kube.IsStale(p.EphemeralRunner, p.memory.writtenVersion) {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	event := draining()
	report.SetConditions(&p.Status.Conditions, p.Generation, c.options.Clock.Now(),
		report.True(v1alpha1.ConditionDraining, "JobRunning", event.Note))
	return c.patchStatus(ctx, p, before, event)
}

// keptReported reports whether the status says that the runner has ended and that somebody keeps its pod.
func (p *pass) keptReported() bool {
	return p.Status.Done() && p.Status.Reason == v1alpha1.ReasonPodTerminating
}

// reportKept says once, in the status and in an Event, that the runner has ended and who keeps its pod. If the status already
// has a final phase, it stays.
func (c *Controller) reportKept(ctx context.Context, p *pass, pod outcome) error {
	if kube.IsStale(p.EphemeralRunner, p.memory.writtenVersion) {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	status := &p.Status
	switch {
	case status.Done():
	case pod.state == podSucceeded:
		status.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	default:
		status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
	}
	due, finalizers := terminationOf(p.pod)
	status.Ready, status.Reason = false, v1alpha1.ReasonPodTerminating
	status.Message = kube.WhyTerminating(p.Name, due, finalizers)
	return c.patchStatus(ctx, p, before, podKept(status.Message))
}

// deleteHookResources deletes, once, what container hooks created for the runner's job. Nothing of it has an owner, so nothing else
// deletes it, and pods keep the runner's volume claim. As long as the runner container runs, its hooks may create more, so it is
// left until then. A refusal is believed only if it lasts; an Event then says what is left. Roles of earlier charts grant nothing
// on Jobs, which doesn't matter for a runner that had no job or has ended by itself: its hooks have no Job that still runs.
func (c *Controller) deleteHookResources(ctx context.Context, p *pass) error {
	ended := p.outcome.over() || p.outcome.state == podMissing || p.memory.pod.passedOver()
	if p.memory.hooksDeleted || !ended || !usesContainerHooks(&p.Spec.PodSpec) {
		return nil
	}
	err := errors.Join(c.deleteLabelled(ctx, p, corev1.SchemeGroupVersion.WithKind("Pod")),
		c.deleteLabelled(ctx, p, corev1.SchemeGroupVersion.WithKind("Secret")))
	if hooksCreateJobs(&p.Spec.PodSpec) {
		refused := c.deleteLabelled(ctx, p, batchv1.SchemeGroupVersion.WithKind("Job"))
		exited := p.memory.ending == podSucceeded || p.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded
		if !apierrors.IsForbidden(refused) || p.Status.HadJob() && !exited {
			err = errors.Join(err, refused)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, errTooManyLabelled):
		c.record(ctx, p, hookResourcesLeft(p.Name, err))
	case !apierrors.IsForbidden(err):
		return err
	default:
		now := c.options.Clock.Now()
		kube.SetIfZero(&p.memory.hooksRefusedAt, now)
		if apiaccess.MayPass(err, p.memory.hooksRefusedAt, now) {
			return err
		}
		c.record(ctx, p, hookResourcesLeft(p.Name, err))
	}
	p.memory.hooksDeleted = true
	return nil
}

// A job has a handful of pods, Jobs and Secrets, but a workflow may label what it likes: of each kind, at most labelledPages pages
// of labelledPage objects are read and deleted, labelledAtOnce at a time.
const (
	labelledPage   = 100
	labelledPages  = 10
	labelledAtOnce = 10
)

var errTooManyLabelled = fmt.Errorf("there are more than %d of one kind", labelledPage*labelledPages)

// deleteLabelled deletes the objects of one kind that carry the runner's name as a label, and what they own: a Job's pod has no
// such label. It fails with errTooManyLabelled if some are left because there are too many.
func (c *Controller) deleteLabelled(ctx context.Context, p *pass, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	for range labelledPages {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.options.Reader.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingLabels{v1alpha1.LabelRunnerPod: p.Name},
			client.Limit(labelledPage), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list what container hooks made: %w", err)
		}
		if err := kube.ForEach(ctx, labelledAtOnce, list.Items, func(ctx context.Context, found metav1.PartialObjectMetadata) error {
			found.SetGroupVersionKind(kind)
			err := c.options.Client.Delete(ctx, &found, client.PropagationPolicy(metav1.DeletePropagationBackground))
			return client.IgnoreNotFound(err)
		}); err != nil {
			return fmt.Errorf("delete what container hooks made: %w", err)
		}
		if list.Continue == "" {
			return nil
		}
	}
	return errTooManyLabelled
}

// removeFinalizers removes the finalizers once, and records an Event if something is left on GitHub.
func (c *Controller) removeFinalizers(ctx context.Context, p *pass, leftBehind string) error {
	if p.memory.finalizersRemoved {
		return nil
	}
	err := kube.RemoveFinalizersAndManagedFields(ctx, c.options.Client, p.EphemeralRunner,
		v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration)
	if err != nil {
		return err
	}
	p.memory.finalizersRemoved = true
	if leftBehind != "" {
		c.record(ctx, p, registrationLeft(leftBehind))
	}
	return nil
}
