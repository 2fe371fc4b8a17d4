package chaos

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// proxy stands between the programs and the API server and can make their watches slow.
type proxy struct {
	config *rest.Config // leads through the proxy
	late   atomic.Int64 // how late events are, in nanoseconds
}

// slowDown lets events of watches come that much later from now on.
func (p *proxy) slowDown(late time.Duration) { p.late.Store(int64(late)) }

// startProxy starts one that ends with the test.
func startProxy(t *testing.T, upstream *rest.Config) *proxy {
	t.Helper()
	p := &proxy{config: rest.CopyConfig(upstream)}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: p.handler(t, upstream), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ReadHeaderTimeout: time.Minute,
		// HTTP/1.1 on both sides: an answer that an API server gives before it has read the request, such as 403, can get
		// stuck between two HTTP/2 connections.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	p.config.Host, p.config.CAData = "https://"+listener.Addr().String(), certificate
	return p
}

func (p *proxy) handler(t *testing.T, upstream *rest.Config) http.Handler {
	t.Helper()
	target, err := url.Parse(upstream.Host)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(upstream)
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // at once: watches are streams
		ModifyResponse: func(response *http.Response) error {
			r := response.Request
			if r.URL.Query().Get("watch") != "" && !strings.HasPrefix(r.UserAgent(), "fakenode") {
				response.Body = &lateBody{ReadCloser: response.Body, proxy: p, gone: r.Context().Done()}
			}
			return nil
		},
		// Outages are what is wanted: they are not worth a line for each stream.
		ErrorLog: log.New(io.Discard, "", 0),
		// As if nobody were there.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// lateBody hands a watch's events on late. What comes meanwhile is handed on together.
type lateBody struct {
	io.ReadCloser
	proxy *proxy
	gone  <-chan struct{}
}

// Read returns late, unless the client has gone.
func (b *lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	late := time.Duration(b.proxy.late.Load())
	if late <= 0 {
		return n, err
	}
	timer := time.NewTimer(late)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.gone:
	}
	return n, err
}
