package credentials

import (
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/harrier-ci/harrier/github/actions"
)

// Resolved is what a Reference resolves to. It is shared: don't change it.
type Resolved struct {
	// Credentials are a token or an App, never both.
	Credentials actions.Credentials
	// RootCAs is PEM to add to the certificates that the system trusts, or "".
	RootCAs string
	// Proxy is nil if none is configured; then the environment's applies.
	Proxy *ProxySettings
}

// Keys of a proxy Secret, which are also the environment variables that pods get from it.
const (
	KeyHTTPProxy  = "http_proxy"
	KeyHTTPSProxy = "https_proxy"
	KeyNoProxy    = "no_proxy"
)

// ProxySettings are proxies with their user names and passwords filled in, as environment variables would have them.
type ProxySettings struct {
	HTTP, HTTPS string
	// NoProxy are hosts, domains and CIDRs, separated by commas.
	NoProxy string
}

// SecretData returns the data of a proxy Secret. It always has all three keys, because pods refer to each.
func (p *ProxySettings) SecretData() map[string][]byte {
	return map[string][]byte{
		KeyHTTPProxy:  []byte(p.HTTP),
		KeyHTTPSProxy: []byte(p.HTTPS),
		KeyNoProxy:    []byte(p.NoProxy),
	}
}

// proxyFromSecretData is the inverse of SecretData.
func proxyFromSecretData(data map[string][]byte) *ProxySettings {
	return &ProxySettings{
		HTTP:    string(data[KeyHTTPProxy]),
		HTTPS:   string(data[KeyHTTPSProxy]),
		NoProxy: string(data[KeyNoProxy]),
	}
}

// Func returns the function by which an HTTP transport chooses the proxy of a request.
func (p *ProxySettings) Func() func(*http.Request) (*url.URL, error) {
	choose := (&httpproxy.Config{HTTPProxy: p.HTTP, HTTPSProxy: p.HTTPS, NoProxy: p.NoProxy}).ProxyFunc()
	return func(request *http.Request) (*url.URL, error) { return choose(request.URL) }
}

// String keeps passwords out of logs.
func (p *ProxySettings) String() string { return "proxy settings" }
