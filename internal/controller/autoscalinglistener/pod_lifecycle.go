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
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
)

// The successor of a pod that ended waits for successorBaseDelay, twice as long after each further one, and at most for
// successorMaxDelay, because whatever evicts one pod often evicts the next.
const (
	successorBaseDelay = 5 * time.Second
	successorMaxDelay  = time.Minute
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
			p.state = describe(p.pod)
		}
		return nil
	}
	if predecessors, err := c.awaitStrays(ctx, p); err != nil || predecessors {
		return err
	}
	builder := podBuilder{listener: p.listener, proxy: p.proxy, entrypoint: c.options.Entrypoint, policy: c.options.Policy}
	if c.metricsEnabled() {
		builder.metricsAddr = c.options.MetricsAddr
	}
	if p.pod == nil {
		return c.start(ctx, p, builder)
	}
	var err error
	if p.state, err = c.assess(ctx, p, p.pod, demand{hash: builder.hash(), since: p.accountSince}); err != nil {
		return err
	}
	if p.state.ready {
		p.memory.failures = 0
	}
	if p.state.action == actionKeep {
		return c.announce(ctx, p)
	}
	return c.applyAction(ctx, p, p.pod, p.state)
}

// announce writes the revision of the configuration to an annotation of the pod if it has changed. The annotation means nothing to the
// kubelet, but a kubelet syncs a changed pod at once, while it otherwise checks mounted Secrets only about once a minute. With a
// Role of ARC's chart the patch is forbidden; then the configuration takes that minute.
func (c *Controller) announce(ctx context.Context, p *pass) error {
	if p.state.requeueAfter > 0 {
		p.requeue.After(p.state.requeueAfter)
	}
	if p.pod.DeletionTimestamp != nil || p.pod.Annotations[annotationConfiguration] == p.configuration {
		return nil
	}
	news, wait := p.memory.announces(p.configuration, p.now)
	if wait > 0 {
		p.requeue.After(wait)
	}
	if !news || wait > 0 {
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
		state, err := c.assess(ctx, p, stray, unwanted)
		if err == nil {
			err = c.applyAction(ctx, p, stray, state)
		}
		if err != nil {
			return true, err
		}
		p.state = podState{reason: reasonPredecessor, message: fmt.Sprintf("pod %s of an earlier listener must end first", stray.Name)}
	}
	return len(p.strays) > 0, nil
}

// deleteAbandonedPod deletes the pod of a listener that doesn't exist, if nobody owns it: a backup has brought it back. It would hold the
// session of a scale set that may be served elsewhere. Any other pod is garbage collected with its listener.
func (c *Controller) deleteAbandonedPod(ctx context.Context, name types.NamespacedName) error {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, name, pod)
	if err != nil || !isAbandoned(pod) || pod.DeletionTimestamp != nil {
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
func (c *Controller) assess(ctx context.Context, p *pass, pod *corev1.Pod, wanted demand) (podState, error) {
	state := p.assess(pod, wanted)
	if state.action != actionForceDelete {
		return state, nil
	}
	live, err := kube.LivePod(ctx, c.options.Client, pod)
	switch {
	case err != nil:
		return state, err
	case live == nil:
		return podState{reason: reasonReplacing, message: "the pod is gone", requeueAfter: lostAfter}, nil
	default:
		return p.assess(live, wanted), nil
	}
}

// applyAction carries out what was decided about a pod.
func (c *Controller) applyAction(ctx context.Context, p *pass, pod *corev1.Pod, state podState) error {
	if state.requeueAfter > 0 {
		p.requeue.After(state.requeueAfter)
	}
	options := []client.DeleteOption{kube.UIDPrecondition(pod)}
	switch state.action {
	case actionKeep:
		return nil
	case actionForceDelete:
		options = append(options, client.GracePeriodSeconds(0))
	case actionDeleteEnded:
		p.memory.noteFailure(pod.UID, p.now)
	}
	if err := c.options.Client.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	report.RecordEvent(ctx, c.options.Recorder, p.listener, nil, deleted(pod.Name, state))
	return nil
}

// start creates the pod once the back-off after earlier failures is over.
func (c *Controller) start(ctx context.Context, p *pass, builder podBuilder) error {
	if failures := p.memory.failures; failures > 0 {
		pause := requeue.Backoff(successorBaseDelay, successorMaxDelay, failures)
		if wait := p.memory.failedAt.Add(pause).Sub(p.now); wait > 0 {
			p.requeue.After(wait)
			p.state = podState{reason: reasonBackOff, message: fmt.Sprintf("pods that ended in a row: %d; the next one starts %s after the last", failures, pause)}
			return nil
		}
	}
	if state, wait := p.memory.obstructed(p.now); wait > 0 {
		p.requeue.After(wait)
		p.state = state
		return nil
	}
	p.state = podState{reason: reasonStarting, message: "the pod is being created"}
	pod, err := builder.pod()
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
	p.memory.noteObstruction(podState{}, p.now)
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
	first := c.postpone(p, podState{reason: reasonNameTaken, message: fmt.Sprintf(
		"pod %s has the listener's name and belongs to somebody else; delete it and create it under another name: the listener starts within %s", p.key, successorMaxDelay)})
	if first {
		report.RecordEvent(ctx, c.options.Recorder, p.listener, other, report.Warning(p.state.reason, "CreatePod", p.state.message))
	}
	return nil
}

// relabel restores labels that somebody removed from the listener's own pod, by which the cache selects it. It returns refusal if
// the pod has its labels, so that only the cache is late.
func (c *Controller) relabel(ctx context.Context, p *pass, own *corev1.Pod, refusal error) error {
	after := own.DeepCopy()
	after.Labels = kube.Labels(nil, own.Labels, ownLabels(p.listener))
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
	state := podState{action: actionReplace, reason: reasonReplacing, message: "somebody removed its labels, and the manager may not patch pods to restore them"}
	if own.DeletionTimestamp == nil {
		if err := c.applyAction(ctx, p, own, state); err != nil {
			return err
		}
	}
	c.postpone(p, state)
	return nil
}

// postpone tries the pod's name again after a growing pause, and reports whether the state that is the cause is new.
func (c *Controller) postpone(p *pass, state podState) (first bool) {
	p.state = state
	first = p.memory.noteObstruction(state, p.now)
	_, wait := p.memory.obstructed(p.now)
	p.requeue.After(wait)
	return first
}
