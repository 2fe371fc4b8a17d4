package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// apply takes a step, and returns when to look again.
func (c *Controller) apply(ctx context.Context, r *run, d decision) (time.Time, error) {
	switch d.step {
	case provision:
		c.provision(r, 0)
	case provisionAgain:
		c.provision(r, r.memory.registration)
	case deregister:
		c.deregister(r)
	case reportRunning:
		return d.again, c.reportRunning(ctx, r)
	case reportPending:
		return d.again, c.reportPending(ctx, r, d)
	case reportSidecar:
		c.reportSidecar(ctx, r, d)
		return c.Clock.Now(), nil // for what else the pod has to say
	case discard:
		return d.again, c.deletePod(ctx, r)
	case retry, retryAnew:
		return d.again, c.retry(ctx, r, d)
	case clear:
		r.memory.exited = c.Clock.Now()
		return d.again, c.deletePod(ctx, r)
	case succeed:
		return d.again, c.finish(ctx, r, v1alpha1.EphemeralRunnerPhaseSucceeded, decision{}, nil)
	case fail, failBusy:
		return d.again, c.fail(ctx, r, d)
	case outdate:
		return d.again, c.outdate(ctx, r, d)
	case remove, replace:
		return d.again, c.remove(ctx, r, d)
	case wait:
	}
	return d.again, nil
}

// clean removes what a runner that is done has left: pod, Secret, and registration. The object itself stays until its
// set has drawn its conclusions. Where there was a job the set asks GitHub, which may still count it.
func (c *Controller) clean(ctx context.Context, r *run) (time.Time, error) {
	err := errors.Join(c.deletePod(ctx, r), c.deleteSecret(ctx, r))
	if r.Status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded || r.Status.JobCompleted() || hasJob(r) || c.unregistered(r) {
		return time.Time{}, err
	}
	removal := progressOf(c.removals.Last(r.key))
	switch {
	case removal.running || removal.known && removal.failure == nil:
	case c.Clock.Now().Before(removal.due):
		return removal.due, err
	default:
		c.deregister(r)
	}
	return time.Time{}, err
}

// remove deletes the object of a runner that has done its work, or that another has to take the place of. Its pod goes
// first, because that is what occupies a machine; the news of that brings the runner back, behind the pods of others.
func (c *Controller) remove(ctx context.Context, r *run, d decision) error {
	if r.memory.deleted {
		return nil
	}
	if r.pod != nil && r.pod.DeletionTimestamp == nil && r.memory.podDeleted != r.pod.UID {
		// Where it is not ours to delete garbage collection does it, once the runner is gone.
		if err := c.deletePod(ctx, r); err != nil || r.memory.podDeleted == r.pod.UID {
			return err
		}
	}
	err := c.Client.Delete(ctx, r.EphemeralRunner.DeepCopy(), client.Preconditions{UID: ptr.To(r.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete runner: %w", err)
	}
	r.memory.deleted = true
	if d.step == replace {
		c.tell(ctx, r, kube.Warning(d.reason, "Register", d.message))
	}
	return nil
}

// retry notes a failed attempt and removes its pod, and its Secret where the registration is gone.
func (c *Controller) retry(ctx context.Context, r *run, d decision) error {
	if d.step == retryAnew {
		if err := c.deleteSecret(ctx, r); err != nil {
			return err
		}
		r.memory.registration = 0
	}
	before := r.EphemeralRunner.DeepCopy()
	if r.Status.Failures == nil {
		r.Status.Failures = map[string]metav1.Time{}
	}
	r.Status.Failures[string(r.memory.podUID)] = metav1.NewTime(c.Clock.Now())
	r.Status.Phase, r.Status.Ready, r.Status.RunnerID = v1alpha1.EphemeralRunnerPhasePending, false, r.memory.registration
	r.Status.Reason, r.Status.Message = d.reason, d.message
	news := fmt.Sprintf("attempt %d of %d failed: %s", len(r.Status.Failures), len(retryPauses)+1, d.message)
	if err := c.patchStatus(ctx, r, before, kube.Warning(d.reason, actionRun, news)); err != nil {
		return err
	}
	// Not before: where the status was not written the same is decided again, from the same answers.
	r.memory.newAttempt(d.step == retryAnew)
	c.provisions.Forget(r.key)
	c.removals.Forget(r.key)
	return c.deletePod(ctx, r)
}

// deletePod deletes the runner's pod unless it is being deleted already. One whose containers have all ended goes at
// once; so does one whose node does not answer. Options given come after its own.
func (c *Controller) deletePod(ctx context.Context, r *run, more ...client.DeleteOption) error {
	if r.pod == nil || r.memory.podLeft {
		return nil
	}
	options := []client.DeleteOption{client.Preconditions{UID: ptr.To(r.pod.UID)}}
	stuck := stuck(r.pod, c.Clock.Now())
	over := r.pod.Status.Phase == corev1.PodSucceeded || r.pod.Status.Phase == corev1.PodFailed
	if !stuck && (r.pod.DeletionTimestamp != nil || r.memory.podDeleted == r.pod.UID) {
		return nil
	}
	if over || stuck {
		options = append(options, client.GracePeriodSeconds(0))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.pod.Namespace, Name: r.pod.Name}}
	err := c.Client.Delete(ctx, pod, append(options, more...)...)
	r.memory.podLeft = apierrors.IsForbidden(err) && !r.DeletionTimestamp.IsZero()
	if err == nil {
		r.memory.podDeleted = r.pod.UID
	}
	return r.harmless("delete pod", err)
}

// harmless drops the errors of a deletion that mean that nothing is left to do here: the object is gone, or is another
// one, or Helm has taken the permission away and garbage collection will do it, for the runner owns it. While the runner
// stays nothing is collected, and an API server that was just started forbids what it will allow once it has read the
// Roles: then the deletion is tried again.
func (r *run) harmless(what string, err error) error {
	switch {
	case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err) && !r.DeletionTimestamp.IsZero():
		return nil
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// patchStatus writes the status and then tells the news: a write that fails is repeated, and its Event must not be.
func (c *Controller) patchStatus(ctx context.Context, r *run, before *v1alpha1.EphemeralRunner, news ...kube.Event) error {
	r.Status.ObservedGeneration = r.Generation
	kube.SetConditions(&r.Status.Conditions, r.Generation, c.Clock.Now(), readiness(&r.Status)...)
	wrote, err := kube.PatchStatus(ctx, c.Client, r.EphemeralRunner, before)
	if wrote {
		r.memory.written = r.ResourceVersion
		for _, event := range news {
			c.tell(ctx, r, event)
		}
	}
	return client.IgnoreNotFound(err)
}
