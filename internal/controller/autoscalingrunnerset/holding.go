package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// Every holderInterval a set looks whether another still holds the scale set that it wants: nothing else brings a
	// pass when that set is gone.
	holderInterval = 10 * time.Second
	// For the first firstAnswers of a manager, a set that was told that another has its scale set doesn't take it, if it
	// isn't recorded who has: releases before 0.1 recorded nothing, and whoever had it is asking GitHub, too.
	firstAnswers = 2 * time.Minute
)

// releaseIfHeld finds out whether another set holds the scale set that this set has registered or received in the last
// answer. A set that has registered it all the same releases it, together with its listener and runners, because GitHub
// grants a scale set a single session. Busy runners finish their jobs. Who holds it is known from records that no
// tenant writes, and only by the way by which GitHub has answered.
func (c *Controller) releaseIfHeld(ctx context.Context, w *world) (err error) {
	last, _ := c.syncs.Last(w.Key)
	if !w.HasValidURL() || last.Result.Way == "" {
		return nil
	}
	set := holders.SetOf(w.Set)
	known := func(id int, name string) holders.ScaleSet {
		return holders.ScaleSet{URL: w.Desired.URL, Way: last.Result.Way, ID: id, Name: name}
	}
	held, refused := errors.AsType[*holders.HeldError](last.Err)
	switch {
	case refused:
		w.Requeue.After(holderInterval)
		w.taken, err = c.holders.IsTaken(ctx, set, known(held.ID, held.Name))
		w.Memory.sawHolder = w.Memory.sawHolder || w.taken
	case last.Result.Set != nil:
		w.taken, err = c.holders.IsTaken(ctx, set, known(last.Result.Set.ID, last.Result.Set.Name))
	}
	if err != nil || w.Unconfirmed || !w.RegisteredHere() || last.Result.Replaces(*w.Registration) {
		return err
	}
	rival, err := c.holders.Rival(ctx, set, known(w.Registration.ID, w.Registration.Name))
	if err != nil || rival == nil {
		return err
	}
	if err := c.children.StopListeners(ctx, &w.Found); err != nil {
		return err
	}
	if err := c.children.DrainRunnerSets(ctx, &w.Found); err != nil {
		return err
	}
	before := w.Set.DeepCopy()
	journal.Release(w.Set)
	if _, err := kube.Patch(ctx, c.options.Client, w.Set, before); err != nil {
		return fmt.Errorf("give up the registration: %w", err)
	}
	w.Registration = nil
	return nil
}

// dropRecords deletes the records of scale sets that the set has no longer, or that it reaches by another way than
// when it recorded them, as after a change of its certificates; and those of a former set of its name. After a call
// that failed when it was recorded what the set holds, that stays as well, and no more: a server may find another scale
// set each time.
func (c *Controller) dropRecords(ctx context.Context, w *world) error {
	failed, held := w.LastSync.Err != nil, w.LastSync.Result.Held
	if !w.Answered() || (failed && held == 0) || (!failed && w.Registration == nil) {
		return nil
	}
	records, err := c.holders.Of(ctx, w.Key)
	if err != nil {
		return err
	}
	leaving := w.Records.Leaving()
	return c.holders.Drop(ctx, slices.DeleteFunc(records, func(r holders.Record) bool {
		present := w.Registration != nil && r.IsAt(w.Registration.URL, w.Registration.ID) &&
			(failed || r.Way == w.LastSync.Result.Way)
		last := failed && r.ID == held && r.Way == w.LastSync.Result.Way
		former := slices.ContainsFunc(leaving,
			func(l v1alpha1.ScaleSetRegistration) bool { return r.IsAt(l.URL, l.ID) })
		return r.Holder.UID == w.Set.UID && (present || last || former)
	})...)
}

// heldByNobodyElse leaves out the registrations that another AutoscalingRunnerSet holds, or is to get, and so needs.
func (c *Controller) heldByNobodyElse(
	ctx context.Context, w *world, registrations []v1alpha1.ScaleSetRegistration,
) (free []v1alpha1.ScaleSetRegistration, err error) {
	if len(registrations) == 0 {
		return nil, nil
	}
	own, err := c.holders.Of(ctx, w.Key)
	if err != nil {
		return nil, err
	}
	for _, r := range registrations {
		// Sets elsewhere, of which there may be thousands, cost nothing. These are the cache's, and must not be changed.
		var sets v1alpha1.AutoscalingRunnerSetList
		atAddress := client.MatchingFields{journal.IndexByAddress: journal.AddressKey(r.URL)}
		if err := c.options.Client.List(ctx, &sets, atAddress, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
		}
		others := slices.DeleteFunc(sets.Items,
			func(set v1alpha1.AutoscalingRunnerSet) bool { return set.UID == w.Set.UID })
		way := c.wayTo(w, own, r)
		rival, err := c.holders.Rival(ctx, holders.SetOf(w.Set),
			holders.ScaleSet{URL: r.URL, Way: way, ID: r.ID, Name: r.Name})
		if err != nil {
			return nil, err
		}
		if rival == nil && !journal.HeldByAny(others, w.Set, r) && !c.isAwaited(others, r, way) {
			free = append(free, r)
		}
	}
	return free, nil
}

// wayTo returns the way by which a scale set was found: as recorded, else as GitHub has last answered.
func (c *Controller) wayTo(w *world, own []holders.Record, r v1alpha1.ScaleSetRegistration) credentials.Way {
	for _, record := range own {
		if record.IsAt(r.URL, r.ID) && record.Holder.UID == w.Set.UID {
			return record.Way
		}
	}
	last, _ := c.syncs.Last(w.Key)
	return last.Result.Way
}

// isAwaited reports whether GitHub has told another set, by the same way, that a scale set is there, and it only waits
// for this one to let go of it: as when a set moves to another namespace, and keeps its queue of jobs.
func (c *Controller) isAwaited(
	others []v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration, way credentials.Way,
) bool {
	return way != "" && slices.ContainsFunc(others, func(other v1alpha1.AutoscalingRunnerSet) bool {
		found, waits := c.waiting.Load(client.ObjectKeyFromObject(&other))
		if !waits || other.DeletionTimestamp != nil {
			return false
		}
		awaited := found.(holders.ScaleSet)
		return awaited.ID == r.ID && awaited.Way == way && journal.MayBeOneAddress(awaited.URL, r.URL)
	})
}

// waits reports whether the set takes nothing that nobody is recorded to hold, for now. If this process has seen who
// held it, it knows that it was let go.
func (w *world) waits() bool {
	stalled := meta.FindStatusCondition(w.Set.Status.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Reason == v1alpha1.ReasonScaleSetInUse && !w.Memory.sawHolder &&
		w.Now.Before(w.firstPass.Add(firstAnswers))
}

// rememberWaiting remembers what GitHub has answered to a set that may not have it. While it is asked again, the last
// answer counts.
func (c *Controller) rememberWaiting(w *world) {
	last, _ := c.syncs.Last(w.Key)
	held, waits := errors.AsType[*holders.HeldError](last.Err)
	switch {
	case w.Cause == nil && last.Running():
	case w.Cause == nil && waits:
		c.waiting.Store(w.Key, holders.ScaleSet{
			URL: last.Result.Desired.URL, Way: last.Result.Way, ID: held.ID, Name: held.Name,
		})
	default:
		c.waiting.Delete(w.Key)
	}
}
