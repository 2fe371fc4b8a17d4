package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Every formerCheckInterval it is checked whether the last runner of a former registration is gone.
const formerCheckInterval = 30 * time.Second

// knownReferences say how GitHub was reached at those addresses of the set that something proves besides the status,
// which can be edited by hand. Listener and runners have the former address until the set is registered at the new one.
func (c *Controller) knownReferences(w *world) []credentials.Reference {
	known := []credentials.Reference{credentials.ForAutoscalingRunnerSet(w.Set)}
	if listener := w.Listener(); listener != nil {
		reference := credentials.ForAutoscalingListener(listener)
		reference.Namespace = w.Set.Namespace // whatever somebody may have written into its spec
		known = append(known, reference)
	}
	if runnerSet := w.RunnerSet(); runnerSet != nil {
		known = append(known, credentials.ForEphemeralRunnerSet(runnerSet))
	}
	if last, asked := c.syncs.Last(w.Key); asked && last.Result.Set != nil {
		known = append(known, last.Result.Reference)
	}
	return known
}

// recordUnproven records an Event about a registration that is only in the status, where it may be written by hand,
// unless it is listed as a former one: then it was proven when it was listed.
func (c *Controller) recordUnproven(ctx context.Context, w *world, registration v1alpha1.ScaleSetRegistration) {
	if !w.Records.IsLeaving(registration) {
		c.recordFarewell(ctx, w, report.Warning("ScaleSetLeftOnGitHub", "Deregister",
			fmt.Sprintf("Not deleted: scale set %q (id %d) at %s, which the status named. Neither the listener nor "+
				"the runners of this set use that address, so no credentials are sent there; delete it on GitHub "+
				"if it was this set's",
				registration.Name, registration.ID, registration.URL)))
	}
}

// A set may have asked for mostAsked scale sets at one address without an answer; then the first of them is dropped.
const mostAsked = 7

// leaveAsked handles scale sets that GitHub may have created at an address that the set left before they were recorded.
// If the last call has answered, they are to be deleted. If the answer was lost, an Event says what may be left. except
// is an address that is handled elsewhere.
func (c *Controller) leaveAsked(ctx context.Context, w *world, except string) error {
	last, _ := c.syncs.Last(w.Key)
	if last.Running() {
		return nil
	}
	answered, created := last.Result, false
	var unanswered []v1alpha1.ScaleSetRegistration
	var givenUp []v1alpha1.ScaleSetRegistration
	if asked := w.Records.AskedAt(except); answered.Set == nil ||
		!journal.MayBeOneAddress(answered.Desired.URL, except) {
		givenUp = asked[:max(0, len(asked)-mostAsked)]
	}
	after := w.Records.Without(func(r journal.Record) bool {
		left := !journal.MayBeOneAddress(r.URL, except) || slices.Contains(givenUp, r.ScaleSetRegistration)
		switch {
		case r.State == v1alpha1.RegistrationLeaving || !left:
			return false
		case r.State != v1alpha1.RegistrationAsked:
		case answered.Set != nil && journal.MayBeOneAddress(answered.Desired.URL, r.URL):
			created = answered.Posted
			if isNamed(r.ScaleSetRegistration, answered.Unsought) {
				unanswered = append(unanswered, r.ScaleSetRegistration)
			}
		default:
			unanswered = append(unanswered, r.ScaleSetRegistration)
		}
		return true
	})
	if len(after) == len(w.Records) {
		return nil
	}
	if created {
		before := w.Set.DeepCopy()
		after = after.Leave(w.Set, *answered.Registration(), answered.Reference, w.Now)
		after.Vouch(w.Set)
		if _, err := kube.Patch(ctx, c.options.Client, w.Set, before); err != nil {
			return fmt.Errorf("record a scale set that is to be deleted: %w", err)
		}
	}
	for _, r := range unanswered {
		c.recordPerhapsLeft(ctx, w, r, last.Err)
	}
	w.Records = after // the end of the pass writes that to the status, so not before the annotations vouch for it
	c.syncs.Forget(w.Key)
	return nil
}

// answered drops what the set has asked for at an address that has answered. The scale sets that the answer says
// nothing about may be left.
func (c *Controller) answered(
	ctx context.Context, w *world, records journal.Records, address string, unsought []scaleset.Name,
) journal.Records {
	for _, asked := range records.AskedAt(address) {
		if isNamed(asked, unsought) {
			c.recordPerhapsLeft(ctx, w, asked, nil)
		}
	}
	return records.Answered(address)
}

// isNamed reports whether a scale set has one of the names.
func isNamed(r v1alpha1.ScaleSetRegistration, names []scaleset.Name) bool {
	return slices.Contains(names, scaleset.Name{Group: r.Group, Name: r.Name})
}

// recordPerhapsLeft records the last Event about a scale set that may or may not exist. There is no cause if the
// manager was killed meanwhile.
func (c *Controller) recordPerhapsLeft(
	ctx context.Context, w *world, asked v1alpha1.ScaleSetRegistration, cause error,
) {
	text := fmt.Sprintf("Perhaps left on GitHub: scale set %q at %s, because a request to create it got no answer; if "+
		"it exists, delete it there", asked.Name, asked.URL)
	if cause != nil {
		text += fmt.Sprintf(". GitHub could not be asked: %v", cause)
	}
	c.recordFarewell(ctx, w, report.Warning("ScaleSetLeftOnGitHub", "Deregister", text))
}

// deregisterFormer deletes the scale sets at former addresses whose runners are gone, unless another set holds them.
func (c *Controller) deregisterFormer(ctx context.Context, w *world) error {
	unused := w.Records.Leaving()
	if len(unused) == 0 {
		c.abandonDeletion(w)
		return nil
	}
	w.Requeue.After(formerCheckInterval)
	var runners v1alpha1.EphemeralRunnerList
	err := c.options.Client.List(ctx, &runners, client.InNamespace(w.Set.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: w.Set.Name})
	if err != nil {
		return fmt.Errorf("list EphemeralRunners: %w", err)
	}
	unused = slices.DeleteFunc(unused, func(r v1alpha1.ScaleSetRegistration) bool {
		return w.mayReturnTo(r) || w.listensTo(r) ||
			slices.ContainsFunc(runners.Items, func(runner v1alpha1.EphemeralRunner) bool {
				return w.uses(&runner, r)
			})
	})
	unused, err = c.heldByNobodyElse(ctx, w, unused)
	if err != nil {
		return err
	}
	if len(unused) == 0 {
		c.abandonDeletion(w)
		return nil
	}
	progress := c.deleteAll(w, unused)
	if !progress.Over {
		return nil
	}
	before := w.Set.DeepCopy()
	after := w.Records.Without(func(r journal.Record) bool {
		return r.State == v1alpha1.RegistrationLeaving && slices.Contains(unused, r.ScaleSetRegistration)
	})
	after.Vouch(w.Set)
	if _, err := kube.Patch(ctx, c.options.Client, w.Set, before); err != nil {
		return fmt.Errorf("forget former registrations: %w", err)
	}
	w.Records = after
	c.recordDeletion(ctx, w, progress)
	return nil
}

// mayReturnTo reports whether a registration is in use again, or may be: the set is on its way back to the address, and
// it is not known yet which scale set it will find there.
func (w *world) mayReturnTo(r v1alpha1.ScaleSetRegistration) bool {
	if w.Registration != nil && w.isPresent(r, *w.Registration) {
		return true
	}
	return journal.MayBeOneAddress(r.URL, w.Desired.URL) &&
		(w.Registration == nil || !journal.SameURL(w.Registration.URL, w.Desired.URL))
}

// uses reports whether a runner is registered with a former scale set. Its spec has the address of the time when it was
// created, under which the scale set may have been known before.
func (w *world) uses(runner *v1alpha1.EphemeralRunner, former v1alpha1.ScaleSetRegistration) bool {
	address := runner.Spec.GitHubConfigUrl
	isPresent := w.Registration != nil && journal.MayBeOneAddress(address, w.Registration.URL)
	return runner.Spec.RunnerScaleSetID == former.ID &&
		(journal.SameURL(address, former.URL) || (!isPresent && journal.MayLeadToOnePlace(address, former.URL)))
}

// listensTo reports whether the spec of the listener or of the runners still has the registration.
func (w *world) listensTo(registration v1alpha1.ScaleSetRegistration) bool {
	listener, runnerSet := w.Listener(), w.RunnerSet()
	return (listener != nil && listener.Spec.RunnerScaleSetID == registration.ID &&
		journal.SameURL(listener.Spec.GitHubConfigUrl, registration.URL)) ||
		(runnerSet != nil && runnerSet.Spec.EphemeralRunnerSpec.RunnerScaleSetID == registration.ID &&
			journal.SameURL(runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl, registration.URL))
}

// deleteAll deletes the scale sets by calls in the pool, with retries, and returns the progress. It asks for the pass
// that goes on with it.
func (c *Controller) deleteAll(w *world, registrations []v1alpha1.ScaleSetRegistration) scaleset.Progress {
	if len(registrations) == 0 {
		return scaleset.Progress{Over: true}
	}
	last, known := c.deletions.Last(w.Key)
	if known && !last.Running() && !last.Result.Covers(registrations) {
		c.abandonDeletion(w)
		known = false
	}
	kube.SetIfZero(&w.Memory.deregistrationStart, w.Now)
	progress := scaleset.ProgressOf(last, known, registrations, w.Memory.deregistrationStart, w.Now, w.Deleting())
	switch {
	case progress.Over:
		c.abandonDeletion(w)
	case progress.RetryAfter > 0:
		w.Requeue.After(progress.RetryAfter)
	default:
		known := c.knownReferences(w)
		targets := make([]scaleset.Target, 0, len(registrations))
		for _, r := range registrations {
			targets = append(targets, scaleset.Target{
				Registration: r,
				References:   w.Records.ReferencesTo(w.Set, r, known),
				Listener:     w.listenerAt(r.URL),
			})
		}
		c.deletions.Go(w.group(), w.Key, func(ctx context.Context) (scaleset.Deletion, error) {
			// does nothing while a call runs
			return scaleset.DeleteAll(kube.WithScaleSetLogger(ctx, w.Key), c.options.Connections, targets)
		})
	}
	return progress
}

// abandonDeletion forgets the attempts and the deadline, so that the next deregistration starts afresh. A running call
// can't be taken back: it is forgotten by the pass that its end brings.
func (c *Controller) abandonDeletion(w *world) {
	if last, _ := c.deletions.Last(w.Key); !last.Running() {
		c.deletions.Forget(w.Key)
		w.Memory.deregistrationStart = time.Time{}
	}
}

// listenerAt returns the key of the listener whose credentials may be sent to an address, empty if there is none.
func (w *world) listenerAt(address string) client.ObjectKey {
	if live := w.Listener(); live != nil && journal.SameServer(live.Spec.GitHubConfigUrl, address) {
		return client.ObjectKeyFromObject(live)
	}
	return client.ObjectKey{}
}

// recordDeletion records Events about the scale sets that were deleted and those that were left, with everything that
// is needed to delete them by hand.
func (c *Controller) recordDeletion(ctx context.Context, w *world, progress scaleset.Progress) {
	for _, r := range progress.Deleted {
		report.RecordEvent(ctx, c.options.Recorder, w.Set, nil, report.Normal("ScaleSetDeleted", "Deregister",
			fmt.Sprintf("Scale set %d was deleted from %s", r.ID, r.URL)))
	}
	if len(progress.Left) == 0 {
		return
	}
	names := make([]string, 0, len(progress.Left))
	for _, r := range progress.Left {
		names = append(names, fmt.Sprintf("%q (id %d) at %s", r.Name, r.ID, r.URL))
	}
	c.recordFarewell(ctx, w, report.Warning("ScaleSetLeftOnGitHub", "Deregister",
		fmt.Sprintf("Left on GitHub: scale set %s; delete it there. It could not be deleted: %v",
			strings.Join(names, ", "),
			progress.Cause)))
}

// isPresent reports whether a former registration is the present one, perhaps in another spelling of its address. Only
// what was just created is a second scale set then.
func (w *world) isPresent(former, present v1alpha1.ScaleSetRegistration) bool {
	spelledAnew := !w.LastSync.Result.Posted && journal.MayBeOneScaleSet(former, present)
	return journal.SameScaleSet(former, present) || spelledAnew
}
