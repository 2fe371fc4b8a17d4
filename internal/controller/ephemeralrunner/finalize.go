package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// finalize lets a runner go that is being deleted, and returns when to look again.
func (c *Controller) finalize(ctx context.Context, p *pass) (time.Time, error) {
	if p.memory.released || !slices.ContainsFunc(p.Finalizers, isOurs) {
		return time.Time{}, nil
	}
	e := c.ending(p)
	f := planFarewell(e)
	p.memory.forced = p.memory.forced || f.forced
	var errs []error
	if f.deregister {
		c.deregister(p)
	}
	if f.drain {
		errs = append(errs, c.reportDraining(ctx, p))
	}
	if f.stop {
		errs = append(errs, c.stop(ctx, p, f.unbound))
	}
	if p.memory.podLeft && e.pod.state != podMissing {
		return c.options.Clock.Now(), errors.Join(errs...) // nobody waits for a pod that only goes after the runner
	}
	if f.release && errors.Join(errs...) == nil {
		errs = append(errs, c.release(ctx, p, f.leftBehind))
	}
	return f.again, errors.Join(errs...)
}

// ending gathers what a farewell depends on.
func (c *Controller) ending(p *pass) *ending {
	now := c.options.Clock.Now()
	provisioning, removal := p.provisioning, progressOf(c.removals.Last(p.key))
	if removal.failure != nil && removal.failure.kind == failureBusy {
		p.memory.busy = true
	}
	if c.options.Removed.Has(p.UID, p.memory.registration) {
		removal = progress{known: true} // its set has asked
	}
	pod := outcomeOf(p.pod, p.memory.clockOf(p.pod, now))
	if p.memory.podLeft {
		pod.state = podMissing
	}
	return &ending{
		pod: pod, bound: p.pod != nil && p.pod.Spec.NodeName != "", hasJob: hasJob(p), completed: c.spent(p),
		registered: !c.unregistered(p), provisioning: provisioning.running,
		unseen: provisioning.known && provisioning.failure == nil && !p.hadPod() &&
			now.Before(provisioning.finished.Add(unseenInFarewell)),
		removal: removal, forced: p.memory.forced,
		deleting: p.memory.deleting, stopped: p.memory.stopped, podGone: p.memory.podGone, now: now,
	}
}

// stop deletes pod, Secret and what container hooks made. A pod that must be unbound is left, with its Secret, where the
// API server knows more than the cache does: the watch will tell what has become of it.
func (c *Controller) stop(ctx context.Context, p *pass, unbound bool) error {
	var only []client.DeleteOption
	if unbound {
		asCached := kube.UIDPrecondition(p.pod)
		asCached.ResourceVersion = &p.pod.ResourceVersion
		only = append(only, asCached)
	}
	err := c.deletePod(ctx, p, only...)
	if unbound && p.memory.podDeleted != p.pod.UID && !p.memory.podLeft {
		return err
	}
	return errors.Join(err, c.deleteSecret(ctx, p), c.deleteHookResources(ctx, p))
}

func isOurs(finalizer string) bool {
	return finalizer == v1alpha1.FinalizerEphemeralRunner || finalizer == v1alpha1.FinalizerRunnerRegistration
}

// reportDraining says, once, that deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, p *pass) error {
	if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDraining) || kube.IsStale(p.EphemeralRunner, p.memory.written) {
		return nil
	}
	before := p.EphemeralRunner.DeepCopy()
	event := draining()
	kube.SetConditions(&p.Status.Conditions, p.Generation, c.options.Clock.Now(),
		kube.True(v1alpha1.ConditionDraining, "JobRunning", event.Note))
	return c.patchStatus(ctx, p, before, event)
}

// deleteHookResources deletes, once, the pods and Secrets that container hooks made for the runner's job.
func (c *Controller) deleteHookResources(ctx context.Context, p *pass) error {
	if p.memory.hooksDeleted || !usesContainerHooks(&p.Spec.PodSpec) {
		return nil
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		if err := c.deleteLabelled(ctx, p, list); err != nil {
			return err
		}
	}
	p.memory.hooksDeleted = true
	return nil
}

// deleteLabelled deletes the objects of one kind that are labelled with the runner's name.
func (c *Controller) deleteLabelled(ctx context.Context, p *pass, list client.ObjectList) error {
	err := c.options.Reader.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingLabels{v1alpha1.LabelRunnerPod: p.Name})
	if err != nil {
		return p.harmless("list what container hooks made", err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("list what container hooks made: %w", err)
	}
	for _, object := range objects {
		if err := p.harmless("delete what container hooks made", c.options.Client.Delete(ctx, object.(client.Object))); err != nil {
			return err
		}
	}
	return nil
}

// release removes the finalizers, once, and tells what is left on GitHub, if anything.
func (c *Controller) release(ctx context.Context, p *pass, leftBehind string) error {
	if p.memory.released {
		return nil
	}
	err := kube.RemoveFinalizersAndManagedFields(ctx, c.options.Client, p.EphemeralRunner,
		v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration)
	if err != nil {
		return err
	}
	p.memory.released = true
	if leftBehind != "" {
		c.tell(ctx, p, registrationLeft(leftBehind))
	}
	return nil
}
