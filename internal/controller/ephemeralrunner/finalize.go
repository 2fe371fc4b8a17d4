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
func (c *Controller) finalize(ctx context.Context, r *run) (time.Time, error) {
	if r.memory.released || !slices.ContainsFunc(r.Finalizers, isOurs) {
		return time.Time{}, nil
	}
	e := c.ending(r)
	f := planFarewell(e)
	r.memory.forced = r.memory.forced || f.forced
	var errs []error
	if f.deregister {
		c.deregister(r)
	}
	if f.drain {
		errs = append(errs, c.reportDraining(ctx, r))
	}
	if f.stop {
		errs = append(errs, c.stop(ctx, r, f.unbound))
	}
	if r.memory.podLeft && e.pod.state != podMissing {
		return c.Clock.Now(), errors.Join(errs...) // nobody waits for a pod that only goes after the runner
	}
	if f.release && errors.Join(errs...) == nil {
		errs = append(errs, c.release(ctx, r, f.leftBehind))
	}
	return f.again, errors.Join(errs...)
}

// ending gathers what a farewell depends on.
func (c *Controller) ending(r *run) *ending {
	now := c.Clock.Now()
	provisioning, removal := progressOf(c.provisions.Last(r.key)), progressOf(c.removals.Last(r.key))
	if removal.failure != nil && removal.failure.kind == busy {
		r.memory.busy = true
	}
	if c.Removed.Has(r.UID, r.memory.registration) {
		removal = progress{known: true} // its set has asked
	}
	pod := outcomeOf(r.pod, now)
	if r.memory.podLeft {
		pod.state = podMissing
	}
	return &ending{
		pod: pod, bound: r.pod != nil && r.pod.Spec.NodeName != "", hasJob: hasJob(r), completed: r.Status.JobCompleted(),
		registered: !c.unregistered(r), provisioning: provisioning.running,
		unseen: provisioning.known && provisioning.failure == nil && !r.hadPod() &&
			now.Before(provisioning.finished.Add(unseenInFarewell)),
		removal: removal, forced: r.memory.forced,
		deleting: r.memory.deleting, stopped: r.memory.stopped, podGone: r.memory.podGone, now: now,
	}
}

// stop deletes pod, Secret and what container hooks made. A pod that must be unbound is left, with its Secret, where the
// API server knows more than the cache does: the watch will tell what has become of it.
func (c *Controller) stop(ctx context.Context, r *run, unbound bool) error {
	var only []client.DeleteOption
	if unbound {
		only = append(only, client.Preconditions{UID: &r.pod.UID, ResourceVersion: &r.pod.ResourceVersion})
	}
	err := c.deletePod(ctx, r, only...)
	if unbound && r.memory.podDeleted != r.pod.UID && !r.memory.podLeft {
		return err
	}
	return errors.Join(err, c.deleteSecret(ctx, r), c.deleteHookResources(ctx, r))
}

func isOurs(finalizer string) bool {
	return finalizer == v1alpha1.FinalizerEphemeralRunner || finalizer == v1alpha1.FinalizerRunnerRegistration
}

// reportDraining says, once, that deletion waits for a job.
func (c *Controller) reportDraining(ctx context.Context, r *run) error {
	if meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionDraining) || kube.Older(r.EphemeralRunner, r.memory.written) {
		return nil
	}
	before := r.EphemeralRunner.DeepCopy()
	message := "the runner has a job and is deleted when it has finished"
	kube.SetConditions(&r.Status.Conditions, r.Generation, c.Clock.Now(), kube.True(v1alpha1.ConditionDraining, "JobRunning", message))
	return c.patchStatus(ctx, r, before, kube.Normal(v1alpha1.ConditionDraining, actionDelete, message))
}

// deleteHookResources deletes, once, the pods and Secrets that container hooks made for the runner's job.
func (c *Controller) deleteHookResources(ctx context.Context, r *run) error {
	if r.memory.hooksDeleted || !usesContainerHooks(&r.Spec.PodSpec) {
		return nil
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		if err := c.deleteLabelled(ctx, r, list); err != nil {
			return err
		}
	}
	r.memory.hooksDeleted = true
	return nil
}

// deleteLabelled deletes the objects of one kind that are labelled with the runner's name.
func (c *Controller) deleteLabelled(ctx context.Context, r *run, list client.ObjectList) error {
	err := c.Reader.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelRunnerPod: r.Name})
	if err != nil {
		return r.harmless("list what container hooks made", err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("list what container hooks made: %w", err)
	}
	for _, object := range objects {
		if err := r.harmless("delete what container hooks made", c.Client.Delete(ctx, object.(client.Object))); err != nil {
			return err
		}
	}
	return nil
}

// release removes the finalizers, and tells what is left on GitHub, if anything.
func (c *Controller) release(ctx context.Context, r *run, leftBehind string) error {
	err := kube.RemoveFinalizers(ctx, c.Client, r.EphemeralRunner,
		v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration)
	if err != nil {
		return err
	}
	r.memory.released = true
	if leftBehind != "" {
		c.tell(ctx, r, kube.Warning("RegistrationLeft", actionDelete,
			"the registration is left on GitHub, which removes it after a day: "+leftBehind))
	}
	return nil
}
