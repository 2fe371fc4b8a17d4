package autoscalingrunnerset

import (
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// sameURL reports whether two addresses differ in case and trailing slashes at most. Another scheme, or "www.", is another
// address: behind proxies it may lead to another server.
func sameURL(a, b string) bool {
	if a == b {
		return true // as for most pairs; a pass compares as many as there are sets
	}
	return compare(a, b, func(left, right *actions.ConfigURL) bool { return strings.EqualFold(left.String(), right.String()) })
}

// sameServer reports whether credentials for one address may be sent to the other.
func sameServer(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool {
		return left.URL.Scheme == right.URL.Scheme && (left.Hosted && right.Hosted || strings.EqualFold(left.URL.Host, right.URL.Host))
	})
}

// mayLeadToOnePlace reports whether addresses that are not the same may lead to one organization, repository or enterprise, as
// after it or its GitHub Enterprise Server was renamed. github.com and GitHub Enterprise Server never do.
func mayLeadToOnePlace(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool { return left.Hosted == right.Hosted })
}

// compare returns what same says of two addresses, false where one of them is none.
func compare(a, b string, same func(left, right *actions.ConfigURL) bool) bool {
	left, leftErr := actions.ParseConfigURL(a)
	right, rightErr := actions.ParseConfigURL(b)
	return leftErr == nil && rightErr == nil && same(left, right)
}

// isKnownAs reports whether the last call found, under another address, the scale set that was registered before. That it has the
// same id, and that nothing was created, proves it as good as it can be: were it taken for a second one, the deletion of the first
// would delete the scale set in use. Where one of the two is a former registration there are two.
func (p *pass) isKnownAs(before, now v1alpha1.ScaleSetRegistration) bool {
	return !p.lastSync.Result.posted && now.ID == before.ID && mayLeadToOnePlace(before.URL, now.URL) &&
		!isFormer(p.set, before) && !isFormer(p.set, now)
}
