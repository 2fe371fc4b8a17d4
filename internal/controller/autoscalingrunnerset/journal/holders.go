package journal

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// MayBeOneName reports whether two recorded names are equal, or may be: not every version recorded the name.
func MayBeOneName(a, b string) bool { return a == "" || b == "" || strings.EqualFold(a, b) }

// HeldByAny reports whether one of the other sets of its namespace, and not this one, is to use or delete a scale set
// that both have, according to what they say of themselves. If both are being deleted, or both have it as a former one,
// exactly one of them deletes it. What a set of another namespace says decides nothing: anybody may write it there.
func HeldByAny(
	others []v1alpha1.AutoscalingRunnerSet, set *v1alpha1.AutoscalingRunnerSet, r v1alpha1.ScaleSetRegistration,
) bool {
	return slices.ContainsFunc(others, func(other v1alpha1.AutoscalingRunnerSet) bool {
		if other.Namespace != set.Namespace {
			return false
		}
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

// IndexByAddress names the cache's index of AutoscalingRunnerSets by the addresses at which they hold or want a scale
// set.
const IndexByAddress = "address"

// AddressKeysOf returns the keys of all addresses at which a set holds, held or wants a scale set, for IndexByAddress.
func AddressKeysOf(object client.Object) []string {
	set, ok := object.(*v1alpha1.AutoscalingRunnerSet)
	if !ok {
		return nil
	}
	keys := sets.New(AddressKey(set.Spec.GitHubConfigUrl))
	if registration := RegistrationOf(set); registration != nil {
		keys.Insert(AddressKey(registration.URL))
	}
	for _, r := range RecordsOf(set) {
		keys.Insert(AddressKey(r.URL))
	}
	return keys.UnsortedList()
}
