package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
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
	if err := reconcile.InOrder(c.stopListeners, c.drainRunnerSets)(ctx, w); err != nil {
		return err
	}
	before := w.Set.DeepCopy()
	ledger.Release(w.Set)
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
