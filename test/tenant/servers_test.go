package tenant

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// marker is in all answers of addresses that a tenant must not reach, and in an answer that isn't GitHub's.
const marker = "text-of-an-address-that-a-tenant-chose"

// record remembers what a server was sent.
type record struct {
	mutex       sync.Mutex
	connections int
	requests    int
	seen        map[string]bool
	order       []string
}

// note keeps the parts of a request that could carry a credential, without repetitions.
func (r *record) note(request *http.Request) {
	const most = 64 << 10
	body, _ := io.ReadAll(request.Body) // after an error: as much as was received
	request.Body = io.NopCloser(bytes.NewReader(body))
	text := fmt.Sprintf("%s %s%s\n", request.Method, request.Host, request.URL)
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		text += fmt.Sprintf("%s: %s\n", name, request.Header.Get(name))
	}
	text += string(body[:min(len(body), most)])
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.requests++
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	if !r.seen[text] {
		r.seen[text] = true
		r.order = append(r.order, text)
	}
}

func (r *record) connected(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.connections++
	}
}

// count returns the number of requests.
func (r *record) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.requests
}

// received returns the requests, and the number of connections.
func (r *record) received() ([]string, int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append([]string(nil), r.order...), r.connections
}

// server records what it receives.
type server struct {
	*httptest.Server
	record
}

// serve starts a server at an address, whose port may be 0.
func serve(t *testing.T, address string, secured bool, handler http.Handler) *server {
	t.Helper()
	s := unstarted(t, address, handler)
	if secured {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// unstarted is a server that doesn't serve yet.
func unstarted(t *testing.T, address string, handler http.Handler) *server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.note(r)
		handler.ServeHTTP(w, r)
	}))
	_ = s.Listener.Close()
	s.Listener, s.Config.ConnState = listener, s.connected
	return s
}

// impersonate starts a server that has a certificate of its own for hosts, and a proxy by which every host is this
// server, over TLS and without.
func impersonate(t *testing.T, handler http.Handler, hosts ...string) (secured, proxy *server) {
	t.Helper()
	chain, key, err := certutil.GenerateSelfSignedCertKey(hosts[0], []net.IP{}, hosts)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	secured = unstarted(t, "127.0.0.1:0", handler)
	secured.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	through := tunnel(t, secured.Listener.Addr())
	return secured, loopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			through.ServeHTTP(w, r)
		} else {
			handler.ServeHTTP(w, r)
		}
	}))
}

func loopback(t *testing.T, handler http.Handler) *server {
	t.Helper()
	return serve(t, "127.0.0.1:0", false, handler)
}

// canary starts a server that nobody may reach. It answers as a proxy, as a cloud's metadata and as anything else
// would.
func canary(t *testing.T, address string) *server {
	t.Helper()
	return serve(t, address, false, saying(http.StatusOK, marker))
}

func saying(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

// sending redirects everything to one address, with the status that makes a client repeat a request as it is.
func sending(to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to+"/latest/meta-data/", http.StatusTemporaryRedirect)
	})
}

// authority returns the certificate of a TLS server, which trusts itself, as PEM.
func (s *server) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// newGitHub returns a GitHub that knows team b's token only.
func newGitHub(t *testing.T, options fakegithub.Options, faults ...fakegithub.Fault) *fakegithub.Server {
	t.Helper()
	options.PATs = []string{attackersToken}
	made := fakegithub.New(options)
	t.Cleanup(made.Close)
	for _, fault := range faults {
		if _, err := made.AddFault(fault); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// rewriting replaces text in the answers of a GitHub whose path has the given end.
func rewriting(next http.Handler, path, before, after string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		body := strings.ReplaceAll(answer.Body.String(), before, after)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(answer.Code)
		_, _ = io.WriteString(w, body)
	})
}

// dribbling is a GitHub that announces a long answer with the registration of each runner and sends a part of it. The
// rest doesn't come before the client gives up.
func dribbling(github http.Handler) http.Handler {
	const announced, sent = 1 << 20, 64 << 10
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/generatejitconfig") {
			github.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(announced))
		_, _ = io.WriteString(w, `{"encodedJITConfig":"`+strings.Repeat("A", sent))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// forwarder is a proxy for plain HTTP that asks for a password.
func forwarder(user, password string) http.Handler {
	proxy := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		if name, given, _ := login.BasicAuth(); name != user || given != password {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// azure is Azure's authority and a vault in one server. Whoever asks gets a token: the manager is the only one who can.
func azure(secrets map[string]map[string]string) http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /{tenant}/oauth2/v2.0/token", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "token-of-the-vault", "expires_in": 3599})
	})
	routes.HandleFunc("GET /secrets/{name}", func(w http.ResponseWriter, r *http.Request) {
		fields, known := secrets[r.PathValue("name")]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		content, _ := json.Marshal(fields) // strings can be encoded
		_ = json.NewEncoder(w).Encode(map[string]string{"value": string(content)})
	})
	return routes
}

// tunnel is a proxy by which every host is the one server.
func tunnel(t *testing.T, to net.Addr) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		there, err := net.Dial(to.Network(), to.String())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(there, buffered); _ = there.Close() })
		both.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
		both.Wait()
	})
}
