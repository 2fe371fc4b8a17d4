package exchange_test

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// everywhere starts a proxy that answers as every server, on each of its ports. It returns the options with which a
// caller uses it. example.com and the names below it have a certificate.
func everywhere(t *testing.T, answer http.HandlerFunc) exchange.Options {
	t.Helper()
	encrypted := httptest.NewTLSServer(answer)
	t.Cleanup(encrypted.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			answer(w, r)
			return
		}
		tunnel(t, w, encrypted.Listener.Addr())
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(encrypted.Certificate())
	return exchange.Options{Proxy: http.ProxyURL(address), RootCAs: roots}
}

// tunnel connects a client of a proxy with a server.
func tunnel(t *testing.T, w http.ResponseWriter, to net.Addr) {
	t.Helper()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	server, err := new(net.Dialer).DialContext(t.Context(), to.Network(), to.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}

func TestWhereARedirectMayLead(t *testing.T) {
	for _, test := range []struct {
		from, to string
		followed bool
	}{
		{"https://example.com/a", "https://EXAMPLE.com:443/b", true},
		{"http://example.com/a", "https://example.com/b", true},
		{"http://example.com:8080/a", "https://example.com:8443/b", true},
		{"https://example.com/a", "http://example.com/b", false},
		{"https://example.com/a", "https://example.com:8443/b", false},
		{"http://example.com/a", "http://example.com:443/b", false},
		{"https://example.com/a", "https://example.com.evil/b", false},
		{"https://example.com/a", "https://api.example.com/b", false},
	} {
		reached := 0
		options := everywhere(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/a" {
				http.Redirect(w, r, test.to, http.StatusTemporaryRedirect)
				return
			}
			reached++
		})
		from, err := url.Parse(test.from)
		if err != nil {
			t.Fatal(err)
		}
		caller := exchange.New(&configurl.URL{}, options)
		_, err = caller.Do(t.Context(), exchange.Request{
			Endpoint: failure.EndpointGetRunner, Method: http.MethodGet, URL: from,
		})
		caller.CloseIdleConnections()
		if got := reached > 0; got != test.followed || (err == nil) != test.followed {
			t.Errorf("%s to %s: followed %t, %v", test.from, test.to, got, err)
		}
	}
}
