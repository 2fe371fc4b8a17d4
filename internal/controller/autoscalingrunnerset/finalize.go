package autoscalingrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// finalize takes the next step of the deletion that the package comment describes. Watch events bring the pass after it.
func (c *Controller) finalize(ctx context.Context, p *pass) error {
	if !slices.Contains(p.set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		p.released = len(kube.Keepers(p.set)) == 0 // otherwise the status says who keeps it
		return nil
	}
	steps := []func(context.Context, *pass) (bool, error){c.stopListeners, c.drainRunnerSets, c.awaitSync, c.search, c.deregister, c.awaitListeners, c.release}
	for _, step := range steps {
		if done, err := step(ctx, p); err != nil || !done {
			return err
		}
	}
	return nil
}

// stopListeners deletes the listeners. It is done when no listener pod of the set is left.
func (c *Controller) stopListeners(ctx context.Context, p *pass) (bool, error) {
	stopped := true
	for i := range p.listeners {
		listener := &p.listeners[i]
		if listener.DeletionTimestamp == nil {
			if err := c.remove(ctx, listener); err != nil {
				return false, err
			}
		}
		stopped = stopped && stoppedListener(listener)
	}
	return stopped, nil
}

// drainRunnerSets deletes the EphemeralRunnerSets. It is done when no runner is left; busy ones may finish their jobs.
func (c *Controller) drainRunnerSets(ctx context.Context, p *pass) (bool, error) {
	for i := range p.runnerSets {
		if p.runnerSets[i].DeletionTimestamp == nil {
			if err := c.remove(ctx, &p.runnerSets[i]); err != nil {
				return false, err
			}
		}
	}
	return len(p.runnerSets) == 0, nil
}

// deregister deletes the set's scale sets on GitHub. It is done when none of them is left, or after DeregisterTimeout.
func (c *Controller) deregister(ctx context.Context, p *pass) (bool, error) {
	registrations, err := c.ownRegistrations(ctx, p)
	if err != nil {
		return false, err
	}
	state := c.deregisterAll(p, registrations)
	if state.requeueAfter > 0 {
		p.requeue.After(state.requeueAfter)
	}
	if !state.over {
		p.unanswered = state.cause
		return false, nil
	}
	if p.registration == nil && len(registrations) == 0 && p.set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] == "" {
		return true, nil
	}
	if p.registration != nil && !c.isProven(p, *p.registration) {
		c.recordUnproven(ctx, p, *p.registration)
	}
	if err := c.forgetRegistration(ctx, p); err != nil {
		return false, err
	}
	c.recordDeregistration(ctx, p, state)
	return true, nil
}

// awaitSync waits for a call that is still running, so that nothing is created on GitHub after the deletion. It adopts a registration
// that GitHub has answered and that is not recorded yet. If there is none, search looks at the spec's address.
func (c *Controller) awaitSync(ctx context.Context, p *pass) (bool, error) {
	last, _ := c.syncs.Last(p.key)
	if last.Running() {
		p.creating = true
		return false, nil
	}
	if (p.registration == nil || p.unconfirmed) && last.Result.set != nil {
		p.registration, p.unconfirmed = last.Result.registration(), false
	}
	searched := ""
	if p.registration == nil {
		searched = p.set.Spec.GitHubConfigUrl
	}
	return true, c.leaveUnrecorded(ctx, p, searched)
}

// isProven reports whether anything besides the status shows that the set was registered there.
func (c *Controller) isProven(p *pass, registration v1alpha1.ScaleSetRegistration) bool {
	_, proven := c.referenceAt(p, registration.URL)
	return proven
}

// ownRegistrations returns the former registrations, and the present one unless it is only in the status.
func (c *Controller) ownRegistrations(ctx context.Context, p *pass) ([]v1alpha1.ScaleSetRegistration, error) {
	registrations := registrationsOf(formerOf(p.set))
	if p.registration != nil && c.isProven(p, *p.registration) {
		registrations = slices.DeleteFunc(registrations, func(r v1alpha1.ScaleSetRegistration) bool { return sameScaleSet(r, *p.registration) })
		registrations = append(registrations, *p.registration)
	}
	return c.heldByNobodyElse(ctx, p, registrations)
}

// forgetRegistration clears everything that records where the scale set is. After that the controller of listeners deletes the
// listener's Secrets.
func (c *Controller) forgetRegistration(ctx context.Context, p *pass) error {
	before := p.set.DeepCopy()
	delete(p.set.Annotations, v1alpha1.AnnotationRunnerScaleSetID)
	setFormer(p.set, nil)
	kube.SetAnnotation(p.set, annotationDeregistered, string(p.set.UID))
	if _, err := kube.Patch(ctx, c.options.Client, p.set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	before = p.set.DeepCopy()
	p.set.Status.Registration = nil
	if _, err := kube.PatchStatus(ctx, c.options.Client, p.set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	p.registration, p.unconfirmed = nil, false
	c.syncs.Forget(p.key)
	c.searches.Forget(p.key)
	return nil
}

// awaitListeners is done when no listener is left.
func (c *Controller) awaitListeners(_ context.Context, p *pass) (bool, error) {
	return len(p.listeners) == 0, nil
}

// release removes ARC's cleanup-protection from the chart's objects and then the set's finalizer.
func (c *Controller) release(ctx context.Context, p *pass) (bool, error) {
	// Refusals don't block the deletion of the set: the manager's Role may be gone first, and a policy may protect Helm's objects.
	left, err := c.unprotectAll(ctx, protected(p.set))
	if err != nil {
		return false, err
	}
	if err := kube.RemoveFinalizers(ctx, c.options.Client, p.set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return false, err
	}
	if len(left) > 0 {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, c.protectionLeft(left))
	}
	p.released = true
	return true, nil
}

// findBlocked finds out whether the set's deletion, or that of an object that belongs to it, is held up by finalizers of others. The
// controllers of these objects look at what they own themselves, and say what they find in conditions.
func (p *pass) findBlocked() {
	p.memory.kept.Begin()
	for i := range p.runnerSets {
		p.findKept("EphemeralRunnerSet", &p.runnerSets[i], p.runnerSets[i].Status.Conditions)
	}
	for i := range p.listeners {
		p.findKept("AutoscalingListener", &p.listeners[i], p.listeners[i].Status.Conditions)
	}
	p.findKept("AutoscalingRunnerSet", p.set, nil)
}

// findKept looks at one object, and at what its conditions say of others. The first finding is the one to report.
func (p *pass) findKept(kind string, object client.Object, conditions []metav1.Condition) {
	if keepers := kube.Keepers(object); len(keepers) > 0 {
		p.awaited = cmp.Or(p.awaited, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
		if wait := p.memory.kept.Look(object.GetUID(), p.now); wait > 0 {
			p.requeue.After(wait)
		} else {
			p.blocked = cmp.Or(p.blocked, p.awaited)
		}
	}
	for _, c := range conditions {
		if c.Type == v1alpha1.ConditionDeletionBlocked && c.Status == metav1.ConditionTrue {
			p.blocked = cmp.Or(p.blocked, c.Message)
		}
	}
}

// nameOf returns kind, namespace and name as messages show them.
func (c *Controller) nameOf(object client.Object) string {
	return c.kindOf(object) + " " + client.ObjectKeyFromObject(object).String()
}

// kindOf returns the kind as messages show it.
func (c *Controller) kindOf(object client.Object) string {
	kind, _ := c.options.Client.GroupVersionKindFor(object) // no kind of ours is unknown to the scheme
	return kind.Kind
}

// stoppedListener reports whether the listener's pod is gone for good. A condition from before the listener's deletion doesn't count.
func stoppedListener(listener *v1alpha1.AutoscalingListener) bool {
	condition := meta.FindStatusCondition(listener.Status.Conditions, v1alpha1.ConditionReady)
	return listener.DeletionTimestamp != nil && condition != nil && condition.Reason == v1alpha1.ReasonListenerStopped
}
