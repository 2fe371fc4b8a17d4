package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/http/httpproxy"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// A manager has at most maxConcurrentCalls calls in flight to one host. The pool keeps as many idle connections:
	// otherwise a burst of HTTP/1.1 calls would close and reopen most of them, with a TLS handshake each.
	maxConcurrentCalls = 128
	// maxHeaderBytes limits an answer's header. net/http allows 10 MiB, and the Budget doesn't cover headers. GitHub's
	// have 3 kB.
	maxHeaderBytes = 128 << 10
	// An HTTP/2 server may send this much before it is read: of one answer, and of all on a connection together. It is
	// enough for 10 MB/s over 25 ms. net/http allows 4 MiB for each answer.
	maxUnreadOfAnswer, maxUnreadOfConnection = 256 << 10, 2 << 20
)

// errProxy hides its cause, which quotes the proxy's address and may contain a password.
var errProxy = errors.New(
	"the proxy can't be determined; check the proxy URL (not shown, because it may contain a password)",
)

// proxyError reports that a proxy refuses to connect to GitHub.
type proxyError struct{ status int }

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy answered %d %s", e.status, http.StatusText(e.status))
}

// acceptProxy fails if a proxy refuses. net/http would quote the text that the proxy gave, whoever it is.
func acceptProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return &proxyError{answer.StatusCode}
	}
	return nil
}

// Options configure a [Caller], and what makes its requests. The zero value works.
type Options struct {
	// UserAgent identifies the calling program in every request.
	UserAgent UserAgent
	// RootCAs are all certificate authorities to trust, in place of the system's. nil means the system's.
	RootCAs *x509.CertPool
	// Proxy returns the proxy for a request, or nil if it needs none. A nil function means HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY, which are read once.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses decides which addresses are used. The zero value allows all.
	Addresses AddressCheck
	// Resolver finds the addresses of names; nil means the system's.
	Resolver *net.Resolver
	// RoundTripper carries requests in place of the network, as to a server in the same process; nil means the network.
	// Proxy, RootCAs, Addresses.Dial and Resolver are about connections, of which there are none then.
	RoundTripper http.RoundTripper
	// Budget limits the memory for answers, together with other callers; nil means that only each answer is limited.
	Budget *Budget
	// Owner is whose share of the budget the caller uses; empty if it has one of its own.
	Owner string
	// Account distinguishes accounts at GitHub of which people must not spend each other's limits; empty if the program
	// has one only.
	Account string
	// Logger receives renewals at info, and answers and repetitions at V(1). The latter go to the logger in the call's
	// context if there is one. No credential is ever logged.
	Logger logr.Logger
	// Clock tells the time for expiry and pauses; nil means the real clock. Deadlines always run in real time, as
	// contexts do.
	Clock clock.WithTicker
	// OnRequest is called after every attempt unless it is nil. Calls may be concurrent, and it must not block.
	OnRequest func(RequestInfo)
}

// AddressCheck decides which addresses a caller uses, for programs whose config URLs, proxies and servers are chosen by
// people who may not reach everything that the program can reach. A nil function allows every address. Functions may be
// called concurrently.
type AddressCheck struct {
	// URL is asked about each address that an answer names: the Actions service's and the message queue's. The config
	// URL is the caller's own.
	URL func(*url.URL) error
	// Dial is asked right before each connection, after names were resolved. So a name can't be resolved to something
	// else after the check.
	Dial func(Destination) error
}

// Destination is the target of a connection that is about to be opened.
type Destination struct {
	// Proxy is set if a proxy listens there. What the proxy connects to is resolved by the proxy and never checked.
	Proxy bool
	// Host is the host and port before the host's name was resolved.
	Host string
	// Address is the result of the resolution.
	Address netip.AddrPort
}

// Transport carries requests as those of a [Caller]: with its proxy, timeouts, limits and [AddressCheck].
type Transport struct {
	*http.Transport
	proxy   func(*http.Request) (*url.URL, error)
	instead http.RoundTripper
}

// chosenProxy is the key of the proxy in a request's context: dialling has to know whether it is for a proxy.
type chosenProxy struct{}

// NewTransport returns a transport with Proxy, RootCAs, Addresses and Resolver of the options. Programs can use it for
// requests of their own that have to follow the same rules.
func NewTransport(options Options) *Transport {
	proxy := options.Proxy
	if proxy == nil {
		// This reads the environment now; http.ProxyFromEnvironment reads it a single time per process.
		fromEnvironment := httpproxy.FromEnvironment().ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return fromEnvironment(r.URL) }
	}
	return &Transport{proxy: proxy, instead: options.RoundTripper, Transport: &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			chosen, _ := r.Context().Value(chosenProxy{}).(*url.URL)
			return chosen, nil
		},
		OnProxyConnectResponse: acceptProxy,
		DialContext:            options.dial,
		TLSClientConfig:        &tls.Config{RootCAs: options.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true, // otherwise setting TLSClientConfig turns HTTP/2 off
		MaxResponseHeaderBytes: maxHeaderBytes,
		// An HTTP/2 connection outlives the attempts on it. 10 s of silence and 4 s without an answer to a ping end a
		// dead connection before AttemptTimeout (15 s), so that the next attempt gets a new one.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 10 * time.Second, PingTimeout: 4 * time.Second,
			MaxReceiveBufferPerStream: maxUnreadOfAnswer, MaxReceiveBufferPerConnection: maxUnreadOfConnection,
		},
		MaxIdleConns:        2 * maxConcurrentCalls, // Actions service and REST API
		MaxIdleConnsPerHost: maxConcurrentCalls,
		IdleConnTimeout:     90 * time.Second,
	}}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.instead != nil {
		return t.instead.RoundTrip(r)
	}
	chosen, err := t.proxy(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errProxy
	}
	return t.Transport.RoundTrip(r.WithContext(context.WithValue(r.Context(), chosenProxy{}, chosen)))
}

// dial opens a connection unless the address check refuses what the host was resolved to.
func (o Options) dial(ctx context.Context, network, host string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: o.Resolver}
	if check := o.Addresses.Dial; check != nil {
		proxy, _ := ctx.Value(chosenProxy{}).(*url.URL)
		dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			address, err := netip.ParseAddrPort(resolved)
			if err == nil {
				err = check(Destination{Proxy: proxy != nil, Host: host, Address: address})
			}
			if err != nil {
				return failure.NewRefusedAddressError(err)
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, host)
}

// Accept checks the address that an answer from the address from names for later requests; token is the request's. It
// fails with *failure.UnexpectedResponseError.
func (c AddressCheck) Accept(endpoint string, from, named *url.URL, token string) error {
	if insecure := failure.Insecure(endpoint, from, named, token); insecure != nil {
		return failure.Unexpected(endpoint, insecure)
	}
	if c.URL == nil {
		return nil
	}
	if err := c.URL(named); err != nil {
		return failure.Unexpected(endpoint, failure.NewRefusedAddressError(err, token))
	}
	return nil
}

// At most mostRedirects redirects are followed, as many as net/http follows by default.
const mostRedirects = 10

// refuse decides whether a redirect is followed, and returns it if not. 301, 302 and 303 turn any call into a GET,
// whose success says nothing about, say, the deletion that the call asked for. A redirect to another host or port would
// let a server choose what the program requests inside of its own network. Such redirects end the call, and so do those
// that give up TLS.
func refuse(
	endpoint string, next *http.Request, before []*http.Request, secrets []string,
) (*failure.Redirect, error) {
	last := before[len(before)-1]
	redirect := &failure.Redirect{
		To:        failure.Bare(next.URL, secrets...),
		Elsewhere: !sameServer(last.URL, next.URL),
		Insecure:  failure.Insecure(endpoint, last.URL, next.URL, secrets...),
	}
	switch {
	case redirect.Insecure != nil, redirect.Elsewhere, next.Method != last.Method:
		return redirect, nil
	case len(before) >= mostRedirects:
		return nil, fmt.Errorf("stopped after %d redirects", mostRedirects)
	}
	return nil, nil
}

// sameServer reports whether a redirect stays at its server: on the same port, or from http:// to https:// of the same
// host.
func sameServer(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	return (portOf(from) == portOf(to) && from.Scheme == to.Scheme) || (from.Scheme == "http" && to.Scheme == "https")
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
