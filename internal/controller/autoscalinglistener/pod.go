package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// The successor of a pod that ended waits for successorFirstBackoff, twice as long after each further one, and at most
// for successorLongestBackoff, because whatever evicts one pod often evicts the next.
const (
	successorFirstBackoff   = 5 * time.Second
	successorLongestBackoff = time.Minute
)

// Reasons of the condition Ready that don't follow from the pod; see listenerpod for those that do.
const (
	reasonPredecessor = "WaitingForPredecessor"
	reasonBackOff     = "BackOff"
	reasonStopping    = "Stopping"
	reasonNameTaken   = v1alpha1.ReasonPodNameTaken
)

// The annotation of the pod is written announceGrace after the Secret. A kubelet that sees the pod's change before the
// Secret's mounts the old configuration another time, and checks again only after a minute.
const announceGrace = 2 * time.Second

// annotationConfiguration holds the revision of the configuration last announced on the pod. Its name dates from the
// time when the revision was a hash.
const annotationConfiguration = "actions.github.com/listener-config-hash"

// applyPod keeps one pod as the spec wants it.
func (c *Controller) applyPod(ctx context.Context, w *world) error {
	if credentials.IsVaultNotAllowed(w.cause) {
		return nil // withdraw has said what becomes of the pod
	}
	if !w.secretsReady {
		// A running pod could not be replaced, and the credentials that it has may still be valid.
		if w.pod != nil {
			w.state = listenerpod.Describe(w.pod)
		}
		return nil
	}
	if predecessors, err := c.awaitStrays(ctx, w); err != nil || predecessors {
		return err
	}
	builder := listenerpod.Builder{
		Listener:   w.Object,
		Proxy:      w.proxy,
		Entrypoint: c.options.Entrypoint,
		Policy:     c.options.Policy,
	}
	if c.metricsEnabled() {
		builder.MetricsAddr = c.options.MetricsAddr
	}
	if w.pod == nil {
		return c.start(ctx, w, builder)
	}
	var err error
	if w.state, err = c.assess(ctx, w, w.pod,
		listenerpod.Demand{Hash: builder.Hash(), Since: w.accountSince}); err != nil {
		return err
	}
	if w.state.Ready {
		w.Memory.ended = attempts{}
		c.turns.Return(w.Key)
	}
	c.awaitTurn(w)
	if w.state.Action == listenerpod.Keep {
		return c.announce(ctx, w)
	}
	return c.applyAction(ctx, w, w.pod, w.state)
}

// awaitTurn leaves a pod that works as it is until it is its turn to be replaced. One that doesn't work is replaced
// immediately.
func (c *Controller) awaitTurn(w *world) {
	asIs := listenerpod.Describe(w.pod)
	if w.state.Action != listenerpod.Replace || !asIs.Ready {
		return
	}
	if askAgain, taken := c.turns.Take(w.Key, w.Now); !taken {
		asIs.Message = "other listeners are replaced first: " + w.state.Message
		asIs.RequeueAfter = askAgain
		w.state = asIs
	}
}

// announce writes the revision of the configuration to an annotation of the pod if it has changed. The annotation means
// nothing to the kubelet, but a kubelet syncs a changed pod immediately; otherwise it checks mounted Secrets only about
// every minute. With a Role of ARC's chart the patch is forbidden; then the configuration takes that minute.
func (c *Controller) announce(ctx context.Context, w *world) error {
	if w.state.RequeueAfter > 0 {
		w.Requeue.After(w.state.RequeueAfter)
	}
	if w.pod.DeletionTimestamp != nil || w.pod.Annotations[annotationConfiguration] == w.configuration {
		return nil
	}
	// The annotation alone doesn't do: a pass that sees an outdated pod in the cache, or that may not patch it, must
	// not announce again.
	if w.Memory.announced == w.configuration {
		return nil
	}
	if w.Memory.news != w.configuration {
		w.Memory.news, w.Memory.newsAt = w.configuration, w.Now
	}
	if wait := w.Memory.newsAt.Add(announceGrace).Sub(w.Now); wait > 0 {
		w.Requeue.After(wait)
		return nil
	}
	after := w.pod.DeepCopy()
	kube.SetAnnotation(after, annotationConfiguration, w.configuration)
	_, err := kube.Patch(ctx, c.options.Client, after, w.pod)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("announce the configuration to pod %s: %w", w.pod.Name, err)
	}
	w.Memory.announced = w.configuration
	return nil
}

// awaitStrays deletes listener pods of the same scale set that are not this listener's, and reports whether there are
// any.
func (c *Controller) awaitStrays(ctx context.Context, w *world) (bool, error) {
	for _, stray := range w.strays {
		state, err := c.assess(ctx, w, stray, listenerpod.Unwanted)
		if err == nil {
			err = c.applyAction(ctx, w, stray, state)
		}
		if err != nil {
			return true, err
		}
		w.state = listenerpod.State{
			Reason:  reasonPredecessor,
			Message: fmt.Sprintf("pod %s of an earlier listener must end first", stray.Name),
		}
	}
	return len(w.strays) > 0, nil
}

// deleteAbandonedPod deletes the pod of a listener that doesn't exist, if nobody owns the pod: a backup has brought it
// back. It would hold the session of a scale set that may be served elsewhere. Any other pod is garbage collected with
// its listener.
func (c *Controller) deleteAbandonedPod(ctx context.Context, name types.NamespacedName) error {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, name, pod)
	if err != nil || !ownership.IsAbandoned(pod) || pod.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	if err := c.options.Client.Delete(ctx, pod, kube.UIDPrecondition(pod)); err != nil {
		return client.IgnoreNotFound(err)
	}
	report.RecordEvent(ctx, c.options.Recorder, pod, nil, report.Warning(v1alpha1.ReasonOwnerless, "DeletePod",
		"the pod is deleted: no AutoscalingListener owns it, as after a restore from a backup; leave listener "+
			"pods out of backups"))
	return nil
}

// assess decides what to do about a pod as the cache has it. Before it is force-deleted, the live pod is read: the node
// may be back, or the pod replaced, and then a working listener would lose its session.
func (c *Controller) assess(
	ctx context.Context, w *world, pod *corev1.Pod, wanted listenerpod.Demand,
) (listenerpod.State, error) {
	state := w.assess(pod, wanted)
	if state.Action != listenerpod.ForceDelete {
		return state, nil
	}
	live, err := kube.LivePod(ctx, c.options.Client, pod)
	switch {
	case err != nil:
		return state, err
	case live == nil:
		return listenerpod.State{
			Reason:       listenerpod.ReasonReplacing,
			Message:      "the pod is gone",
			RequeueAfter: listenerpod.LostTimeout,
		}, nil
	default:
		return w.assess(live, wanted), nil
	}
}

// assess decides what to do about a pod from what this pass knows.
func (w *world) assess(pod *corev1.Pod, wanted listenerpod.Demand) listenerpod.State {
	deletingSince, seen := w.Memory.deletingSince[pod.UID]
	if !seen {
		deletingSince = w.Now // read after the list, if it is being deleted at all
	}
	return listenerpod.Assess(pod, wanted, deletingSince, w.Now)
}

// assessAsIs describes a pod without any demand on it: whether it is running.
func (w *world) assessAsIs(pod *corev1.Pod) listenerpod.State {
	return w.assess(pod, listenerpod.Demand{Hash: pod.Annotations[v1alpha1.AnnotationIntegrityHash]})
}

// applyAction carries out what was decided about a pod.
func (c *Controller) applyAction(ctx context.Context, w *world, pod *corev1.Pod, state listenerpod.State) error {
	if state.RequeueAfter > 0 {
		w.Requeue.After(state.RequeueAfter)
	}
	options := []client.DeleteOption{kube.UIDPrecondition(pod)}
	switch state.Action {
	case listenerpod.Keep:
		return nil
	case listenerpod.ForceDelete:
		options = append(options, client.GracePeriodSeconds(0))
	case listenerpod.DeleteEnded:
		if w.Memory.endedPod != pod.UID { // counted a single time, no matter how often it is seen
			w.Memory.ended.add(w.Now)
			w.Memory.endedPod = pod.UID
		}
	}
	if err := c.options.Client.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	event := report.Normal(state.Reason, "DeletePod", fmt.Sprintf("Pod %s is deleted: %s", pod.Name, state.Message))
	if state.Action == listenerpod.ForceDelete || state.Action == listenerpod.DeleteEnded {
		// its node does not answer, or it has ended
		event.Type = corev1.EventTypeWarning
	}
	report.RecordEvent(ctx, c.options.Recorder, w.Object, nil, event)
	return nil
}

// start creates the pod when the back-off after earlier failures is over.
func (c *Controller) start(ctx context.Context, w *world, builder listenerpod.Builder) error {
	if ended := w.Memory.ended; ended.wait(w.Now) > 0 {
		w.Requeue.After(ended.wait(w.Now))
		w.state = listenerpod.State{
			Reason: reasonBackOff,
			Message: fmt.Sprintf("pods that ended in a row: %d; the next one starts %s after the last", ended.number,
				ended.pause()),
		}
		return nil
	}
	if wait := w.Memory.createFailures.wait(w.Now); wait > 0 {
		w.Requeue.After(wait)
		w.state = w.Memory.createCause
		return nil
	}
	w.state = listenerpod.State{Reason: listenerpod.ReasonStarting, Message: "the pod is being created"}
	pod, err := builder.Pod()
	if err != nil {
		return err
	}
	kube.SetAnnotation(pod, annotationConfiguration, w.configuration)
	pod.OwnerReferences = kube.OwnedBy(w.Object)
	if err := c.options.Client.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
		return c.handleNameTaken(ctx, w, err)
	} else if err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	w.Memory.createCause, w.Memory.createFailures = listenerpod.State{}, attempts{}
	ctrl.LoggerFrom(ctx).Info("Created the listener pod", "image", w.Object.Spec.Image, "scaleSetID",
		w.Object.Spec.RunnerScaleSetID)
	return nil
}

// handleNameTaken handles a pod that has the listener's name and isn't in the cache. Somebody else's pod is not ours to
// delete: the state says so, and creation is tried again with growing pauses.
func (c *Controller) handleNameTaken(ctx context.Context, w *world, refusal error) error {
	other := &corev1.Pod{}
	if err := c.options.Reader.Get(ctx, w.Key, other); apierrors.IsNotFound(err) {
		return refusal
	} else if err != nil {
		return fmt.Errorf("get pod %s: %w", w.Key, err)
	}
	if metav1.IsControlledBy(other, w.Object) {
		return c.relabel(ctx, w, other, refusal)
	}
	first := c.postpone(w, listenerpod.State{Reason: reasonNameTaken, Message: fmt.Sprintf(
		"pod %s has the listener's name and belongs to somebody else; delete it and create it under another name: the "+
			"listener starts within %s", w.Key, successorLongestBackoff)})
	if first {
		report.RecordEvent(ctx, c.options.Recorder, w.Object, other,
			report.Warning(w.state.Reason, "CreatePod", w.state.Message))
	}
	return nil
}

// relabel restores those labels of the listener's own pod by which the cache selects it, if somebody removed them. It
// returns refusal if the pod has its labels, because then only the cache is late.
func (c *Controller) relabel(ctx context.Context, w *world, own *corev1.Pod, refusal error) error {
	after := own.DeepCopy()
	after.Labels = kube.Labels(nil, own.Labels, ownership.Labels(w.Object))
	patched, err := kube.Patch(ctx, c.options.Client, after, own)
	switch {
	case apierrors.IsForbidden(err):
		return c.replaceUnseen(ctx, w, own)
	case apierrors.IsNotFound(err) || (err == nil && !patched):
		return refusal
	case err != nil:
		return fmt.Errorf("restore the labels of pod %s: %w", own.Name, err)
	}
	w.pod, w.state = after, w.assessAsIs(after) // the event of the patch brings the next pass
	ctrl.LoggerFrom(ctx).Info("Restored labels that somebody had removed from the listener pod", "pod", own.Name)
	return nil
}

// replaceUnseen replaces a pod that stays invisible to the cache because ARC's Role doesn't let the manager patch pods.
func (c *Controller) replaceUnseen(ctx context.Context, w *world, own *corev1.Pod) error {
	state := listenerpod.State{
		Action:  listenerpod.Replace,
		Reason:  listenerpod.ReasonReplacing,
		Message: "somebody removed its labels, and the manager may not patch pods to restore them",
	}
	if own.DeletionTimestamp == nil {
		if err := c.applyAction(ctx, w, own, state); err != nil {
			return err
		}
	}
	c.postpone(w, state)
	return nil
}

// postpone has the pod's name tried again after a growing pause. It reports whether the state that causes this is new.
func (c *Controller) postpone(w *world, state listenerpod.State) (first bool) {
	w.state = state
	if first = w.Memory.createCause.Reason != state.Reason; first {
		w.Memory.createFailures = attempts{}
	}
	w.Memory.createCause = state
	w.Memory.createFailures.add(w.Now)
	w.Requeue.After(w.Memory.createFailures.wait(w.Now))
	return first
}

// attempts counts failed attempts in a row.
type attempts struct {
	number int
	last   time.Time
}

func (a *attempts) add(now time.Time) { a.number, a.last = a.number+1, now }

// pause returns the back-off between the last attempt and the next one.
func (a attempts) pause() time.Duration {
	return reconcile.Backoff(successorFirstBackoff, successorLongestBackoff, a.number)
}

// wait returns the time until the next attempt; zero or less means that it may come now.
func (a attempts) wait(now time.Time) time.Duration { return a.last.Add(a.pause()).Sub(now) }
