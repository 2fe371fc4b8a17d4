package journal

import (
	"net"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// SameURL reports whether two addresses differ only in case and trailing slashes, if at all. Another scheme, or "www.",
// makes another address: behind proxies it may lead to another server.
func SameURL(a, b string) bool {
	if a == b {
		return true // usually so, and a pass compares as many pairs as there are sets
	}
	return compare(a, b, func(left, right *actions.ConfigURL) bool {
		return strings.EqualFold(left.String(), right.String())
	})
}

// SameServer reports whether credentials for one address may be sent to the other.
func SameServer(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool {
		return left.URL.Scheme == right.URL.Scheme && withoutPrefix(left.URL.Host) == withoutPrefix(right.URL.Host)
	})
}

func withoutPrefix(host string) string { return strings.TrimPrefix(strings.ToLower(host), "www.") }

// MayBeOneAddress reports whether two addresses differ only in scheme, "www.", the scheme's own port, and what SameURL
// ignores. It is for deciding that a scale set may still be in use; what may be taken or sent is decided by SameURL and
// SameServer.
func MayBeOneAddress(a, b string) bool { return a == b || AddressKey(a) == AddressKey(b) }

// AddressKey returns the same key for all addresses that MayBeOneAddress or SameURL takes for one. An invalid address
// shares its key with none.
func AddressKey(address string) string {
	parsed, err := actions.ParseConfigURL(address)
	if err != nil {
		return "invalid " + address // no valid one has a space
	}
	host, port, path := withoutPrefix(parsed.URL.Hostname()), parsed.URL.Port(), strings.ToLower(parsed.URL.Path)
	if port == "" || (parsed.URL.Scheme == "https" && port == "443") || (parsed.URL.Scheme == "http" && port == "80") {
		return host + path
	}
	return net.JoinHostPort(host, port) + path
}

// MayLeadToOnePlace reports whether two different addresses may lead to the same organization, repository or
// enterprise, because it or its GitHub Enterprise Server was renamed. An address on github.com and one on a GitHub
// Enterprise Server never do.
func MayLeadToOnePlace(a, b string) bool {
	return compare(a, b, func(left, right *actions.ConfigURL) bool { return left.Hosted == right.Hosted })
}

// compare returns the answer of same about two addresses, false if one of them is invalid.
func compare(a, b string, same func(left, right *actions.ConfigURL) bool) bool {
	left, leftErr := actions.ParseConfigURL(a)
	right, rightErr := actions.ParseConfigURL(b)
	return leftErr == nil && rightErr == nil && same(left, right)
}

// SameScaleSet compares id and address, but not name and group, which can be changed on GitHub.
func SameScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && SameURL(a.URL, b.URL)
}

// MayBeOneScaleSet also takes other spellings of the address into account.
func MayBeOneScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && MayBeOneAddress(a.URL, b.URL)
}
