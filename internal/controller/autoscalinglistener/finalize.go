package autoscalinglistener

import (
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
	if err := kube.RemoveFinalizers(ctx, c.options.Client, p.listener, v1alpha1.FinalizerAutoscalingListener); err != nil {
		return err
	}
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
	}
	return nil
}
