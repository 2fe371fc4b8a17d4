package actions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

const (
	// maxConcurrentCalls is how many calls a manager has in flight to one host. The pool keeps as many idle connections: otherwise
	// a burst of HTTP/1.1 calls would close and reopen most of them, with a TLS handshake each.
	maxConcurrentCalls = 128
	// maxHeaderBytes limits an answer's header. net/http allows 10 MiB, and the Budget doesn't cover headers. GitHub's have 3 kB.
	maxHeaderBytes = 128 << 10
	// An HTTP/2 server may send this much before it is read: of one answer, and of all on a connection together. It is enough for
	// 10 MB/s over 25 ms. net/http allows 4 MiB for each answer.
	maxUnreadOfAnswer, maxUnreadOfConnection = 256 << 10, 2 << 20
)

// errProxy hides its cause, which quotes the proxy's address and may contain a password.
var errProxy = errors.New("the proxy can't be determined; check the proxy URL (not shown, because it may contain a password)")

// proxyError says that a proxy refuses to connect to GitHub.
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

// Transport carries requests as those of a [Client]: with its proxy, timeouts, limits and [AddressCheck].
type Transport struct {
	*http.Transport
	proxy func(*http.Request) (*url.URL, error)
}

// chosenProxy is the key of the proxy in a request's context: dialling has to know whether it is for a proxy.
type chosenProxy struct{}

// NewTransport returns a transport with Proxy, RootCAs, Addresses and Resolver of the options. Programs can use it for requests of
// their own that have to follow the same rules.
func NewTransport(options Options) *Transport {
	proxy := options.Proxy
	if proxy == nil {
		// This reads the environment now; http.ProxyFromEnvironment reads it once per process.
		fromEnvironment := httpproxy.FromEnvironment().ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return fromEnvironment(r.URL) }
	}
	return &Transport{proxy: proxy, Transport: &http.Transport{
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
		// An HTTP/2 connection outlives the attempts on it. 10 s of silence and 4 s without an answer to a ping end a dead
		// connection before AttemptTimeout (15 s), so that the next attempt gets a new one.
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
				return &RefusedAddressError{err}
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, host)
}
