package autoscalinglistener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// takenRetry is after what time a name is tried again that somebody else's object has. No watch shows such an object.
const takenRetry = time.Minute

// Reconcile brings one listener a step closer to what its spec says. Whatever the spec names is written with the manager's rights, so
// only a listener that the manager wrote itself counts: one in its own namespace, and the one that its scale set has.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Namespace != c.options.Namespace {
		return reconcile.Result{}, nil // c.ignored finds it
	}
	listener := &v1alpha1.AutoscalingListener{}
	if err := c.options.Client.Get(ctx, request.NamespacedName, listener); err != nil {
		if apierrors.IsNotFound(err) {
			c.memories.Forget(request.NamespacedName)
			unpublish(request.NamespacedName)
			return reconcile.Result{}, c.deleteAbandonedPod(ctx, request.NamespacedName)
		}
		return reconcile.Result{}, fmt.Errorf("get AutoscalingListener: %w", err)
	}
	ctx = kube.WithScaleSetLogger(ctx, kube.LabelledSet(listener))
	p, err := c.observe(ctx, listener)
	if err != nil {
		return reconcile.Result{}, err
	}
	var steps []func(context.Context, *pass) error
	switch {
	case listener.DeletionTimestamp != nil:
		steps = append(steps, c.finalize)
	case p.set == nil && contradiction(listener) == "" && kube.WasServed(listener):
		// Its scale set is gone. Garbage collection can't delete it, because owners can't be in another namespace.
		if err := c.options.Client.Delete(ctx, listener, kube.UIDPrecondition(listener)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("delete AutoscalingListener without a scale set: %w", err)
		}
		return reconcile.Result{}, nil
	case p.ignored != "":
		unpublish(p.key)
		c.ignored.Tell(ctx, listener, p.ignored)
		return reconcile.Result{}, nil
	case listener.Annotations[v1alpha1.AnnotationIntegrityHash] == "":
		return reconcile.Result{}, nil // the manager has not written all of it; it is about to, or has yet to take it over from ARC
	case p.set.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // the listener is deleted next; what the deletion of a namespace removed must not be recreated
	default:
		steps = append(steps, c.protect, c.applyAccess, c.applySecrets, c.applyPod)
	}
	err = kube.InOrder(ctx, p, steps...)
	err = c.describeFailure(ctx, p, err)
	return p.requeue.Result(errors.Join(err, c.report(ctx, p)))
}

// protect adds the finalizer, without which the pod and its Secrets would be deleted in any order.
func (c *Controller) protect(ctx context.Context, p *pass) error {
	return kube.AddFinalizer(ctx, c.options.Client, p.listener, v1alpha1.FinalizerAutoscalingListener)
}

// describeFailure sets the state after a step that failed: that of the pod if there is one to keep, else the error. A cache that is
// behind doesn't count as a failure. It returns the error unless that is a name that is taken, of which an Event tells a single time.
func (c *Controller) describeFailure(ctx context.Context, p *pass, err error) error {
	if err == nil {
		return nil
	}
	p.cutShort = true
	if taken, is := errors.AsType[*ownership.TakenError](err); is {
		p.taken = taken
		p.state = listenerpod.State{Reason: v1alpha1.ReasonListenerNameTaken, Message: taken.Error()}
		p.requeue.After(takenRetry)
		if before := meta.FindStatusCondition(p.listener.Status.Conditions, v1alpha1.ConditionReady); before == nil || before.Reason != p.state.Reason {
			report.RecordEvent(ctx, c.options.Recorder, p.listener, nil, report.Warning(p.state.Reason, "Create"+taken.Kind, taken.Error()))
		}
		return nil
	}
	if p.pod != nil {
		p.state = p.assessAsIs(p.pod)
	}
	if kube.IsBehind(err) {
		return err
	}
	p.failure = err
	if p.pod == nil || p.state.Action != listenerpod.Keep {
		p.state = listenerpod.State{Reason: v1alpha1.ReasonReconcileFailed, Message: report.WithAdvice(err)}
	}
	return err
}

// observe reads the objects of the listener, all of them from the cache. The set is the one that the listener's labels name.
func (c *Controller) observe(ctx context.Context, listener *v1alpha1.AutoscalingListener) (*pass, error) {
	memory, _ := c.memories.Of(listener)
	p := &pass{
		key: client.ObjectKeyFromObject(listener), setKey: kube.LabelledSet(listener), listener: listener, memory: memory, now: c.options.Clock.Now(),
	}
	p.objects = ownership.Objects{Client: c.options.Client, Reader: c.options.Reader, Listener: p.key, Set: p.setKey}
	if why := contradiction(listener); why != "" {
		p.ignored = why // the set may be in a namespace that the cache doesn't have
	} else if err := c.observeSet(ctx, p); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.options.Client.List(ctx, &pods, client.InNamespace(listener.Namespace), ofSet(p.setKey)); err != nil {
		return nil, fmt.Errorf("list listener pods: %w", err)
	}
	p.memory.kept.Begin()
	seenBefore := p.memory.deletingSince
	p.memory.deletingSince = map[types.UID]time.Time{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil {
			p.memory.deletingSince[pod.UID] = cmp.Or(seenBefore[pod.UID], p.now)
		}
		switch {
		case metav1.IsControlledBy(pod, listener) && pod.Name == listener.Name:
			p.pod = pod
		case isListenerPod(pod):
			p.strays = append(p.strays, pod)
		}
	}
	return p, nil
}

// contradiction returns why a listener can't be one that the manager wrote, empty if it can.
func contradiction(listener *v1alpha1.AutoscalingListener) string {
	labels := kube.LabelledSet(listener)
	spec := types.NamespacedName{Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName}
	switch {
	case labels.Name == "" || labels.Namespace == "":
		return "its labels name no scale set"
	case labels != spec:
		return fmt.Sprintf("its labels name scale set %s and its spec %s", labels, spec)
	}
	return ""
}

// observeSet reads the set, and whether the listener is the one that the set has.
func (c *Controller) observeSet(ctx context.Context, p *pass) error {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.options.Client.Get(ctx, p.setKey, set); apierrors.IsNotFound(err) {
		p.ignored = fmt.Sprintf("there is no AutoscalingRunnerSet %s", p.setKey)
		return nil
	} else if err != nil {
		return fmt.Errorf("get AutoscalingRunnerSet %s: %w", p.setKey, err)
	}
	p.set = set
	var listeners v1alpha1.AutoscalingListenerList
	if err := c.options.Client.List(ctx, &listeners, client.InNamespace(p.key.Namespace), ofSet(p.setKey)); err != nil {
		return fmt.Errorf("list AutoscalingListeners: %w", err)
	}
	kube.SortListeners(set, listeners.Items)
	if len(listeners.Items) > 0 && listeners.Items[0].Name != p.key.Name {
		p.ignored = fmt.Sprintf("scale set %s has another listener, %s", p.setKey, listeners.Items[0].Name)
	}
	return nil
}

// isListenerPod distinguishes listener pods, even if their AutoscalingListener is gone or a backup has lost it as their owner, from runner
// pods, which are in the same namespace if the scale set is in the manager's.
func isListenerPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return ownership.IsAbandoned(pod) || owner != nil && owner.Kind == "AutoscalingListener" && owner.APIVersion == v1alpha1.GroupVersion.String()
}
