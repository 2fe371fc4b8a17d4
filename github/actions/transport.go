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

// maxConcurrentCalls is how many calls a manager has in flight to one host. Without room for as many idle connections,
// a burst of HTTP/1.1 calls would close and reopen most of them, a TLS handshake each.
const maxConcurrentCalls = 128

// errProxy hides the cause on purpose: it quotes the proxy's address, which may hold a password.
var errProxy = errors.New("the proxy can't be determined; check the proxy URL (its text is withheld, it may hold a password)")

// newTransport makes the connections that all calls of a client share.
func newTransport(roots *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	if proxy == nil {
		// Unlike http.ProxyFromEnvironment this reads the environment now, not once per process.
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
		ForceAttemptHTTP2:   true, // a TLSClientConfig of one's own turns it off otherwise
		// An HTTP/2 connection outlives the attempts on it. 10 s of silence and 4 s without an answer to a ping end a dead
		// one before AttemptTimeout (15 s), so that the repetition gets a fresh connection.
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 4 * time.Second},
		MaxIdleConns:        2 * maxConcurrentCalls, // Actions service and REST API
		MaxIdleConnsPerHost: maxConcurrentCalls,
		IdleConnTimeout:     90 * time.Second,
	}
}
