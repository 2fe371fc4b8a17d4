package autoscalinglistener

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
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
		if p.state, err = c.assess(ctx, p, p.pod, listenerpod.Unwanted); err != nil {
			return err
		}
		if p.state.Action == listenerpod.DeleteEnded {
			p.state.Action = listenerpod.Replace // there is no successor that would have to wait
		}
		if p.state.Reason != v1alpha1.ReasonPodTerminating {
			p.state.Reason, p.state.Message = reasonStopping, "the listener is closing its session"
		}
		return c.applyAction(ctx, p, p.pod, p.state)
	}
	p.state = listenerpod.State{Reason: v1alpha1.ReasonListenerStopped, Message: "the pod is gone; the Secrets stay until the scale set is deleted on GitHub"}
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

// findKept notes that an object that was to be deleted has finalizers of others. None of ours is ever on these kinds.
func (p *pass) findKept(named, live client.Object) {
	keepers := live.GetFinalizers()
	if len(keepers) == 0 || p.objects.Standing(named, live) == kube.Foreign {
		return
	}
	if wait := p.memory.kept.Look(live.GetUID(), p.now); wait > 0 {
		p.undecided = true
		p.requeue.After(wait)
		return
	}
	p.blocked = cmp.Or(p.blocked, kube.WhyKept(p.objects.Kind(live), client.ObjectKeyFromObject(live), keepers))
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
