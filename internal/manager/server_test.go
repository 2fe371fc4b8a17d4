package manager_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/harrier-ci/harrier/internal/testkube/identity"
)

// apiServer stands in for an API server: it remembers what it is asked. It has a Lease, and the objects that lists are
// given; nothing else can be written.
type apiServer struct {
	*httptest.Server
	// objects are items of lists by resource, as JSON.
	objects map[string]string
	// schemas answers the question for the kinds' schemas with a status; nil means that it is forbidden.
	schemas func() (status int)
	// broken is set if nothing but that question is answered.
	broken bool

	mu       sync.Mutex
	lease    []byte
	encoding string // of the Lease
	requests []request
}

// request is one that came in.
type request struct {
	method, path, selector, from string
	watch                        bool
}

// newAPIServer starts a server that speaks HTTP/2, as API servers do. The Lease is the holder's, if there is one.
func newAPIServer(t *testing.T, holder string) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]string{}}
	if holder != "" {
		s.encoding = "application/json"
		s.lease = fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":`+
			`"default","name":"lease"},"spec":{"holderIdentity":%q,"leaseDurationSeconds":3600}}`, holder)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// kubeconfig returns a file that leads to the server.
func (s *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return kubeconfigFor(t, &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
}

func kubeconfigFor(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := identity.WriteKubeconfig(path, config, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *apiServer) answer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watch := query.Get("watch") != ""
	s.mu.Lock()
	s.requests = append(s.requests, request{r.Method, r.URL.Path, query.Get("labelSelector"), r.RemoteAddr, watch})
	s.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, "/openapi/"):
		status := http.StatusForbidden
		if s.schemas != nil {
			status = s.schemas()
		}
		refuse(w, status)
	case s.broken:
		refuse(w, http.StatusInternalServerError)
	case strings.Contains(r.URL.Path, "/leases") && query.Get("labelSelector") == "":
		s.answerLease(w, r)
	case r.Method != http.MethodGet:
		refuse(w, http.StatusInternalServerError)
	case query.Get("sendInitialEvents") != "":
		refuse(w, http.StatusBadRequest) // lists only
	case watch:
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, s.objects[resource])
	}
}

// answerLease keeps what is written as it is.
func (s *apiServer) answerLease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet {
		s.lease, _ = io.ReadAll(r.Body)
		s.encoding = r.Header.Get("Content-Type")
	}
	if s.lease == nil {
		refuse(w, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", s.encoding)
	_, _ = w.Write(s.lease)
}

// releaseLease lets a manager lead that stands by.
func (s *apiServer) releaseLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}

// refuse answers with an error, as an API server does.
func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(status),
		Reason: map[int]metav1.StatusReason{
			http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		}[status],
	})
}

// seen returns the requests that match.
func (s *apiServer) seen(match func(request) bool) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r request) bool { return !match(r) })
}

// lists returns what was listed, as "namespace/resource selector", sorted and each a single time.
func (s *apiServer) lists() []string {
	var lists []string
	for _, r := range s.seen(func(r request) bool {
		return r.method == http.MethodGet && !r.watch && !strings.Contains(r.path, "/leases") &&
			!strings.HasPrefix(r.path, "/openapi/")
	}) {
		_, place, namespaced := strings.Cut(r.path, "/namespaces/")
		if !namespaced {
			place = r.path[strings.LastIndex(r.path, "/")+1:]
		}
		lists = append(lists, place+" "+r.selector)
	}
	slices.Sort(lists)
	return slices.Compact(lists)
}

// writes returns the requests that would change the cluster, but for those about the Lease.
func (s *apiServer) writes() []request {
	return s.seen(func(r request) bool { return r.method != http.MethodGet && !ofLease(r) })
}

// ofLease matches requests about the Lease of managers. Those of scale sets are selected by labels.
func ofLease(r request) bool { return strings.Contains(r.path, "/leases") && r.selector == "" }
