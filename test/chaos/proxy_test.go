package chaos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/harrier-ci/harrier/test/rig"
)

// proxy stands between the programs and the API server. It can delay or cut the programs' watches and meddle with their
// requests. The fake node's requests pass through it untouched.
type proxy struct {
	config  *rest.Config // leads through the proxy
	late    atomic.Int64 // delay of watch events, in nanoseconds
	meddles atomic.Pointer[meddling]
	leader  atomic.Pointer[string] // how the manager authenticates that wrote the Lease last
	severed atomic.Pointer[severance]

	mutex    sync.Mutex
	watching context.Context // ends all watches under way
	cut      context.CancelFunc
}

// meddling delays a share of the programs' requests or answers them in place of the API server.
type meddling struct {
	hits    func(*http.Request) bool
	percent int
	pause   time.Duration // before the request is handled
	// answer, unless nil, replaces the API server's answer. The request is not forwarded or, if late is set, carried
	// out before.
	answer *apierrors.StatusError
	late   bool
}

// severance cuts one program off from a part of the API while everything else that it does goes on.
type severance struct {
	credential string
	hits       func(*http.Request) bool
	// refuse answers an error immediately. Otherwise nothing is answered until the severance is over.
	refuse bool
	over   <-chan struct{}
}

// cuts reports whether the request is cut off.
func (s *severance) cuts(r *http.Request) bool {
	return s != nil && r.Header.Get("Authorization") == s.credential && s.hits(r)
}

// serve never forwards the request, not even late.
func (s *severance) serve(w http.ResponseWriter, r *http.Request) {
	if s.refuse {
		answer(w, apierrors.NewInternalError(errors.New("chaos")))
		return
	}
	select {
	case <-s.over:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// slowDown delays the events of watches from now on.
func (p *proxy) slowDown(late time.Duration) { p.late.Store(int64(late)) }

// cutWatches ends all watches under way.
func (p *proxy) cutWatches() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.cut != nil {
		p.cut()
	}
	p.watching, p.cut = context.WithCancel(context.Background())
}

// untilCut returns the request with a context that also ends at the next cut.
func (p *proxy) untilCut(r *http.Request) (*http.Request, context.CancelFunc) {
	p.mutex.Lock()
	watching := p.watching
	p.mutex.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(watching, cancel)
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// startProxy starts a proxy that ends with the test.
func startProxy(t *testing.T, upstream *rest.Config) *proxy {
	t.Helper()
	p := &proxy{config: rest.CopyConfig(upstream)}
	p.cutWatches()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)},
		[]string{"localhost"})
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
		Handler: p.handler(p.forwarder(t, upstream)), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ReadHeaderTimeout: time.Minute,
		// HTTP/1.1 on both sides: an answer that an API server gives before it has read the whole request, such as 403,
		// can get stuck between two HTTP/2 connections.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	p.config.Host, p.config.CAData = "https://"+listener.Addr().String(), certificate
	return p
}

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// handler decides what happens to a request.
func (p *proxy) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "fakenode") {
			forward.ServeHTTP(w, r)
			return
		}
		if s := p.severed.Load(); s.cuts(r) {
			s.serve(w, r)
			return
		}
		if watches(r) {
			watch, end := p.untilCut(r)
			defer end()
			r = watch
		}
		m := p.meddles.Load()
		if m == nil || !m.hits(r) || rand.IntN(100) >= m.percent {
			forward.ServeHTTP(w, r)
			return
		}
		m.serve(w, r, forward)
	})
}

func (m *meddling) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	rig.Wait(r.Context(), m.pause)
	switch {
	case m.answer == nil:
		forward.ServeHTTP(w, r)
		return
	case m.late:
		forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	answer(w, m.answer)
}

// answer answers an error as the API server would.
func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1" // clients recognize an error of the API server by these
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // if this fails, the client is gone
}

func (p *proxy) forwarder(t *testing.T, upstream *rest.Config) http.Handler {
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
		FlushInterval: -1, // immediately: watches are streams
		ModifyResponse: func(response *http.Response) error {
			r := response.Request
			if leases(r) && writes(r) && response.StatusCode < http.StatusMultipleChoices {
				credential := r.Header.Get("Authorization")
				p.leader.Store(&credential)
			}
			if watches(r) && !strings.HasPrefix(r.UserAgent(), "fakenode") {
				response.Body = &lateBody{ReadCloser: response.Body, proxy: p, gone: r.Context().Done()}
			}
			return nil
		},
		// Outages are intended and not worth a line for each stream.
		ErrorLog: log.New(io.Discard, "", 0),
		// Breaks the connection, as if there were no server.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// lateBody passes on a watch's events late. Events that arrive meanwhile are passed on together.
type lateBody struct {
	io.ReadCloser
	proxy *proxy
	gone  <-chan struct{}
}

// Read returns after the delay, or immediately when the client is gone.
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
