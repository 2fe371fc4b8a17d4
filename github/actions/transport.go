package actions

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// maxConcurrentCalls is how many calls a manager has in flight to one host. The pool keeps as many idle connections: otherwise
// a burst of HTTP/1.1 calls would close and reopen most of them, with a TLS handshake each.
const maxConcurrentCalls = 128

// errProxy hides its cause, which quotes the proxy's address and may contain a password.
var errProxy = errors.New("the proxy can't be determined; check the proxy URL (not shown, because it may contain a password)")

// newTransport returns the transport that all calls of a client share.
func newTransport(roots *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	if proxy == nil {
		// This reads the environment now; http.ProxyFromEnvironment reads it once per process.
		fromEnvironment := httpproxy.FromEnvironment().ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return fromEnvironment(r.URL) }
	}
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			chosen, err := proxy(r)
			if err != nil {
				return nil, errProxy
			}
			return chosen, nil
		},
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true, // otherwise setting TLSClientConfig turns HTTP/2 off
		// An HTTP/2 connection outlives the attempts on it. 10 s of silence and 4 s without an answer to a ping end a dead
		// connection before AttemptTimeout (15 s), so that the next attempt gets a new one.
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 4 * time.Second},
		MaxIdleConns:        2 * maxConcurrentCalls, // Actions service and REST API
		MaxIdleConnsPerHost: maxConcurrentCalls,
		IdleConnTimeout:     90 * time.Second,
	}
}
