package actions

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// AddressCheck decides which addresses a client uses, for programs whose config URLs, proxies and servers are chosen by people who
// may not reach everything that the program can reach. A nil function allows every address. Functions may be called concurrently.
type AddressCheck struct {
	// URL is asked about each address that an answer names: the Actions service's and the message queue's. The config URL is the
	// caller's own.
	URL func(*url.URL) error
	// Dial is asked right before each connection, after names were resolved. So a name can't be resolved to something else after
	// the check.
	Dial func(Destination) error
}

// Destination is where a connection is about to be opened.
type Destination struct {
	// Proxy is set if a proxy listens there. What the proxy connects to is resolved by the proxy and never checked.
	Proxy bool
	// Host is the host and port before the host's name was resolved.
	Host string
	// Address is what it was resolved to.
	Address netip.AddrPort
}

// RefusedAddressError reports an address that the client's [AddressCheck] refused. Nothing was sent there.
type RefusedAddressError struct {
	// Err is the check's own error.
	Err error
}

// Error returns the text of the check's error.
func (e *RefusedAddressError) Error() string { return e.Err.Error() }

// Unwrap returns the check's error.
func (e *RefusedAddressError) Unwrap() error { return e.Err }

// InsecureRedirectError reports an https:// address that leads to one without TLS, where the credential would be sent in clear
// text. Nothing was sent there.
type InsecureRedirectError struct {
	// Endpoint is the call whose answer named the address, one of the Endpoint… constants.
	Endpoint string
	// From and To are the addresses, without queries.
	From, To string
}

// Error names both addresses and what to correct.
func (e *InsecureRedirectError) Error() string {
	return fmt.Sprintf("%s leads to %s, without TLS: the credential would be readable on the way and was not sent; "+
		"let the gateway in front of GitHub set X-Forwarded-Proto: https, so that GitHub names https:// addresses", e.From, e.To)
}

// insecureRedirect returns an error if an https:// address leads to one without TLS, else nil.
func insecureRedirect(endpoint string, from, to *url.URL) *InsecureRedirectError {
	if from.Scheme != "https" || to.Scheme == "https" {
		return nil
	}
	return &InsecureRedirectError{Endpoint: endpoint, From: bare(from), To: bare(to)}
}

// accept checks the address that an answer names for later calls. The answer came from the address from.
func (c *Client) accept(endpoint string, from, named *url.URL) error {
	if insecure := insecureRedirect(endpoint, from, named); insecure != nil {
		return unexpected(endpoint, insecure)
	}
	if c.addresses.URL == nil {
		return nil
	}
	if err := c.addresses.URL(named); err != nil {
		return unexpected(endpoint, &RefusedAddressError{err})
	}
	return nil
}

// isRefusedAddress reports whether the client itself refused to use an address, so that repeating the call is useless.
func isRefusedAddress(err error) bool {
	_, refused := errors.AsType[*RefusedAddressError](err)
	_, insecure := errors.AsType[*InsecureRedirectError](err)
	return refused || insecure
}

// refusedRedirect is a redirect that was not followed.
type refusedRedirect struct {
	// to is where it leads.
	to string
	// elsewhere is set if that is another host or port. Otherwise the redirect would turn the call into a GET.
	elsewhere bool
	// insecure is not nil if it leads from https:// to http://.
	insecure *InsecureRedirectError
}

func (r *refusedRedirect) String() string {
	const advice = "use that address's http:// or https:// and its host (without api.) in githubConfigUrl, or check the proxy or gateway on the way"
	switch {
	case r.insecure != nil:
		return r.insecure.Error()
	case r.elsewhere:
		return fmt.Sprintf("it redirects to %s, on another host or port, where the credential is not sent: %s", r.to, advice)
	}
	return fmt.Sprintf("it redirects to %s, which only a GET can follow: %s", r.to, advice)
}

// mostRedirects is how many redirects are followed, as many as net/http follows by default.
const mostRedirects = 10

// followRedirect decides whether a redirect is followed. 301, 302 and 303 turn any call into a GET, whose success says nothing
// about, say, the deletion that the call asked for. A redirect to another host or port would let a server choose what the program
// requests inside of its own network. Such redirects end the call, and so do those that give up TLS.
func (x *exchange) followRedirect(next *http.Request, before []*http.Request) error {
	last := before[len(before)-1]
	refused := &refusedRedirect{
		to: bare(next.URL), elsewhere: !sameServer(last.URL, next.URL), insecure: insecureRedirect(x.request.endpoint, last.URL, next.URL),
	}
	switch {
	case refused.insecure != nil, refused.elsewhere, next.Method != last.Method:
		x.redirect = refused
		return http.ErrUseLastResponse
	case len(before) >= mostRedirects:
		return fmt.Errorf("stopped after %d redirects", mostRedirects)
	}
	return nil
}

// sameServer reports whether a redirect stays at its server: on the same port, or from http:// to https:// of the same host.
func sameServer(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	return portOf(from) == portOf(to) && from.Scheme == to.Scheme || from.Scheme == "http" && to.Scheme == "https"
}

func portOf(address *url.URL) string {
	switch port := address.Port(); {
	case port != "":
		return port
	case address.Scheme == "http":
		return "80"
	}
	return "443"
}
