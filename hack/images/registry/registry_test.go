package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/harrier-ci/harrier/hack/images/archive"
)

// fakeRegistry keeps blobs and manifests in memory. Unless accept is empty, it challenges requests that lack it as Authorization.
type fakeRegistry struct {
	challenge func(host string) string
	accept    string

	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte
	uploads   int
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Path == "/token" {
		f.token(w, r)
		return
	}
	if f.accept != "" && r.Header.Get("Authorization") != f.accept {
		w.Header().Set("WWW-Authenticate", f.challenge(r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	digest := r.URL.Query().Get("digest")
	_, last, _ := strings.Cut(r.URL.Path, "/v2/team/harrier/")
	switch {
	case r.Method == http.MethodHead && f.blobs[strings.TrimPrefix(last, "blobs/")] != nil:
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost && last == "blobs/uploads/":
		w.Header().Set("Location", "/v2/team/harrier/blobs/uploads/1?state=x")
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodPut && last == "blobs/uploads/1" && r.URL.Query().Get("state") == "x":
		content, _ := io.ReadAll(r.Body)
		if archive.Digest(content) != digest {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.blobs[digest] = content
		f.uploads++
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut && strings.HasPrefix(last, "manifests/"):
		f.manifests[strings.TrimPrefix(last, "manifests/")], _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (f *fakeRegistry) token(w http.ResponseWriter, r *http.Request) {
	username, password, _ := r.BasicAuth()
	if username != "me" || password != "secret" || r.URL.Query().Get("scope") != "repository:team/harrier:pull,push" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	_, _ = fmt.Fprint(w, `{"token":"abc"}`)
}

func serve(t *testing.T, registry *fakeRegistry) Reference {
	t.Helper()
	registry.blobs, registry.manifests = map[string][]byte{}, map[string][]byte{}
	server := httptest.NewServer(registry)
	t.Cleanup(server.Close)
	target, err := ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/harrier:test")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

var sample = &archive.Image{Config: []byte(`{"os":"linux"}`), Layer: []byte("a layer")}

func TestPushWithEveryKindOfAuthentication(t *testing.T) {
	me := Credentials{Username: "me", Password: "secret"}
	for name, registry := range map[string]*fakeRegistry{
		"none":  {},
		"basic": {accept: me.basic(), challenge: func(string) string { return `Basic realm="x"` }},
		"bearer": {accept: "Bearer abc", challenge: func(host string) string {
			return fmt.Sprintf(`Bearer realm="http://%s/token",service="s",scope="repository:team/harrier:pull"`, host)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			target := serve(t, registry)
			digest, err := Push(t.Context(), http.DefaultClient, sample, target, me)
			if err != nil {
				t.Fatal(err)
			}
			stored := registry.manifests["test"]
			if archive.Digest(stored) != digest {
				t.Errorf("digest is %s, stored manifest has %s", digest, archive.Digest(stored))
			}
			var got manifest
			if err := json.Unmarshal(stored, &got); err != nil {
				t.Fatal(err)
			}
			for _, blob := range append(got.Layers, got.Config) {
				if len(registry.blobs[blob.Digest]) != blob.Size {
					t.Errorf("blob %s has %d bytes, manifest says %d", blob.Digest, len(registry.blobs[blob.Digest]), blob.Size)
				}
			}
		})
	}
}

func TestSecondPushUploadsNothing(t *testing.T) {
	registry := &fakeRegistry{}
	target := serve(t, registry)
	for range 2 {
		if _, err := Push(t.Context(), http.DefaultClient, sample, target, Credentials{}); err != nil {
			t.Fatal(err)
		}
	}
	if registry.uploads != 2 {
		t.Errorf("%d uploads, want one of the configuration and one of the layer", registry.uploads)
	}
}

func TestMissingCredentialsSayWhatToDo(t *testing.T) {
	registry := &fakeRegistry{accept: "Basic x", challenge: func(string) string { return "Basic" }}
	_, err := Push(t.Context(), http.DefaultClient, sample, serve(t, registry), Credentials{})
	if err == nil || !strings.Contains(err.Error(), "docker login") {
		t.Errorf("error is %v, want one that says how to log in", err)
	}
}

func TestWrongCredentialsDoNotAppearInTheError(t *testing.T) {
	registry := &fakeRegistry{accept: "Basic x", challenge: func(string) string { return "Basic" }}
	_, err := Push(t.Context(), http.DefaultClient, sample, serve(t, registry), Credentials{Username: "me", Password: "hunter2"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}
