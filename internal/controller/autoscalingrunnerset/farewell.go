package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// finalize takes the next step of the deletion that the package comment describes. Watch events bring the pass after it.
func (c *Controller) finalize(ctx context.Context, p *pass) error {
	if !slices.Contains(p.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) {
		p.released = len(kube.Keepers(p.Set)) == 0 // otherwise the status says who keeps it
		return nil
	}
	stopped, err := c.children.StopListeners(ctx, &p.Found)
	if err != nil || !stopped {
		return err
	}
	drained, err := c.children.DrainRunnerSets(ctx, &p.Found)
	if err != nil || !drained {
		return err
	}
	for _, step := range []func(context.Context, *pass) (done bool, err error){c.awaitSync, c.search, c.deregister} {
		if done, err := step(ctx, p); err != nil || !done {
			return err
		}
	}
	if len(p.Listeners) > 0 {
		return nil
	}
	return c.release(ctx, p)
}

// awaitSync waits for a call that is still running, so that nothing is created on GitHub after the deletion. It adopts a registration
// that GitHub has answered and that is not recorded yet. If there is none, search looks at the spec's address.
func (c *Controller) awaitSync(ctx context.Context, p *pass) (done bool, err error) {
	last, _ := c.syncs.Last(p.key)
	if last.Running() {
		p.Creating = true
		return false, nil
	}
	if (p.Registration == nil || p.Unconfirmed) && last.Result.Set != nil {
		p.Registration, p.Unconfirmed = last.Result.Registration(), false
	}
	searched := ""
	if p.Registration == nil {
		searched = p.Set.Spec.GitHubConfigUrl
	}
	return true, c.leaveUnrecorded(ctx, p, searched)
}

// searchResult is the result of a call that looks for a scale set.
type searchResult struct {
	// startedAt is when the first of the calls started.
	startedAt time.Time
	// found is the scale set that was found, nil if GitHub has none.
	found *v1alpha1.ScaleSetRegistration
}

// search finds a scale set that was created but not recorded, because GitHub's answer was lost or the manager was killed before it
// could write it. It also checks whether the scale set that ARC's annotation names is ours. It is done when the scale set has become
// the registration, if there is none, or if GitHub can't be asked.
func (c *Controller) search(ctx context.Context, p *pass) (done bool, err error) {
	desired, err := scaleset.DesiredOf(p.Set)
	if err != nil || !c.mayBeUnrecorded(p) {
		return true, nil // with such a spec GitHub was never asked
	}
	last, known := c.searches.Last(p.key)
	if known && !last.Running() {
		deadline := last.Result.startedAt.Add(scaleset.DeregisterTimeout)
		switch {
		case last.Err == nil:
			return true, c.adopt(ctx, p, last.Result.found)
		case scaleset.CredentialsRefused(last.Err) && !apiaccess.MayPass(last.Err, last.Result.startedAt, p.Now) || !p.Now.Before(deadline):
			// The Event says what may be left, unless the credentials were never valid and so can't have created anything.
			neverValid := meta.IsStatusConditionFalse(p.Set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
			if err := c.forgetRegistration(ctx, p); err != nil {
				return false, err
			}
			if !scaleset.CredentialsRefused(last.Err) || !neverValid {
				c.recordPerhapsLeft(ctx, p, desired, last.Err)
			}
			return true, nil
		}
		if wait := min(scaleset.RetryAt(last).Sub(p.Now), deadline.Sub(p.Now)); wait > 0 {
			p.Searching = true
			p.requeue.After(wait)
			return false, nil
		}
	}
	p.Searching = true
	startedAt := last.Result.startedAt
	kube.SetIfZero(&startedAt, p.Now)
	lastSync, _ := c.syncs.Last(p.key)
	lost := scaleset.Unrecorded{
		Desired: desired, Reference: credentials.ForAutoscalingRunnerSet(p.Set), Listener: p.listenerAt(desired.URL),
		Unanswered: lastSync.Result.Unanswered, Annotated: p.Registration.DeepCopy(), CreatedAt: p.Set.CreationTimestamp.Time,
	}
	c.searches.Go(p.group(), p.key, func(ctx context.Context) (searchResult, error) {
		found, err := scaleset.Search(kube.WithScaleSetLogger(ctx, p.key), c.options.Connections, lost)
		return searchResult{startedAt: startedAt, found: found}, err
	})
	return false, nil
}

// mayBeUnrecorded reports whether GitHub may have a scale set that is recorded nowhere. If only this process has ever served the set,
// there is none unless this process requested it.
func (c *Controller) mayBeUnrecorded(p *pass) bool {
	if p.Unconfirmed {
		return true
	}
	if p.Registration != nil || ledger.IsDeregistered(p.Set) {
		return false
	}
	last, _ := c.syncs.Last(p.key)
	return last.Result.Posted || !p.memory.begunHere
}

// adopt takes the scale set that was found as the registration, unless another AutoscalingRunnerSet holds it.
func (c *Controller) adopt(ctx context.Context, p *pass, found *v1alpha1.ScaleSetRegistration) error {
	p.Registration, p.Unconfirmed = nil, false
	if found == nil {
		return nil
	}
	own, err := c.heldByNobodyElse(ctx, p, []v1alpha1.ScaleSetRegistration{*found})
	if err == nil && len(own) > 0 {
		p.Registration = found
	}
	return err
}

// deregister deletes the set's scale sets on GitHub: the former ones, and the present one unless it is only in the status. It is done when
// none of them is left, or after scaleset.DeregisterTimeout.
func (c *Controller) deregister(ctx context.Context, p *pass) (done bool, err error) {
	registrations := ledger.Registrations(ledger.FormerOf(p.Set))
	unproven := false
	if p.Registration != nil {
		if _, proven := ledger.ReferenceAt(c.knownReferences(p), p.Registration.URL); proven {
			registrations = slices.DeleteFunc(registrations, func(r v1alpha1.ScaleSetRegistration) bool { return ledger.SameScaleSet(r, *p.Registration) })
			registrations = append(registrations, *p.Registration)
		} else {
			unproven = true
		}
	}
	registrations, err = c.heldByNobodyElse(ctx, p, registrations)
	if err != nil {
		return false, err
	}
	progress := c.deleteAll(p, registrations)
	if !progress.Over {
		p.Unanswered = progress.Cause
		return false, nil
	}
	if p.Registration == nil && len(registrations) == 0 && p.Set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] == "" {
		return true, nil
	}
	if unproven {
		c.recordUnproven(ctx, p, *p.Registration)
	}
	if err := c.forgetRegistration(ctx, p); err != nil {
		return false, err
	}
	c.recordDeletion(ctx, p, progress)
	return true, nil
}

// forgetRegistration clears everything that records where the scale set is. After that the controller of listeners deletes the
// listener's Secrets.
func (c *Controller) forgetRegistration(ctx context.Context, p *pass) error {
	before := p.Set.DeepCopy()
	ledger.Deregister(p.Set)
	if _, err := kube.Patch(ctx, c.options.Client, p.Set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	before = p.Set.DeepCopy()
	p.Set.Status.Registration = nil
	if _, err := kube.PatchStatus(ctx, c.options.Client, p.Set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	p.Registration, p.Unconfirmed = nil, false
	c.syncs.Forget(p.key)
	c.searches.Forget(p.key)
	return nil
}

// release removes ARC's cleanup-protection from the chart's objects and then the set's finalizer.
func (c *Controller) release(ctx context.Context, p *pass) error {
	left, err := c.protection.StripLast(ctx, p.Set)
	if err != nil {
		return err
	}
	if err := kube.RemoveFinalizers(ctx, c.options.Client, p.Set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	if len(left) > 0 {
		report.RecordEvent(ctx, c.options.Recorder, p.Set, nil, c.protection.LeftEvent(left))
	}
	p.released = true
	return nil
}
