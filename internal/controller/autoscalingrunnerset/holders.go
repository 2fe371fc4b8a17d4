package autoscalingrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// releaseIfHeld finds out whether another set holds the scale set that this set has registered or received in the last
// answer. A set that registered it at the same time as its holder releases it, together with its listener and runners,
// because GitHub grants a scale set a single session. Busy runners finish their jobs.
func (c *Controller) releaseIfHeld(ctx context.Context, w *world) (err error) {
	last, _ := c.syncs.Last(w.Key)
	var ids []int // in question
	if w.Registration != nil {
		ids = append(ids, w.Registration.ID)
	}
	if last.Result.Set != nil {
		ids = append(ids, last.Result.Set.ID)
	}
	if inUse, refused := errors.AsType[*scaleset.InUseError](last.Err); refused {
		w.Requeue.After(holderProvenInterval) // nothing else brings a pass once the holder is gone
		ids = append(ids, inUse.ID)
	}
	if !w.HasValidURL() || len(ids) == 0 {
		return nil
	}
	if w.holders, err = c.holders(ctx, w, ids...); err != nil || w.Unconfirmed || !w.RegisteredHere() ||
		last.Result.Replaces(*w.Registration) {
		return err
	}
	holder, held := w.holders.HolderOf(w.Registration.ID, w.Registration.Name)
	if !held {
		return nil
	}
	if !c.isProvenHolder(w, holder) {
		w.Requeue.After(holderProvenInterval)
		return nil
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

// isProvenHolder reports whether GitHub has confirmed to this process that the registered scale set is the holder's. A
// status alone proves nothing: anybody who may write it could cause the deletion of another set's listener and runners.
func (c *Controller) isProvenHolder(w *world, holder types.NamespacedName) bool {
	last, _ := c.syncs.Last(holder)
	if last.Result.Set == nil {
		return false
	}
	answered := last.Result.Registration()
	return ledger.MayBeOneScaleSet(*answered, *w.Registration) && ledger.MayBeOneName(answered.Name, w.Registration.Name)
}

// holders returns the other AutoscalingRunnerSets that hold or want scale sets at the desired address. With ids it
// returns only the holders of these, which is cheap enough for every pass.
func (c *Controller) holders(ctx context.Context, w *world, ids ...int) (ledger.Holders, error) {
	others, err := c.otherSets(ctx, w, w.Desired.URL)
	if err != nil {
		return nil, err
	}
	position := ledger.Position{Set: w.Set, Address: w.Desired.URL, Unconfirmed: w.Unconfirmed}
	if w.RegisteredHere() {
		position.Registered = w.Registration
	}
	return position.Holders(others, ids...), nil
}

// otherSets returns the AutoscalingRunnerSets, but the pass's own, that hold or want a scale set at an address, or at
// what may be the same. They are the cache's, so they must not be changed. A pass costs nothing for the sets elsewhere,
// of which there may be thousands.
func (c *Controller) otherSets(ctx context.Context, w *world, address string) ([]v1alpha1.AutoscalingRunnerSet, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	there := client.MatchingFields{ledger.IndexByAddress: ledger.AddressKey(address)}
	if err := c.options.Client.List(ctx, &sets, there, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	return slices.DeleteFunc(sets.Items, func(set v1alpha1.AutoscalingRunnerSet) bool { return set.UID == w.Set.UID }), nil
}

// heldByNobodyElse leaves out the registrations that another AutoscalingRunnerSet also holds, and so still needs.
func (c *Controller) heldByNobodyElse(
	ctx context.Context, w *world, registrations []v1alpha1.ScaleSetRegistration,
) (free []v1alpha1.ScaleSetRegistration, err error) {
	for _, r := range registrations {
		others, err := c.otherSets(ctx, w, r.URL)
		if err != nil {
			return nil, err
		}
		if !ledger.HeldByAny(others, w.Set, r) {
			free = append(free, r)
		}
	}
	return free, nil
}
