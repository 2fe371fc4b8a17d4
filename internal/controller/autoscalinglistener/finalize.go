package autoscalinglistener

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// finalize deletes the pod, then its rights, and finally the Secrets once they are no longer needed.
func (c *Controller) finalize(ctx context.Context, p *pass) error {
	if !slices.Contains(p.listener.Finalizers, v1alpha1.FinalizerAutoscalingListener) {
		p.released = true
		return nil
	}
	if p.pod != nil {
		var err error
		if p.state, err = c.assess(ctx, p, p.pod, unwanted); err != nil {
			return err
		}
		if p.state.action == actionDeleteEnded {
			p.state.action = actionReplace // there is no successor that would have to wait
		}
		if p.state.reason != v1alpha1.ReasonPodTerminating {
			p.state.reason, p.state.message = reasonStopping, "the listener is closing its session"
		}
		return c.applyAction(ctx, p, p.pod, p.state)
	}
	p.state = podState{reason: v1alpha1.ReasonListenerStopped, message: "the pod is gone; the Secrets stay until the scale set is deleted on GitHub"}
	if err := c.revoke(ctx, p); err != nil {
		return err
	}
	if deregistrationPending(p.set) {
		return nil // an event of the AutoscalingRunnerSet brings the next pass
	}
	for _, suffix := range []string{credentials.ListenerConfigSuffix, credentials.ListenerProxySuffix} {
		if err := c.deleteSecret(ctx, p, suffix); err != nil {
			return err
		}
	}
	if p.undecided {
		return nil // the listener would be gone before somebody could be told
	}
	if err := kube.RemoveFinalizers(ctx, c.options.Client, p.listener, v1alpha1.FinalizerAutoscalingListener); err != nil {
		return err
	}
	c.tellBlocked(ctx, p)
	p.released = true
	return nil
}

// deregistrationPending reports whether the AutoscalingRunnerSet is being deleted and its scale set is still to be deleted on
// GitHub. A listener that was deleted on its own is not delayed: its successor gets its own Secrets.
func deregistrationPending(set *v1alpha1.AutoscalingRunnerSet) bool {
	return set != nil && set.DeletionTimestamp != nil &&
		slices.Contains(set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) &&
		(set.Status.Registration != nil || set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] != "")
}

// setOrName returns the set, or one that has its name only if it is gone.
func (p *pass) setOrName() *v1alpha1.AutoscalingRunnerSet {
	if p.set != nil {
		return p.set
	}
	return &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.setKey.Namespace, Name: p.setKey.Name}}
}

// revoke deletes the listener's ServiceAccount and rights, but nothing that only has their names. Forbidden means that the manager's Role in the other namespace was
// deleted first; then garbage collection deletes the rest together with the AutoscalingRunnerSet.
func (c *Controller) revoke(ctx context.Context, p *pass) error {
	if p.listener.Spec.AutoscalingRunnerSetNamespace != p.setKey.Namespace {
		return nil // somebody has edited the spec, which no longer says where the rights are; they go with the set
	}
	wanted, set := accessFor(p.listener, c.options.Policy), p.setOrName()
	for _, object := range []struct{ owner, named, live client.Object }{
		{set, wanted.binding, &rbacv1.RoleBinding{}}, {set, wanted.role, &rbacv1.Role{}}, {p.listener, wanted.account, &corev1.ServiceAccount{}},
	} {
		object.named.SetOwnerReferences(kube.OwnedBy(object.owner))
		key := client.ObjectKeyFromObject(object.named)
		switch err := c.options.Client.Get(ctx, key, object.live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("get %T %s: %w", object.live, key, err)
		}
		err := c.deleteOwn(ctx, p, object.named, object.live)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("delete %T %s: %w", object.live, key, err)
		}
		c.findKept(p, object.named, object.live)
	}
	return nil
}

// findKept notes that an object that was to be deleted has finalizers of others. None of ours is ever on these kinds.
func (c *Controller) findKept(p *pass, named, live client.Object) {
	keepers := live.GetFinalizers()
	if len(keepers) == 0 || p.standing(named, live) == kube.Foreign {
		return
	}
	if wait := p.memory.kept.Look(live.GetUID(), p.now); wait > 0 {
		p.undecided = true
		p.requeue.After(wait)
		return
	}
	p.blocked = cmp.Or(p.blocked, kube.WhyKept(c.kindOf(live), client.ObjectKeyFromObject(live), keepers))
}

// tellBlocked says that the listener is gone and one of its objects is not. Nobody else watches that object any more. An Event about
// the listener is in the manager's namespace, in which one can be created even while the set's namespace is being deleted.
func (c *Controller) tellBlocked(ctx context.Context, p *pass) {
	if p.blocked == "" {
		return
	}
	event := report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete", p.blocked)
	report.RecordEvent(ctx, c.options.Recorder, p.listener, nil, event)
	if p.set != nil {
		report.RecordEvent(ctx, c.options.Recorder, p.set, p.listener, event)
	}
}
