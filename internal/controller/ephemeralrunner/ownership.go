package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// A runner whose set doesn't live is nobody's: no maxRunners limits it, and no uninstall removes it. Such runners, Secrets and pods come
// from backups, which lose owners or have those of another time or cluster, or are made by hand. They are removed before they get
// anything, and adopted by nobody: how many a set wants is for the set to say.

// uncountedRecheck is when to look again at a runner that its set doesn't count, or has no room for. A set that doesn't is restored in a
// second, or deleted with its runners in half a minute.
const uncountedRecheck = 5 * time.Second

// abandonedPodRetry is when to try again to delete a pod that the manager may not delete. The right comes from a scale set's Role.
const abandonedPodRetry = 5 * time.Minute

// runnerSet returns the set that controls a runner, nil if none that lives does. What the cache lacks may just be late, so the API server
// is asked before a runner is called abandoned.
func (c *Controller) runnerSet(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*v1alpha1.EphemeralRunnerSet, error) {
	for _, reader := range []client.Reader{c.options.Client, c.options.Reader} {
		set := &v1alpha1.EphemeralRunnerSet{}
		found, err := kube.ReadController(ctx, reader, runner, "EphemeralRunnerSet", set, client.UnsafeDisableDeepCopy)
		switch {
		case err != nil:
			return nil, err
		case found:
			return set, nil
		}
	}
	return nil, nil
}

// removeAbandoned deletes a runner that no set counts. The finalization that follows lets a job finish and removes what the runner has,
// so a runner whose finalizer was lost gets it back first.
func (c *Controller) removeAbandoned(ctx context.Context, p *pass) (time.Time, error) {
	later := c.options.Clock.Now().Add(staleRequeueAfter)
	if p.memory.runnerDeleted {
		return later, nil
	}
	p.memory.shared.abandon()
	why := whyAbandoned(p.EphemeralRunner)
	if err := kube.AddFinalizer(ctx, c.options.Client, p.EphemeralRunner, v1alpha1.FinalizerEphemeralRunner, v1alpha1.FinalizerRunnerRegistration); err != nil {
		p.memory.shared.resume() // somebody may have given it an owner
		return later, kube.IgnoreOvertaken(err)
	}
	unchanged := kube.UnchangedPrecondition(p.EphemeralRunner) // somebody may be giving it an owner
	if err := c.options.Client.Delete(ctx, p.EphemeralRunner.DeepCopy(), unchanged); err != nil {
		p.memory.shared.resume()
		if err = kube.IgnoreOvertaken(err); err != nil {
			err = fmt.Errorf("delete runner without a set: %w", err)
		}
		return later, err
	}
	p.memory.runnerDeleted, p.memory.abandoned = true, true
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

// uncounted returns why a runner may not get a registration and a pod yet, nil if it may: its set belongs to an AutoscalingRunnerSet, which
// decides how many runners there are, and has room for this one. A set creates no more than it has room for; others may.
func (c *Controller) uncounted(ctx context.Context, p *pass) (*failure, error) {
	set := p.runnerSet
	origin, err := c.origin(ctx, set)
	switch {
	case err != nil:
		return nil, err
	case origin == nil:
		return errSetOwnerless, nil
	}
	most := origin.Spec.EffectiveMaxRunners()
	if set.Spec.MaxRunners != nil {
		most = min(most, *set.Spec.MaxRunners)
	}
	if c.options.Admit != nil && !c.options.Admit(set.UID, p.key.NamespacedName, most) {
		return errNoRoom, nil
	}
	return nil, nil
}

// origin returns the AutoscalingRunnerSet that a set belongs to, nil if none that lives.
func (c *Controller) origin(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (*v1alpha1.AutoscalingRunnerSet, error) {
	origin := &v1alpha1.AutoscalingRunnerSet{}
	found, err := kube.ReadController(ctx, c.options.Client, set, "AutoscalingRunnerSet", origin, client.UnsafeDisableDeepCopy)
	if err != nil || !found {
		return nil, err
	}
	return origin, nil
}

// Why a runner waits that its set doesn't count.
var (
	errSetOwnerless = &failure{reason: v1alpha1.ReasonOwnerless, message: "its EphemeralRunnerSet belongs to no AutoscalingRunnerSet; the manager takes the set back, or removes it"}
	errNoRoom       = &failure{reason: v1alpha1.ReasonMaxRunnersReached, message: "its EphemeralRunnerSet has as many runners as maxRunners allows, without this one; those that nobody needs are removed"}
)

// removeRemains deletes what has the name of a runner that doesn't exist, and was a runner's, and has no owner: a backup has brought it back.
// The registration is used up or another's, and nobody counts the pod. It is read once more: what the cache keeps of a pod doesn't tell a
// runner's from one that only has its label. The Secret goes first, because the pod leads to it.
func (c *Controller) removeRemains(ctx context.Context, name types.NamespacedName) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, name, pod, client.UnsafeDisableDeepCopy)
	if err != nil || !mayBeAbandoned(pod) {
		if c.vanished(name) {
			secretErr := c.deleteAbandonedSecret(ctx, name)
			if apierrors.IsForbidden(secretErr) {
				secretErr = nil // the Role that permits it goes with the scale set, and nothing brings it back
			}
			err = errors.Join(client.IgnoreNotFound(err), secretErr)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pod = &corev1.Pod{}
	err = c.options.Reader.Get(ctx, name, pod)
	if err == nil && (!mayBeAbandoned(pod) || !takesRegistration(pod)) {
		return ctrl.Result{}, nil
	}
	if err == nil {
		err = c.deleteAbandonedSecret(ctx, name)
	}
	if err == nil {
		err = c.options.Client.Delete(ctx, pod, kube.UIDPrecondition(pod))
	}
	switch {
	case apierrors.IsForbidden(err):
		return ctrl.Result{RequeueAfter: abandonedPodRetry}, nil // the doctor names the pod
	case err != nil:
		return ctrl.Result{}, kube.IgnoreOvertaken(err)
	}
	report.RecordEvent(ctx, c.options.Recorder, pod, nil, report.Warning(v1alpha1.ReasonOwnerless, actionDelete,
		"the pod is deleted: no EphemeralRunner owns it, so nobody counts it, as after a restore from a backup; leave runner pods and their Secrets out of backups"))
	return ctrl.Result{}, nil
}

// vanished reports whether a runner went without its finalization: it came back without its finalizer and was garbage collected before
// it had it again. Only what has no owner outlives it.
func (c *Controller) vanished(name types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memories[name]
	return m != nil && m.mayVanish && !m.finalizersRemoved
}

func (c *Controller) deleteAbandonedSecret(ctx context.Context, name types.NamespacedName) error {
	secret, err := c.readSecret(ctx, &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
	if err != nil || secret == nil || !isAbandonedSecret(secret, name.Name) {
		return err
	}
	return client.IgnoreNotFound(c.options.Client.Delete(ctx, secret, kube.UIDPrecondition(secret)))
}

// mayBeAbandoned reports whether a pod has the label of runners and no owner, as far as the cache tells. One that runs a job, and whose
// owner somebody has taken away (kubectl delete --cascade=orphan), ends it first: a restored one ends at once, for want of a registration.
func mayBeAbandoned(pod *corev1.Pod) bool {
	if pod.Labels[v1alpha1.LabelRunnerBusy] == v1alpha1.RunnerBusy && pod.Status.Phase == corev1.PodRunning {
		return false
	}
	return pod.Labels[v1alpha1.LabelRunner] != "" && metav1.GetControllerOfNoCopy(pod) == nil && pod.DeletionTimestamp == nil
}

// takesRegistration reports whether the pod's runner takes its JIT config from the Secret that has the pod's name.
func takesRegistration(pod *corev1.Pod) bool {
	container := kube.Container(&pod.Spec, v1alpha1.RunnerContainerName)
	if container == nil {
		return false
	}
	for _, variable := range container.Env {
		if variable.Name == envJITConfig && variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			return variable.ValueFrom.SecretKeyRef.Name == pod.Name
		}
	}
	return false
}

// isAbandonedSecret reports whether a Secret was the registration of the runner of that name and has lost its owner.
func isAbandonedSecret(secret *corev1.Secret, runner string) bool {
	return metav1.GetControllerOfNoCopy(secret) == nil && secret.Labels[v1alpha1.LabelScaleSetName] != "" &&
		string(secret.Data[secretKeyRunnerName]) == runner && len(secret.Data[secretKeyJITConfig]) > 0
}
