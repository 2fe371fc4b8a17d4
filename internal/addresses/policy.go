package addresses

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Flag is the manager's flag that names an allowed address, and Value the value of its chart.
const (
	Flag  = "allowed-github-url"
	Value = "flags.allowedGitHubURLs"
)

// Policy decides about addresses. With entries, it allows only the GitHub addresses below one of them, and whatever
// these lead to. Without entries, it allows every address that is not special. A nil Policy allows all: that of a
// listener which no manager has configured.
type Policy struct {
	entries []*url.URL
}

// New returns the policy with these entries. It fails if one is not the address of a server, with or without a path.
func New(allowed []string) (*Policy, error) {
	p := &Policy{}
	for _, text := range allowed {
		entry, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil || entry.Hostname() == "" || defaultPorts[entry.Scheme] == "":
			return nil, fmt.Errorf(
				"%q is not an address; use https://HOST, https://HOST/ORGANIZATION or https://HOST/OWNER/REPOSITORY",
				bare(text),
			)
		case entry.User != nil || entry.RawQuery != "" || entry.Fragment != "":
			return nil, fmt.Errorf("%q must have no user name, password, query or fragment", bare(text))
		}
		p.entries = append(p.entries, entry)
	}
	return p, nil
}

// defaultPorts are the ports of the schemes that GitHub and proxies can have.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// NotAllowedError reports that the policy refuses an address.
type NotAllowedError struct {
	// Field is the field that names or leads to the address.
	Field string
	// Address is the address as far as it may be shown.
	Address string
	// Reason is what is wrong with it.
	Reason string
}

// Error names field, address and reason, and who can change what.
func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("%s: %s is not allowed, because %s; use another address, or ask the administrator of the "+
		"controller, who decides by %s of its chart",
		e.Field, e.Address, e.Reason, Value)
}

// CauseReason implements causes.Named.
func (e *NotAllowedError) CauseReason() string { return v1alpha1.ReasonAddressNotAllowed }

// unlisted is the reason why an address is refused that no entry covers.
const unlisted = "it is not below any address that " + Value + " lists"

// CheckGitHub returns a *NotAllowedError if a config URL may not be used. A text that is no URL is not this function's
// business.
func (p *Policy) CheckGitHub(field, text string) error {
	address, err := url.Parse(strings.Trim(strings.TrimSpace(text), "/"))
	if p == nil || err != nil || address.Hostname() == "" {
		return nil
	}
	if len(p.entries) == 0 {
		return refuseSpecial(field, address)
	}
	if !p.lists(address) {
		return &NotAllowedError{Field: field, Address: bare(text), Reason: unlisted}
	}
	return nil
}

// CheckProxy returns a *NotAllowedError if a scale set's proxy may not be used: an address that needs an entry, even if
// there are others, and has none. A text without a scheme is HOST:PORT.
func (p *Policy) CheckProxy(field, text string) error {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	address, err := url.Parse(text)
	if p == nil || err != nil || address.Hostname() == "" || p.listsServer(address.Scheme, hostPort(address)) {
		return nil
	}
	return refuseSpecial(field, address)
}

// refuseSpecial refuses an address whose host is visibly special. Names are resolved later.
func refuseSpecial(field string, address *url.URL) error {
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	reason := ""
	if literal, err := netip.ParseAddr(host); err == nil {
		reason = special(literal)
	} else if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		reason = "it is a loopback address"
	}
	if reason == "" {
		return nil
	}
	return &NotAllowedError{Field: field, Address: bare(address.String()), Reason: reason}
}

// lists reports whether an entry covers a config URL: it has the same scheme, host and port, and its path is the
// beginning of the config URL's, in whole parts.
func (p *Policy) lists(address *url.URL) bool {
	return slices.ContainsFunc(p.entries, func(entry *url.URL) bool {
		if address.User != nil || !sameText(entry.Scheme, address.Scheme) ||
			!sameText(hostPort(entry), hostPort(address)) {
			return false
		}
		wanted, given := parts(entry.Path), parts(address.Path)
		return len(wanted) <= len(given) && slices.EqualFunc(wanted, given[:len(wanted)], sameText)
	})
}

// listsServer reports whether an entry without a path names a server. The empty scheme stands for any.
func (p *Policy) listsServer(scheme, server string) bool {
	return slices.ContainsFunc(p.entries, func(entry *url.URL) bool {
		return len(parts(entry.Path)) == 0 && (scheme == "" || sameText(entry.Scheme, scheme)) &&
			sameText(hostPort(entry), server)
	})
}

// Check returns what a client for a config URL has to ask before it connects; "" means a vault. ownProxy is set if its
// proxy is that of the program's own environment, which the administrator has chosen. A GitHub that an entry covers may
// lead anywhere: the administrator trusts it.
func (p *Policy) Check(configURL string, ownProxy bool) actions.AddressCheck {
	if p == nil {
		return actions.AddressCheck{}
	}
	field, trusted := "vaultConfig", false
	if configURL != "" {
		address, err := url.Parse(strings.Trim(strings.TrimSpace(configURL), "/"))
		field, trusted = "githubConfigUrl", err == nil && p.lists(address)
	}
	return actions.AddressCheck{
		URL: func(address *url.URL) error {
			if trusted {
				return nil
			}
			return refuseSpecial("what githubConfigUrl leads to", address)
		},
		Dial: func(to actions.Destination) error {
			if (to.Proxy && (ownProxy || p.listsServer("", to.Host))) || (!to.Proxy && trusted) {
				return nil
			}
			reason := special(to.Address.Addr())
			if reason == "" {
				return nil
			}
			where := field
			if to.Proxy {
				where = "proxy"
			}
			return &NotAllowedError{Field: where, Address: shown(to), Reason: reason}
		},
	}
}

// shown returns an address as a message shows it: with the name that led to it.
func shown(to actions.Destination) string {
	if resolved := to.Address.String(); resolved != to.Host {
		return bare(to.Host) + ", which is " + resolved + ","
	}
	return to.Host
}

// hostPort returns an address's host and port, which may be the scheme's own.
func hostPort(address *url.URL) string {
	return net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), defaultPorts[strings.ToLower(address.Scheme)]))
}

// parts returns the parts of a path, without those that are empty.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" })
}

// sameText ignores the case of ASCII letters only: other letters that fold to them, such as the Kelvin sign, have other
// lengths.
func sameText(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// maxShown is the number of bytes of an address that a message shows.
const maxShown = 200

// bare returns an address without what may be secret, and not longer than maxShown.
func bare(text string) string {
	if _, host, found := strings.Cut(text, "@"); found {
		text = host
	}
	text, _, _ = strings.Cut(text, "?")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
