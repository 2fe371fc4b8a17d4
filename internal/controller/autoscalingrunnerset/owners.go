package autoscalingrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// ownersSeenAfter is when a set looks again whether another has recorded the same scale set: the cache, a fraction of a second
// old, may not have shown it.
const ownersSeenAfter = 2 * time.Second

// ownerProvenAfter is when a set looks again whether GitHub has confirmed the owner of its scale set. An owner asks within seconds of
// the manager's start; one that can't, because its credentials are refused, must not keep this set busy.
const ownerProvenAfter = 10 * time.Second

// owners are AutoscalingRunnerSets by the ids of the scale sets that they hold.
type owners map[int]types.NamespacedName

func (o owners) hold(id int) bool {
	_, held := o[id]
	return held
}

// giveWay finds out whether the scale set that this set has registered, or was given in the last answer, is another set's. A set
// that has registered it at the same time as its owner gives it up with all that works for it, because GitHub grants a scale set a
// single session. Its busy runners finish their jobs.
func (c *Controller) giveWay(ctx context.Context, p *pass) error {
	var ids []int
	if p.registration != nil {
		ids = append(ids, p.registration.ID)
	}
	last, _ := c.syncs.Last(p.key)
	if last.Result.set != nil {
		ids = append(ids, last.Result.set.ID)
	}
	if !p.hasValidURL() || len(ids) == 0 {
		return nil
	}
	var err error
	if p.owners, err = c.owners(ctx, p, ids...); err != nil || p.unconfirmed || !p.holdsHere() || last.Result.replaces(*p.registration) {
		return err
	}
	owner, owned := p.owners[p.registration.ID]
	switch {
	case !owned:
		return nil
	case !c.isProvenOwner(p, owner, p.registration.ID):
		p.requeue.After(ownerProvenAfter)
		return nil
	}
	return c.giveUp(ctx, p)
}

// isProvenOwner reports whether GitHub has answered this process that the scale set is the owner's. A status alone proves nothing:
// who may write it could have another set's listener and runners deleted.
func (c *Controller) isProvenOwner(p *pass, owner types.NamespacedName, id int) bool {
	last, _ := c.syncs.Last(owner)
	return last.Result.set != nil && last.Result.set.ID == id && shared(*last.Result.registration(), p.desired.registration(id))
}

// giveUp deletes what works for the registered scale set, and forgets the registration.
func (c *Controller) giveUp(ctx context.Context, p *pass) error {
	if _, err := c.stopListeners(ctx, p); err != nil {
		return err
	}
	if _, err := c.drainRunnerSets(ctx, p); err != nil {
		return err
	}
	before := p.set.DeepCopy()
	for _, key := range []string{v1alpha1.AnnotationRunnerScaleSetID, v1alpha1.AnnotationRunnerGroupName, v1alpha1.AnnotationRunnerScaleSetName} {
		delete(p.set.Annotations, key)
	}
	if _, err := kube.Patch(ctx, c.options.Client, p.set, before); err != nil {
		return fmt.Errorf("give up the registration: %w", err)
	}
	p.registration = nil
	return nil
}

// owners returns the other AutoscalingRunnerSets that hold scale sets at the desired address, by the scale set's id. Of two that
// hold the same one, one alone is its owner; see precedes. Given ids, it looks for these only, which is cheap enough for each pass.
func (c *Controller) owners(ctx context.Context, p *pass, ids ...int) (owners, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	held := owners{}
	for i := range sets.Items {
		other := &sets.Items[i]
		theirs := registrationOf(other)
		if other.UID == p.set.UID || theirs == nil || len(ids) > 0 && !slices.Contains(ids, theirs.ID) || !shared(*theirs, p.desired.registration(theirs.ID)) {
			continue
		}
		if !p.holdsHere() || p.registration.ID != theirs.ID || p.loses(other) {
			held[theirs.ID] = client.ObjectKeyFromObject(other)
		}
	}
	return held, nil
}

// loses reports whether a scale set that both hold is the other's. A registration that the status has is not lost to one that only
// an annotation claims, which anybody may have copied.
func (p *pass) loses(other *v1alpha1.AutoscalingRunnerSet) bool {
	return precedes(other, p.set) && (p.unconfirmed || other.Status.Registration != nil)
}

// precedes reports which of two sets keeps a scale set that both hold: the one that is not being deleted, or else the older one.
// Timestamps have whole seconds, so the name decides between sets of the same second.
func precedes(a, b *v1alpha1.AutoscalingRunnerSet) bool {
	return cmp.Or(
		cmp.Compare(rank(a.DeletionTimestamp != nil), rank(b.DeletionTimestamp != nil)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String()),
	) < 0
}

// heldByNobodyElse leaves out the registrations that another AutoscalingRunnerSet holds as well, and so still needs.
func (c *Controller) heldByNobodyElse(
	ctx context.Context, p *pass, registrations []v1alpha1.ScaleSetRegistration,
) ([]v1alpha1.ScaleSetRegistration, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	return slices.DeleteFunc(registrations, func(r v1alpha1.ScaleSetRegistration) bool {
		return slices.ContainsFunc(sets.Items, func(other v1alpha1.AutoscalingRunnerSet) bool {
			return other.UID != p.set.UID && holds(&other, p.set, r)
		})
	}), nil
}

// holds reports whether a scale set is the other's to use or to delete. Where both are being deleted, or have it as a former one,
// exactly one of them deletes it.
func holds(other, set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration) bool {
	if held := registrationOf(other); held != nil && shared(*held, r) {
		return other.DeletionTimestamp == nil || set.DeletionTimestamp == nil || precedes(other, set)
	}
	return precedes(other, set) && slices.ContainsFunc(registrationsOf(formerOf(other)), func(former v1alpha1.ScaleSetRegistration) bool { return shared(former, r) })
}

// shared reports whether registrations of two AutoscalingRunnerSets are of one scale set. Ids begin at 1 everywhere. Where scheme
// or host differ the names must be equal too: http:// and https:// of one host may be two servers, each behind its own proxy.
func shared(a, b v1alpha1.ScaleSetRegistration) bool {
	return sameScaleSet(a, b) && (sameSpelling(a.URL, b.URL) || strings.EqualFold(a.Name, b.Name))
}
