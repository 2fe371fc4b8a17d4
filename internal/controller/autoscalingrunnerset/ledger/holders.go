package ledger

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Holder is an AutoscalingRunnerSet that holds or wants scale sets at an address.
type Holder struct {
	Key types.NamespacedName
	// Registration is the scale set that the set has recorded there, zero if none.
	Registration v1alpha1.ScaleSetRegistration
	// Respelt is set if the address there is spelt otherwise and only may be the same: then the name counts, too.
	Respelt bool
	// Wanted is the name that the set's spec asks for, empty if only ids were asked for.
	Wanted string
}

// Holders are the other AutoscalingRunnerSets at an address.
type Holders []Holder

// HolderOf returns the set that has recorded the scale set. An id that is recorded under another name proves nothing: a
// GitHub that lost its state, or was restored, assigns ids a second time.
func (h Holders) HolderOf(id int, name string) (types.NamespacedName, bool) {
	i := slices.IndexFunc(h, func(other Holder) bool {
		return other.Registration.ID == id && other.isNamed(name)
	})
	if i < 0 {
		return types.NamespacedName{}, false
	}
	return h[i].Key, true
}

// Hold reports whether one of them has recorded the scale set.
func (h Holders) Hold(id int, name string) bool {
	_, held := h.HolderOf(id, name)
	return held
}

// HoldOtherwise reports whether one of them has recorded the id under another name, so that one of the two names is
// outdated.
func (h Holders) HoldOtherwise(id int, name string) bool {
	return slices.ContainsFunc(h, func(other Holder) bool {
		return other.Registration.ID == id && !other.Respelt && !other.isNamed(name)
	})
}

// HoldOrWant reports whether a scale set of that name belongs to one of them, or will.
func (h Holders) HoldOrWant(name string) bool {
	return slices.ContainsFunc(h, func(other Holder) bool {
		return (!other.Respelt && strings.EqualFold(other.Registration.Name, name)) ||
			strings.EqualFold(other.Wanted, name)
	})
}

func (h Holder) isNamed(name string) bool {
	return strings.EqualFold(h.Registration.Name, name) || (!h.Respelt && MayBeOneName(h.Registration.Name, name))
}

// MayBeOneName reports whether two recorded names are equal, or may be: not every version recorded the name.
func MayBeOneName(a, b string) bool { return a == "" || b == "" || strings.EqualFold(a, b) }

// Position says where a set stands towards the others at its address.
type Position struct {
	Set *v1alpha1.AutoscalingRunnerSet
	// Address is the one that the spec asks for.
	Address string
	// Registered is the registration at that address, nil if there is none.
	Registered *v1alpha1.ScaleSetRegistration
	// Unconfirmed is set while only ARC's annotation names the registration.
	Unconfirmed bool
}

// Holders returns those of the other sets that hold or want scale sets at the address. If this set and another hold the
// same one, only one of them is its holder; see precedes. With ids it looks only for the holders of these, and at
// addresses only if it finds one of them.
func (p Position) Holders(others []v1alpha1.AutoscalingRunnerSet, ids ...int) (holders Holders) {
	for i := range others {
		set := &others[i]
		holder := Holder{Key: client.ObjectKeyFromObject(set)}
		theirs := RegistrationOf(set)
		if theirs != nil && (len(ids) == 0 || slices.Contains(ids, theirs.ID)) &&
			MayBeOneAddress(theirs.URL, p.Address) &&
			!p.keeps(*theirs, set) {
			holder.Registration, holder.Respelt = *theirs, !SameURL(theirs.URL, p.Address)
		}
		if len(ids) == 0 && len(set.Name) <= validation.LabelValueMaxLength &&
			SameURL(set.Spec.GitHubConfigUrl, p.Address) {
			holder.Wanted = WantedName(set)
		}
		if holder.Registration.ID != 0 || holder.Wanted != "" {
			holders = append(holders, holder)
		}
	}
	return holders
}

// keeps reports whether this set has registered the scale set that another set has recorded, and does not lose it to
// that set. A registration in this set's status is not lost to one that only the other's annotation claims, because
// that may have been copied.
func (p Position) keeps(theirs v1alpha1.ScaleSetRegistration, other *v1alpha1.AutoscalingRunnerSet) bool {
	if p.Registered == nil || p.Registered.ID != theirs.ID || !MayBeOneName(p.Registered.Name, theirs.Name) {
		return false
	}
	return !precedes(other, p.Set) || (!p.Unconfirmed && other.Status.Registration == nil)
}

// WantedName returns the name that the spec asks for on GitHub.
func WantedName(set *v1alpha1.AutoscalingRunnerSet) string {
	return cmp.Or(set.Spec.RunnerScaleSetName, set.Name)
}

// HeldByAny reports whether one of the other sets, and not this one, is to use or delete a scale set that both have. If
// both are being deleted, or both have it as a former one, exactly one of them deletes it.
func HeldByAny(
	others []v1alpha1.AutoscalingRunnerSet, set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration,
) bool {
	return slices.ContainsFunc(others, func(other v1alpha1.AutoscalingRunnerSet) bool {
		held := RegistrationOf(&other)
		if held != nil && (SameScaleSet(*held, r) ||
			(MayBeOneScaleSet(*held, r) && strings.EqualFold(held.Name, r.Name))) {
			return other.DeletionTimestamp == nil || set.DeletionTimestamp == nil || precedes(&other, set)
		}
		return precedes(&other, set) && RecordsOf(&other).IsLeaving(r)
	})
}

// precedes reports whether a, and not b, keeps a scale set that both hold: the set that is not being deleted does, or
// else the older one. Timestamps have whole seconds, so the name decides between sets of the same second.
func precedes(a, b *v1alpha1.AutoscalingRunnerSet) bool {
	if deleted := a.DeletionTimestamp != nil; deleted != (b.DeletionTimestamp != nil) {
		return !deleted
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String()),
	) < 0
}
