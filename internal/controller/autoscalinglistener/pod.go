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

// The successor of a pod that ended waits for successorBaseDelay, twice as long after each further one, and at most for
// successorMaxDelay, because whatever evicts one pod often evicts the next.
const (
	successorBaseDelay = 5 * time.Second
	successorMaxDelay  = time.Minute
)

// Reasons of the condition Ready that don't follow from the pod; see listenerpod for those that do.
const (
	reasonPredecessor = "WaitingForPredecessor"
	reasonBackOff     = "BackOff"
	reasonStopping    = "Stopping"
	reasonNameTaken   = v1alpha1.ReasonPodNameTaken
)

// announceAfter is how long to wait after a write of the Secret before the pod is written. A kubelet that sees the pod's change
// first mounts the old configuration once more, and checks again only after a minute.
const announceAfter = 2 * time.Second

// annotationConfiguration holds the revision of the configuration last announced on the pod. Its name is from when that was a hash.
const annotationConfiguration = "actions.github.com/listener-config-hash"

// applyPod keeps one pod as the spec wants it.
func (c *Controller) applyPod(ctx context.Context, p *pass) error {
	if credentials.IsVaultNotAllowed(p.obstacle) {
		return nil // withdraw has said what becomes of the pod
	}
	if !p.secretsReady {
		// A running pod could not be replaced, and the credentials that it has may still be valid.
		if p.pod != nil {
			p.state = listenerpod.Describe(p.pod)
		}
		return nil
	}
	if predecessors, err := c.awaitStrays(ctx, p); err != nil || predecessors {
		return err
	}
	builder := listenerpod.Builder{Listener: p.listener, Proxy: p.proxy, Entrypoint: c.options.Entrypoint, Policy: c.options.Policy}
	if c.metricsEnabled() {
		builder.MetricsAddr = c.options.MetricsAddr
	}
	if p.pod == nil {
		return c.start(ctx, p, builder)
	}
	var err error
	if p.state, err = c.assess(ctx, p, p.pod, listenerpod.Demand{Hash: builder.Hash(), Since: p.accountSince}); err != nil {
		return err
	}
	if p.state.Ready {
		p.memory.failures = 0
	}
	if p.state.Action == listenerpod.Keep {
		return c.announce(ctx, p)
	}
	return c.applyAction(ctx, p, p.pod, p.state)
}

// announce writes the revision of the configuration to an annotation of the pod if it has changed. The annotation means nothing to the
// kubelet, but a kubelet syncs a changed pod at once, while it otherwise checks mounted Secrets only about once a minute. With a
// Role of ARC's chart the patch is forbidden; then the configuration takes that minute.
func (c *Controller) announce(ctx context.Context, p *pass) error {
	if p.state.RequeueAfter > 0 {
		p.requeue.After(p.state.RequeueAfter)
	}
	if p.pod.DeletionTimestamp != nil || p.pod.Annotations[annotationConfiguration] == p.configuration {
		return nil
	}
	// The annotation alone doesn't do: a pass that sees an outdated pod in the cache, or that may not patch it, must not announce again.
	if p.memory.announced == p.configuration {
		return nil
	}
	if p.memory.news != p.configuration {
		p.memory.news, p.memory.newsAt = p.configuration, p.now
	}
	if wait := p.memory.newsAt.Add(announceAfter).Sub(p.now); wait > 0 {
		p.requeue.After(wait)
		return nil
	}
	after := p.pod.DeepCopy()
	kube.SetAnnotation(after, annotationConfiguration, p.configuration)
	_, err := kube.Patch(ctx, c.options.Client, after, p.pod)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("announce the configuration to pod %s: %w", p.pod.Name, err)
	}
	p.memory.announced = p.configuration
	return nil
}

// awaitStrays deletes listener pods of the same scale set that are not this listener's, and reports whether there are any.
func (c *Controller) awaitStrays(ctx context.Context, p *pass) (bool, error) {
	for _, stray := range p.strays {
		state, err := c.assess(ctx, p, stray, listenerpod.Unwanted)
		if err == nil {
			err = c.applyAction(ctx, p, stray, state)
		}
		if err != nil {
			return true, err
		}
		p.state = listenerpod.State{Reason: reasonPredecessor, Message: fmt.Sprintf("pod %s of an earlier listener must end first", stray.Name)}
	}
	return len(p.strays) > 0, nil
}

// deleteAbandonedPod deletes the pod of a listener that doesn't exist, if nobody owns it: a backup has brought it back. It would hold the
// session of a scale set that may be served elsewhere. Any other pod is garbage collected with its listener.
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
		"the pod is deleted: no AutoscalingListener owns it, as after a restore from a backup; leave listener pods out of backups"))
	return nil
}

// assess decides what to do about a pod as the cache has it. Before it is force-deleted, the live pod is read: the node may be back,
// or the pod replaced, and then a working listener would lose its session.
func (c *Controller) assess(ctx context.Context, p *pass, pod *corev1.Pod, wanted listenerpod.Demand) (listenerpod.State, error) {
	state := p.assess(pod, wanted)
	if state.Action != listenerpod.ForceDelete {
		return state, nil
	}
	live, err := kube.LivePod(ctx, c.options.Client, pod)
	switch {
	case err != nil:
		return state, err
	case live == nil:
		return listenerpod.State{Reason: listenerpod.ReasonReplacing, Message: "the pod is gone", RequeueAfter: listenerpod.LostAfter}, nil
	default:
		return p.assess(live, wanted), nil
	}
}

// assess decides what to do about a pod by what is known in this pass.
func (p *pass) assess(pod *corev1.Pod, wanted listenerpod.Demand) listenerpod.State {
	deletingSince, seen := p.memory.deletingSince[pod.UID]
	if !seen {
		deletingSince = p.now // read after the list, if it is being deleted at all
	}
	return listenerpod.Assess(pod, wanted, deletingSince, p.now)
}

// assessAsIs describes a pod without any demand on it: whether it is running.
func (p *pass) assessAsIs(pod *corev1.Pod) listenerpod.State {
	return p.assess(pod, listenerpod.Demand{Hash: pod.Annotations[v1alpha1.AnnotationIntegrityHash]})
}

// applyAction carries out what was decided about a pod.
func (c *Controller) applyAction(ctx context.Context, p *pass, pod *corev1.Pod, state listenerpod.State) error {
	if state.RequeueAfter > 0 {
		p.requeue.After(state.RequeueAfter)
	}
	options := []client.DeleteOption{kube.UIDPrecondition(pod)}
	switch state.Action {
	case listenerpod.Keep:
		return nil
	case listenerpod.ForceDelete:
		options = append(options, client.GracePeriodSeconds(0))
	case listenerpod.DeleteEnded:
		if p.memory.failedPod != pod.UID { // counted a single time, no matter how often it is seen
			p.memory.failures++
			p.memory.failedAt, p.memory.failedPod = p.now, pod.UID
		}
	}
	if err := c.options.Client.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	event := report.Normal(state.Reason, "DeletePod", fmt.Sprintf("Pod %s is deleted: %s", pod.Name, state.Message))
	if state.Action == listenerpod.ForceDelete || state.Action == listenerpod.DeleteEnded { // its node does not answer, or it has ended
		event.Type = corev1.EventTypeWarning
	}
	report.RecordEvent(ctx, c.options.Recorder, p.listener, nil, event)
	return nil
}

// start creates the pod once the back-off after earlier failures is over.
func (c *Controller) start(ctx context.Context, p *pass, builder listenerpod.Builder) error {
	if failures := p.memory.failures; failures > 0 {
		pause := reconcile.Backoff(successorBaseDelay, successorMaxDelay, failures)
		if wait := p.memory.failedAt.Add(pause).Sub(p.now); wait > 0 {
			p.requeue.After(wait)
			p.state = listenerpod.State{Reason: reasonBackOff, Message: fmt.Sprintf("pods that ended in a row: %d; the next one starts %s after the last", failures, pause)}
			return nil
		}
	}
	if state, wait := p.memory.obstructed(p.now); wait > 0 {
		p.requeue.After(wait)
		p.state = state
		return nil
	}
	p.state = listenerpod.State{Reason: listenerpod.ReasonStarting, Message: "the pod is being created"}
	pod, err := builder.Pod()
	if err != nil {
		return err
	}
	kube.SetAnnotation(pod, annotationConfiguration, p.configuration)
	pod.OwnerReferences = kube.OwnedBy(p.listener)
	if err := c.options.Client.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
		return c.handleNameTaken(ctx, p, err)
	} else if err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	p.memory.noteObstruction(listenerpod.State{}, p.now)
	ctrl.LoggerFrom(ctx).Info("Created the listener pod", "image", p.listener.Spec.Image, "scaleSetID", p.listener.Spec.RunnerScaleSetID)
	return nil
}

// handleNameTaken handles a pod that has the listener's name and isn't in the cache. Somebody else's pod is not ours to delete: the
// state says so, and creation is tried again with growing pauses.
func (c *Controller) handleNameTaken(ctx context.Context, p *pass, refusal error) error {
	other := &corev1.Pod{}
	if err := c.options.Reader.Get(ctx, p.key, other); apierrors.IsNotFound(err) {
		return refusal
	} else if err != nil {
		return fmt.Errorf("get pod %s: %w", p.key, err)
	}
	if metav1.IsControlledBy(other, p.listener) {
		return c.relabel(ctx, p, other, refusal)
	}
	first := c.postpone(p, listenerpod.State{Reason: reasonNameTaken, Message: fmt.Sprintf(
		"pod %s has the listener's name and belongs to somebody else; delete it and create it under another name: the listener starts within %s", p.key, successorMaxDelay)})
	if first {
		report.RecordEvent(ctx, c.options.Recorder, p.listener, other, report.Warning(p.state.Reason, "CreatePod", p.state.Message))
	}
	return nil
}

// relabel restores labels that somebody removed from the listener's own pod, by which the cache selects it. It returns refusal if
// the pod has its labels, so that only the cache is late.
func (c *Controller) relabel(ctx context.Context, p *pass, own *corev1.Pod, refusal error) error {
	after := own.DeepCopy()
	after.Labels = kube.Labels(nil, own.Labels, ownership.Labels(p.listener))
	patched, err := kube.Patch(ctx, c.options.Client, after, own)
	switch {
	case apierrors.IsForbidden(err):
		return c.replaceUnseen(ctx, p, own)
	case apierrors.IsNotFound(err) || err == nil && !patched:
		return refusal
	case err != nil:
		return fmt.Errorf("restore the labels of pod %s: %w", own.Name, err)
	}
	p.pod, p.state = after, p.assessAsIs(after) // the event of the patch brings the next pass
	ctrl.LoggerFrom(ctx).Info("Restored labels that somebody had removed from the listener pod", "pod", own.Name)
	return nil
}

// replaceUnseen replaces a pod that stays invisible to the cache because ARC's Role doesn't let the manager patch pods.
func (c *Controller) replaceUnseen(ctx context.Context, p *pass, own *corev1.Pod) error {
	state := listenerpod.State{Action: listenerpod.Replace, Reason: listenerpod.ReasonReplacing, Message: "somebody removed its labels, and the manager may not patch pods to restore them"}
	if own.DeletionTimestamp == nil {
		if err := c.applyAction(ctx, p, own, state); err != nil {
			return err
		}
	}
	c.postpone(p, state)
	return nil
}

// postpone tries the pod's name again after a growing pause, and reports whether the state that is the cause is new.
func (c *Controller) postpone(p *pass, state listenerpod.State) (first bool) {
	p.state = state
	first = p.memory.noteObstruction(state, p.now)
	_, wait := p.memory.obstructed(p.now)
	p.requeue.After(wait)
	return first
}

// noteObstruction records an attempt to create the pod that met an obstruction, or none if the state has no reason. It reports
// whether the obstruction differs from the last one.
func (m *memory) noteObstruction(state listenerpod.State, now time.Time) (first bool) {
	first = m.obstruction.Reason != state.Reason
	if first {
		m.obstructions = 0
	}
	m.obstruction, m.triedAt = state, now
	m.obstructions++
	return first
}

// obstructed returns what kept the pod from being created, and how long to wait until the next attempt.
func (m *memory) obstructed(now time.Time) (listenerpod.State, time.Duration) {
	if m.obstruction.Reason == "" {
		return listenerpod.State{}, 0
	}
	return m.obstruction, m.triedAt.Add(reconcile.Backoff(successorBaseDelay, successorMaxDelay, m.obstructions)).Sub(now)
}
