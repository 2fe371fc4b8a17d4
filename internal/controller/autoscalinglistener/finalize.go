package autoscalinglistener

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// finalize deletes the pod, then its rights, and finally the Secrets, when nobody needs them any more.
func (c *Controller) finalize(ctx context.Context, w *world) error {
	if !slices.Contains(w.Object.Finalizers, v1alpha1.FinalizerAutoscalingListener) {
		w.released = true
		return nil
	}
	if w.pod != nil {
		var err error
		if w.state, err = c.assess(ctx, w, w.pod, listenerpod.Unwanted); err != nil {
			return err
		}
		if w.state.Action == listenerpod.DeleteEnded {
			w.state.Action = listenerpod.Replace // there is no successor that would have to wait
		}
		if w.state.Reason != v1alpha1.ReasonPodTerminating {
			w.state.Reason, w.state.Message = reasonStopping, "the listener is closing its session"
		}
		return c.applyAction(ctx, w, w.pod, w.state)
	}
	w.state = listenerpod.State{
		Reason:  v1alpha1.ReasonListenerStopped,
		Message: "the pod is gone; the Secrets stay until the scale set is deleted on GitHub",
	}
	if err := c.revoke(ctx, w); err != nil {
		return err
	}
	if deregistrationPending(w.set) {
		return nil // an event of the AutoscalingRunnerSet brings the next pass
	}
	for _, suffix := range []string{credentials.ListenerConfigSuffix, credentials.ListenerProxySuffix} {
		if err := c.deleteSecret(ctx, w, suffix); err != nil {
			return err
		}
	}
	if w.undecided {
		return nil // the listener would be gone before somebody could be told
	}
	if err := kube.RemoveFinalizers(ctx, c.options.Client, w.Object,
		v1alpha1.FinalizerAutoscalingListener); err != nil {
		return err
	}
	c.tellBlocked(ctx, w)
	w.released = true
	return nil
}

// revoke deletes the listener's ServiceAccount and rights, but nothing that only has their names. Forbidden means that
// the manager's Role in the other namespace was deleted first; then garbage collection deletes the rest together with
// the AutoscalingRunnerSet.
func (c *Controller) revoke(ctx context.Context, w *world) error {
	if w.Object.Spec.AutoscalingRunnerSetNamespace != w.setKey.Namespace {
		return nil // somebody has edited the spec, which no longer says where the rights are; they go with the set
	}
	for _, object := range slices.Backward(c.access(w)) { // rights first
		key := client.ObjectKeyFromObject(object.wanted)
		switch err := c.options.Client.Get(ctx, key, object.live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("get %T %s: %w", object.live, key, err)
		}
		err := w.objects.Delete(ctx, object.wanted, object.live)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("delete %T %s: %w", object.live, key, err)
		}
		w.findKept(object.wanted, object.live)
	}
	return nil
}

// deregistrationPending reports whether the AutoscalingRunnerSet is being deleted and its scale set is still to be
// deleted on GitHub. A listener that was deleted on its own is not delayed: its successor gets its own Secrets.
func deregistrationPending(set *v1alpha1.AutoscalingRunnerSet) bool {
	return set != nil && set.DeletionTimestamp != nil &&
		slices.Contains(set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) &&
		(set.Status.Registration != nil || set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] != "")
}

// findKept remembers that an object that was to be deleted has finalizers of others. None of ours is ever on these
// kinds.
func (w *world) findKept(named, live client.Object) {
	keepers := live.GetFinalizers()
	if len(keepers) == 0 || w.objects.Standing(named, live) == kube.Foreign {
		return
	}
	if wait := w.Memory.kept.Look(live.GetUID(), w.Now); wait > 0 {
		w.undecided = true
		w.Requeue.After(wait)
		return
	}
	w.blocked = cmp.Or(w.blocked, kube.WhyKept(w.objects.Kind(live), client.ObjectKeyFromObject(live), keepers))
}

// tellBlocked says that the listener is gone and one of its objects is not. Nobody else watches that object any more.
// An Event about the listener is in the manager's namespace, in which one can be created even while the set's namespace
// is being deleted.
func (c *Controller) tellBlocked(ctx context.Context, w *world) {
	if w.blocked == "" {
		return
	}
	event := report.Warning(v1alpha1.ReasonForeignFinalizers, "Delete", w.blocked)
	report.RecordEvent(ctx, c.options.Recorder, w.Object, nil, event)
	if w.set != nil {
		report.RecordEvent(ctx, c.options.Recorder, w.set, w.Object, event)
	}
}
