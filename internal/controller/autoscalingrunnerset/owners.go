package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// ownersSeenAfter is after what time a set checks again whether another set has recorded the same scale set: the cache, which is a
// fraction of a second old, may not have shown it.
const ownersSeenAfter = 2 * time.Second

// ownerProvenAfter is after what time a set checks again whether GitHub has confirmed the owner of its scale set. An owner asks within
// seconds of the manager's start; one that can't, because its credentials are refused, must not keep this set busy.
const ownerProvenAfter = 10 * time.Second

// owner is another AutoscalingRunnerSet at the same address.
type owner struct {
	key types.NamespacedName
	// registration is what the set has recorded there, zero if nothing.
	registration v1alpha1.ScaleSetRegistration
	// respelt is set if that address only may be the same: then the name counts, too.
	respelt bool
	// wanted is the name that the set's spec asks for, empty if the caller asked for ids only.
	wanted string
}

type owners []owner

// of returns the owner that has recorded the scale set. An id that is recorded under another name proves nothing: a GitHub that lost
// its state, or was restored, assigns ids a second time.
func (o owners) of(id int, name string) (types.NamespacedName, bool) {
	i := slices.IndexFunc(o, func(other owner) bool {
		return other.registration.ID == id && other.isNamed(name)
	})
	if i < 0 {
		return types.NamespacedName{}, false
	}
	return o[i].key, true
}

func (o owners) hold(id int, name string) bool {
	_, held := o.of(id, name)
	return held
}

// contest reports whether an owner has recorded the id under another name, so that one of the two names is outdated.
func (o owners) contest(id int, name string) bool {
	return slices.ContainsFunc(o, func(other owner) bool {
		return other.registration.ID == id && !other.respelt && !other.isNamed(name)
	})
}

// claim reports whether a scale set of that name belongs to one of the owners, or will.
func (o owners) claim(name string) bool {
	return slices.ContainsFunc(o, func(other owner) bool {
		return !other.respelt && strings.EqualFold(other.registration.Name, name) || strings.EqualFold(other.wanted, name)
	})
}

func (o owner) isNamed(name string) bool {
	return strings.EqualFold(o.registration.Name, name) || !o.respelt && mayBeOneName(o.registration.Name, name)
}

// mayBeOneName reports whether two recorded names are equal, or may be: not every version recorded the name.
func mayBeOneName(a, b string) bool { return a == "" || b == "" || strings.EqualFold(a, b) }

// giveWay finds out whether another set owns the scale set that this set has registered or received in the last answer. A set that
// registered it at the same time as its owner gives it up, together with its listener and runners, because GitHub grants a scale
// set a single session. Busy runners finish their jobs.
func (c *Controller) giveWay(ctx context.Context, p *pass) error {
	last, _ := c.syncs.Last(p.key)
	ids := idsInQuestion(p, last)
	if !p.hasValidURL() || len(ids) == 0 {
		return nil
	}
	var err error
	if p.owners, err = c.owners(ctx, p, ids...); err != nil || p.unconfirmed || !p.registeredHere() || last.Result.replaces(*p.registration) {
		return err
	}
	owner, owned := p.owners.of(p.registration.ID, p.registration.Name)
	switch {
	case !owned:
		return nil
	case !c.isProvenOwner(p, owner):
		p.requeue.After(ownerProvenAfter)
		return nil
	}
	return c.giveUp(ctx, p)
}

// idsInQuestion returns the ids of the scale sets that are registered, were last answered, or were refused as another set's.
func idsInQuestion(p *pass, last pool.Call[syncResult]) []int {
	var ids []int
	if p.registration != nil {
		ids = append(ids, p.registration.ID)
	}
	if last.Result.set != nil {
		ids = append(ids, last.Result.set.ID)
	}
	if inUse, refused := errors.AsType[*inUseError](last.Err); refused {
		p.requeue.After(ownerProvenAfter) // nothing else brings a pass once the owner is gone
		ids = append(ids, inUse.ID)
	}
	return ids
}

// isProvenOwner reports whether GitHub has confirmed to this process that the registered scale set is the owner's. A status alone
// proves nothing: anybody who may write it could cause the deletion of another set's listener and runners.
func (c *Controller) isProvenOwner(p *pass, owner types.NamespacedName) bool {
	last, _ := c.syncs.Last(owner)
	if last.Result.set == nil {
		return false
	}
	answered := last.Result.registration()
	return mayBeOneScaleSet(*answered, *p.registration) && mayBeOneName(answered.Name, p.registration.Name)
}

// giveUp deletes the listener and the runners of the registered scale set, and forgets the registration.
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

// owners returns the other AutoscalingRunnerSets that hold or want scale sets at the desired address. If two hold the same one, only
// one of them is its owner; see precedes. With ids it returns only the holders of these, which is cheap enough for every pass.
func (c *Controller) owners(ctx context.Context, p *pass, ids ...int) (owners, error) {
	sets, err := c.otherSets(ctx, p, p.desired.URL)
	if err != nil {
		return nil, err
	}
	var others owners
	for i := range sets {
		if other := p.ownerOf(&sets[i], ids); other.registration.ID != 0 || other.wanted != "" {
			others = append(others, other)
		}
	}
	return others, nil
}

// ownerOf returns what another set holds and wants at the desired address. With ids it looks only for these, and at addresses only
// if it finds one of them.
func (p *pass) ownerOf(set *v1alpha1.AutoscalingRunnerSet, ids []int) owner {
	other := owner{key: client.ObjectKeyFromObject(set)}
	theirs := registrationOf(set)
	if theirs != nil && (len(ids) == 0 || slices.Contains(ids, theirs.ID)) && mayBeOneAddress(theirs.URL, p.desired.URL) && !p.keeps(*theirs, set) {
		other.registration, other.respelt = *theirs, !sameURL(theirs.URL, p.desired.URL)
	}
	if len(ids) == 0 && len(set.Name) <= validation.LabelValueMaxLength && sameURL(set.Spec.GitHubConfigUrl, p.desired.URL) {
		other.wanted = desiredName(set)
	}
	return other
}

// otherSets returns the AutoscalingRunnerSets, but the pass's own, that hold or want a scale set at an address, or at what may be the
// same. They are the cache's, so they must not be changed. A pass costs nothing for the sets elsewhere, of which there may be thousands.
func (c *Controller) otherSets(ctx context.Context, p *pass, address string) ([]v1alpha1.AutoscalingRunnerSet, error) {
	var sets v1alpha1.AutoscalingRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.MatchingFields{indexByAddress: addressKey(address)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	return slices.DeleteFunc(sets.Items, func(set v1alpha1.AutoscalingRunnerSet) bool { return set.UID == p.set.UID }), nil
}

// keeps reports whether this set has registered the scale set that another set has recorded, and does not lose it to that set. A
// registration in this set's status is not lost to one that only the other's annotation claims, because that may have been copied.
func (p *pass) keeps(theirs v1alpha1.ScaleSetRegistration, other *v1alpha1.AutoscalingRunnerSet) bool {
	if !p.registeredHere() || p.registration.ID != theirs.ID || !mayBeOneName(p.registration.Name, theirs.Name) {
		return false
	}
	return !precedes(other, p.set) || !p.unconfirmed && other.Status.Registration == nil
}

// precedes reports whether a, and not b, keeps a scale set that both hold: the set that is not being deleted does, or else the older
// one. Timestamps have whole seconds, so the name decides between sets of the same second.
func precedes(a, b *v1alpha1.AutoscalingRunnerSet) bool {
	return cmp.Or(
		cmp.Compare(rank(a.DeletionTimestamp != nil), rank(b.DeletionTimestamp != nil)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String()),
	) < 0
}

// heldByNobodyElse leaves out the registrations that another AutoscalingRunnerSet also holds, and so still needs.
func (c *Controller) heldByNobodyElse(
	ctx context.Context, p *pass, registrations []v1alpha1.ScaleSetRegistration,
) ([]v1alpha1.ScaleSetRegistration, error) {
	var free []v1alpha1.ScaleSetRegistration
	for _, r := range registrations {
		others, err := c.otherSets(ctx, p, r.URL)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(others, func(other v1alpha1.AutoscalingRunnerSet) bool { return holds(&other, p.set, r) }) {
			free = append(free, r)
		}
	}
	return free, nil
}

// holds reports whether the other set is the one to use or delete a scale set. If both are being deleted, or both have it as a former
// one, exactly one of them deletes it.
func holds(other, set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration) bool {
	held := registrationOf(other)
	if held != nil && (sameScaleSet(*held, r) || mayBeOneScaleSet(*held, r) && strings.EqualFold(held.Name, r.Name)) {
		return other.DeletionTimestamp == nil || set.DeletionTimestamp == nil || precedes(other, set)
	}
	return precedes(other, set) && isFormer(other, r)
}
