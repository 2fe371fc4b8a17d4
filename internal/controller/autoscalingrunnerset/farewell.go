package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// leave deletes what the set has on GitHub, and then releases the set. It adopts a registration that GitHub has
// answered and that is not recorded yet. If there is none, search looks at the spec's address.
func (c *Controller) leave(ctx context.Context, w *world) error {
	w.LastSync, _ = c.syncs.Last(w.Key)
	switch answer := w.LastSync.Result; {
	case answer.Set == nil:
	case w.Registration == nil || w.Unconfirmed:
		w.Registration, w.Unconfirmed = answer.Registration(), false
		w.Records = c.answered(ctx, w, w.Records, w.Registration.URL, answer.Unsought)
	case !journal.SameScaleSet(*w.Registration, *answer.Registration()):
		if err := c.recordRegistration(ctx, w); err != nil {
			return err
		}
	}
	searched := ""
	if w.Registration == nil || journal.MayBeOneAddress(w.Registration.URL, w.Set.Spec.GitHubConfigUrl) {
		searched = w.Set.Spec.GitHubConfigUrl
	}
	if err := c.leaveAsked(ctx, w, searched); err != nil {
		return err
	}
	if done, err := c.search(ctx, w); err != nil || !done {
		return err
	}
	if done, err := c.deregister(ctx, w); err != nil || !done || len(w.Listeners) > 0 {
		return err
	}
	return c.release(ctx, w)
}

// search finds a scale set that was created but not recorded, because GitHub's answer was lost or the manager was
// killed before it could write it. It also checks whether the scale set that ARC's annotation names is ours. It is done
// when the scale set has become the registration, if there is none, or if GitHub can't be asked.
func (c *Controller) search(ctx context.Context, w *world) (done bool, err error) {
	desired, err := scaleset.DesiredOf(w.Set)
	if err != nil || !w.mayBeUnrecorded() {
		return true, nil // with such a spec GitHub was never asked
	}
	last, known := c.searches.Last(w.Key)
	if known && !last.Running() {
		deadline := last.Result.startedAt.Add(scaleset.DeregisterTimeout)
		switch {
		case last.Err == nil:
			return true, c.adopt(ctx, w, last.Result)
		case (scaleset.CredentialsRefused(last.Err) && !apiaccess.MayPass(last.Err, last.Result.startedAt, w.Now)) ||
			!w.Now.Before(deadline):
			// The Event says what may be left, unless the credentials were never valid and so can't have created
			// anything.
			neverValid := meta.IsStatusConditionFalse(w.Set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
			if err := c.giveUpSearch(ctx, w, desired.Registration()); err != nil {
				return false, err
			}
			if !scaleset.CredentialsRefused(last.Err) || !neverValid {
				c.recordPerhapsLeft(ctx, w, desired.Registration(), last.Err)
			}
			return true, nil
		}
		if wait := min(scaleset.RetryAt(last).Sub(w.Now), deadline.Sub(w.Now)); wait > 0 {
			w.Searching = true
			w.Requeue.After(wait)
			return false, nil
		}
	}
	w.Searching = true
	startedAt := last.Result.startedAt
	kube.SetIfZero(&startedAt, w.Now)
	lost := scaleset.Unrecorded{
		Desired: desired, Reference: credentials.ForAutoscalingRunnerSet(w.Set), Listener: w.listenerAt(desired.URL),
		MayBeNamed: namesOf(w.Records.AskedAt(desired.URL)), CreatedAt: w.Set.CreationTimestamp.Time,
	}
	if w.Unconfirmed {
		lost.Annotated = w.Registration.DeepCopy()
	}
	c.searches.Go(w.group(), w.Key, func(ctx context.Context) (searchResult, error) {
		found, unsought, err := scaleset.Search(kube.WithScaleSetLogger(ctx, w.Key), c.options.Connections, lost)
		return searchResult{startedAt: startedAt, found: found, unsought: unsought}, err
	})
	return false, nil
}

// giveUpSearch drops what can't be looked for, and remembers that it was: the rest is still to be deleted, perhaps
// after a restart.
func (c *Controller) giveUpSearch(ctx context.Context, w *world, desired v1alpha1.ScaleSetRegistration) error {
	if w.Unconfirmed {
		before := w.Set.DeepCopy()
		journal.Release(w.Set)
		if _, err := kube.Patch(ctx, c.options.Client, w.Set, before); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("forget the registration that only an annotation names: %w", err)
		}
		w.Registration, w.Unconfirmed = nil, false
	}
	w.Records = w.Records.Answered(desired.URL).Ask(w.Set, desired, w.Now).NotAsked(desired)
	return nil
}

// mayBeUnrecorded reports whether GitHub may have a scale set that has not become the registration: it was asked for
// one at the spec's address. A release before 0.1, which recorded only what it had left, and ARC may have asked without
// a record, too.
func (w *world) mayBeUnrecorded() bool {
	switch {
	case w.Unconfirmed || len(w.Records.AskedAt(w.Set.Spec.GitHubConfigUrl)) > 0:
		return true
	case w.Registration != nil || journal.IsDeregistered(w.Set):
		return false
	}
	return len(w.Records) == len(w.Records.Leaving())
}

// adopt takes the scale set that was found as the registration, unless another AutoscalingRunnerSet holds it. One that
// was registered before is gone: GitHub was asked to replace it.
func (c *Controller) adopt(ctx context.Context, w *world, result searchResult) error {
	found := result.found
	if w.Unconfirmed {
		w.Registration, w.Unconfirmed = nil, false
	}
	w.Records = c.answered(ctx, w, w.Records, w.Set.Spec.GitHubConfigUrl, result.unsought)
	if found == nil {
		return nil
	}
	own, err := c.heldByNobodyElse(ctx, w, []v1alpha1.ScaleSetRegistration{*found})
	if err == nil && len(own) > 0 {
		w.Registration = found
	}
	return err
}

// deregister deletes the set's scale sets on GitHub: the former ones, and the present one unless it is only in the
// status. It is done when none of them is left, or after scaleset.DeregisterTimeout.
func (c *Controller) deregister(ctx context.Context, w *world) (done bool, err error) {
	registrations := w.Records.Leaving()
	unproven := false
	if w.Registration != nil {
		if _, proven := journal.ReferenceAt(c.knownReferences(w), w.Registration.URL); proven {
			registrations = slices.DeleteFunc(registrations,
				func(r v1alpha1.ScaleSetRegistration) bool { return journal.SameScaleSet(r, *w.Registration) })
			registrations = append(registrations, *w.Registration)
		} else {
			unproven = true
		}
	}
	registrations, err = c.heldByNobodyElse(ctx, w, registrations)
	if err != nil {
		return false, err
	}
	progress := c.deleteAll(w, registrations)
	if !progress.Over {
		w.Unanswered = progress.Cause
		return false, nil
	}
	if w.Registration == nil && len(registrations) == 0 &&
		w.Set.Annotations[v1alpha1.AnnotationRunnerScaleSetID] == "" {
		return true, nil
	}
	if unproven {
		c.recordUnproven(ctx, w, *w.Registration)
	}
	if err := c.forgetRegistration(ctx, w); err != nil {
		return false, err
	}
	c.recordDeletion(ctx, w, progress)
	return true, nil
}

// forgetRegistration clears everything that records where the scale set is. After that the controller of listeners
// deletes the listener's Secrets.
func (c *Controller) forgetRegistration(ctx context.Context, w *world) error {
	before := w.Set.DeepCopy()
	journal.Deregister(w.Set)
	if _, err := kube.Patch(ctx, c.options.Client, w.Set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	before = w.Set.DeepCopy()
	w.Set.Status.Registration, w.Set.Status.Registrations, w.Records = nil, nil, nil
	if _, err := kube.PatchStatus(ctx, c.options.Client, w.Set, before); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget the registration: %w", err)
	}
	w.Registration, w.Unconfirmed = nil, false
	c.syncs.Forget(w.Key)
	c.searches.Forget(w.Key)
	return nil
}

// release removes ARC's cleanup-protection from the chart's objects and then the set's finalizer.
func (c *Controller) release(ctx context.Context, w *world) error {
	refused, err := partFromClaims(ctx, c.options.Client, w.Set)
	if err != nil {
		return err
	}
	if refused != nil {
		c.recordFarewell(ctx, w, *refused)
	}
	if _, err := c.gone(ctx, w.Key, nil); err != nil {
		return err
	}
	left, err := c.protection.StripLast(ctx, w.Set)
	if err != nil {
		return err
	}
	if err := kube.RemoveFinalizers(ctx, c.options.Client, w.Set, v1alpha1.FinalizerAutoscalingRunnerSet); err != nil {
		return err
	}
	if len(left) > 0 {
		report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, c.protection.LeftEvent(left))
	}
	w.released = true
	return nil
}

// gone deletes what is recorded of a set that is gone without having been released, such as one whose finalizer somebody
// has removed.
func (c *Controller) gone(ctx context.Context, set types.NamespacedName, _ *memory) (ctrl.Result, error) {
	records, err := c.holders.Of(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, c.holders.Drop(ctx, records...)
}
