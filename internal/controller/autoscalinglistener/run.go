package autoscalinglistener

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	p.state = assess(p.pod, plan.hash(), p.now)
	if p.state.ready {
		c.memory.noteSuccess(p.key)
	}
	return c.treat(ctx, p, p.pod, p.state)
}

// awaitStrays deletes listener pods of the same scale set that are not this listener's, and says whether there are any.
func (c *Controller) awaitStrays(ctx context.Context, p *pass) (bool, error) {
	for _, stray := range p.strays {
		if err := c.treat(ctx, p, stray, assess(stray, unwanted, p.now)); err != nil {
			return true, err
		}
		p.state = podState{reason: reasonPredecessor, message: fmt.Sprintf("pod %s of an earlier listener has to end first", stray.Name)}
	}
	return len(p.strays) > 0, nil
}

// treat does what was decided about a pod.
func (c *Controller) treat(ctx context.Context, p *pass, pod *corev1.Pod, state podState) error {
	if state.again > 0 {
		p.again.After(state.again)
	}
	uid := pod.UID
	options := []client.DeleteOption{client.Preconditions{UID: &uid}}
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
	kube.Tell(ctx, c.options.Recorder, p.listener, nil, deleted(pod.Name, state))
	return nil
}

// start creates the pod, not before the time that earlier failures ask for.
func (c *Controller) start(ctx context.Context, p *pass, plan blueprint) error {
	if failures, at := c.memory.failures(p.key); failures > 0 {
		pause := kube.Doubled(successorFirst, successorMost, failures)
		if wait := at.Add(pause).Sub(p.now); wait > 0 {
			p.again.After(wait)
			p.state = podState{reason: reasonBackOff, message: fmt.Sprintf("%d pods in a row ended; the next one starts %s after the last", failures, pause)}
			return nil
		}
	}
	p.state = podState{reason: reasonStarting, message: "the pod is being created"}
	pod, err := plan.pod()
	if err != nil {
		return err
	}
	if err := controllerutil.SetControllerReference(p.listener, pod, c.options.Client.Scheme()); err != nil {
		return fmt.Errorf("own pod %s: %w", pod.Name, err)
	}
	if err := c.options.Client.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Created the listener pod", "image", p.listener.Spec.Image, "scaleSetID", p.listener.Spec.RunnerScaleSetID)
	return nil
}
