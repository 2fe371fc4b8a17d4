package autoscalingrunnerset

import (
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// sameURL reports whether two addresses differ only in case and trailing slashes, if at all. Another scheme, or "www.", makes
// another address: behind proxies it may lead to another server.
func sameURL(a, b string) bool {
	if a == b {
		return true // usually so, and a pass compares as many pairs as there are sets
	}
	return compare(a, b, func(left, right *actions.ConfigURL) bool { return strings.EqualFold(left.String(), right.String()) })
}

// sameServer reports whether credentials for one address may be sent to the other.
func sameServer(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool {
		return left.URL.Scheme == right.URL.Scheme && withoutPrefix(left.URL.Host) == withoutPrefix(right.URL.Host)
	})
}

func withoutPrefix(host string) string { return strings.TrimPrefix(strings.ToLower(host), "www.") }

// mayBeOneAddress reports whether two addresses differ only in scheme, "www.", the scheme's own port, and what sameURL ignores. It is
// for deciding that a scale set may still be in use; what may be taken or sent is decided by sameURL and sameServer.
func mayBeOneAddress(a, b string) bool {
	return a == b || compare(a, b, func(left, right *actions.ConfigURL) bool {
		return withoutScheme(left) == withoutScheme(right)
	})
}

func withoutScheme(address *actions.ConfigURL) string {
	host, port := withoutPrefix(address.URL.Hostname()), address.URL.Port()
	if port == "" || address.URL.Scheme == "https" && port == "443" || address.URL.Scheme == "http" && port == "80" {
		return host + strings.ToLower(address.URL.Path)
	}
	return net.JoinHostPort(host, port) + strings.ToLower(address.URL.Path)
}

// indexByAddress names the cache's index of AutoscalingRunnerSets by the addresses at which they hold or want a scale set.
const indexByAddress = "address"

// addressKey returns what addresses have in common that mayBeOneAddress or sameURL takes for one. An invalid address is only like itself.
func addressKey(address string) string {
	url, err := actions.ParseConfigURL(address)
	if err != nil {
		return address
	}
	return withoutScheme(url)
}

// addressKeysOf returns the keys of all addresses at which a set holds, held or wants a scale set, for indexByAddress.
func addressKeysOf(object client.Object) []string {
	set, is := object.(*v1alpha1.AutoscalingRunnerSet)
	if !is {
		return nil
	}
	keys := sets.New(addressKey(set.Spec.GitHubConfigUrl))
	if registration := registrationOf(set); registration != nil {
		keys.Insert(addressKey(registration.URL))
	}
	for _, former := range formerOf(set) {
		keys.Insert(addressKey(former.URL))
	}
	return keys.UnsortedList()
}

// mayLeadToOnePlace reports whether two different addresses may lead to the same organization, repository or enterprise, because it
// or its GitHub Enterprise Server was renamed. An address on github.com and one on a GitHub Enterprise Server never do.
func mayLeadToOnePlace(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool { return left.Hosted == right.Hosted })
}

// compare returns what same says about two addresses, false if one of them is invalid.
func compare(a, b string, same func(left, right *actions.ConfigURL) bool) bool {
	left, leftErr := actions.ParseConfigURL(a)
	right, rightErr := actions.ParseConfigURL(b)
	return leftErr == nil && rightErr == nil && same(left, right)
}

// isKnownAs reports whether the last call found, under another address, the scale set that was registered before. The same id, and
// that nothing was created, is the best proof there is. If it were treated as a second scale set, the deletion of the first would
// delete the one in use. If either is a former registration, there are two.
func (p *pass) isKnownAs(before, now v1alpha1.ScaleSetRegistration) bool {
	return !p.lastSync.Result.posted && now.ID == before.ID && mayLeadToOnePlace(before.URL, now.URL) &&
		!p.mayBeFormer(before) && !p.mayBeFormer(now)
}
