package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/harrier-ci/harrier/internal/kube"
)

// After a pod that ended, its successor waits for successorFirst, twice as long after each further one, and
// successorMost at most: what evicts one pod often evicts the next.
const (
	successorFirst = 5 * time.Second
	successorMost  = time.Minute
)

// announceAfter is how much later than the pod a kubelet may see the Secret. A kubelet that looks too early mounts the old
// configuration once more, and looks again after a minute.
const announceAfter = 2 * time.Second

// annotationConfiguration is the hash of the configuration that the pod was last told of.
const annotationConfiguration = "actions.github.com/listener-config-hash"

// applyPod keeps one pod as the spec wants it.
func (c *Controller) applyPod(ctx context.Context, p *pass) error {
	if !p.equipped {
		// What runs could not be replaced, and may do with the credentials it has.
		if p.pod != nil {
			p.state = describe(p.pod)
		}
		return nil
	}
	if predecessors, err := c.awaitStrays(ctx, p); err != nil || predecessors {
		return err
	}
	plan := blueprint{listener: p.listener, proxy: p.resolved.Proxy, entrypoint: c.options.Entrypoint}
	if c.metricsEnabled() {
		plan.metricsAddr = c.options.MetricsAddr
	}
	if p.pod == nil {
		return c.start(ctx, p, plan)
	}
	var err error
	if p.state, err = c.assess(ctx, p.pod, plan.hash(), p.now); err != nil {
		return err
	}
	if p.state.ready {
		c.memory.noteSuccess(p.key)
	}
	if p.state.treatment == keep {
		return c.announce(ctx, p)
	}
	return c.treat(ctx, p, p.pod, p.state)
}

// announce writes the hash of the configuration on the pod when that has changed. The annotation itself says nothing to
// anybody: a kubelet looks at a pod that changes at once, and at the Secrets it mounts only every minute or so otherwise.
// Forbidden is what a Role of ARC's chart answers; then the minute has to do.
func (c *Controller) announce(ctx context.Context, p *pass) error {
	if p.state.again > 0 {
		p.again.After(p.state.again)
	}
	if p.pod.DeletionTimestamp != nil || p.pod.Annotations[annotationConfiguration] == p.configuration {
		return nil
	}
	news, wait := c.memory.announces(p.key, p.configuration, p.now)
	if wait > 0 {
		p.again.After(wait)
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
	c.memory.noteAnnounced(p.key, p.configuration)
	return nil
}

// awaitStrays deletes listener pods of the same scale set that are not this listener's, and says whether there are any.
func (c *Controller) awaitStrays(ctx context.Context, p *pass) (bool, error) {
	for _, stray := range p.strays {
		state, err := c.assess(ctx, stray, unwanted, p.now)
		if err == nil {
			err = c.treat(ctx, p, stray, state)
		}
		if err != nil {
			return true, err
		}
		p.state = podState{reason: reasonPredecessor, message: fmt.Sprintf("pod %s of an earlier listener has to end first", stray.Name)}
	}
	return len(p.strays) > 0, nil
}

// assess looks at a pod as the cache shows it, and again at the pod itself before it is ended without its node's word: the
// node may be back, and to end the pod's successor too would cost a session.
func (c *Controller) assess(ctx context.Context, pod *corev1.Pod, hash string, now time.Time) (podState, error) {
	state := assess(pod, hash, now)
	if state.treatment != abandon {
		return state, nil
	}
	live, err := kube.LivePod(ctx, c.options.Client, pod)
	switch {
	case err != nil:
		return state, err
	case live == nil:
		return podState{reason: reasonReplacing, message: "the pod is gone", again: lostAfter}, nil
	default:
		return assess(live, hash, now), nil
	}
}

// treat does what was decided about a pod.
func (c *Controller) treat(ctx context.Context, p *pass, pod *corev1.Pod, state podState) error {
	if state.again > 0 {
		p.again.After(state.again)
	}
	options := []client.DeleteOption{kube.UIDPrecondition(pod)}
	switch state.treatment {
	case keep:
		return nil
	case abandon:
		options = append(options, client.GracePeriodSeconds(0))
	case discard:
		c.memory.noteFailure(p.key, pod.UID, p.now)
	}
	if err := c.options.Client.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	kube.RecordEvent(ctx, c.options.Recorder, p.listener, nil, deleted(pod.Name, state))
	return nil
}

// start creates the pod, not before the time that earlier failures ask for.
func (c *Controller) start(ctx context.Context, p *pass, plan blueprint) error {
	if failures, at := c.memory.failures(p.key); failures > 0 {
		pause := kube.ExponentialBackoff(successorFirst, successorMost, failures)
		if wait := at.Add(pause).Sub(p.now); wait > 0 {
			p.again.After(wait)
			p.state = podState{reason: reasonBackOff, message: fmt.Sprintf("%d pods in a row ended; the next one starts %s after the last", failures, pause)}
			return nil
		}
	}
	if state, wait := c.memory.obstructed(p.key, p.now); wait > 0 {
		p.again.After(wait)
		p.state = state
		return nil
	}
	p.state = podState{reason: reasonStarting, message: "the pod is being created"}
	pod, err := plan.pod()
	if err != nil {
		return err
	}
	kube.SetAnnotation(pod, annotationConfiguration, p.configuration)
	if err := controllerutil.SetControllerReference(p.listener, pod, c.options.Client.Scheme()); err != nil {
		return fmt.Errorf("own pod %s: %w", pod.Name, err)
	}
	if err := c.options.Client.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
		return c.yield(ctx, p, err)
	} else if err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	c.memory.noteObstruction(p.key, podState{}, p.now)
	ctrl.LoggerFrom(ctx).Info("Created the listener pod", "image", p.listener.Spec.Image, "scaleSetID", p.listener.Spec.RunnerScaleSetID)
	return nil
}

// yield tells a pod of ours that the cache has not seen yet, of which refusal is enough said, from one of somebody else that
// has the listener's name. That one is not ours to delete; the name is tried again, less and less often.
func (c *Controller) yield(ctx context.Context, p *pass, refusal error) error {
	other := &corev1.Pod{}
	if err := c.options.Reader.Get(ctx, p.key, other); apierrors.IsNotFound(err) {
		return refusal
	} else if err != nil {
		return fmt.Errorf("read pod %s: %w", p.key, err)
	}
	if metav1.IsControlledBy(other, p.listener) {
		return refusal
	}
	p.state = podState{reason: reasonNameTaken, message: fmt.Sprintf(
		"pod %s has the listener's name and belongs to somebody else; delete it or rename it, the listener starts within %s", p.key, successorMost)}
	if first := c.memory.noteObstruction(p.key, p.state, p.now); first {
		kube.RecordEvent(ctx, c.options.Recorder, p.listener, other, kube.Warning(p.state.reason, "CreatePod", p.state.message))
	}
	_, wait := c.memory.obstructed(p.key, p.now)
	p.again.After(wait)
	return nil
}
