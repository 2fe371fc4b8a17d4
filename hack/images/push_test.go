package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func serve(t *testing.T, handler http.Handler) name.Tag {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/team/harrier:test")
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func sampleIndex(t *testing.T) v1.ImageIndex {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, architecture := range supported {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: sampleImage(t, architecture), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
				Architecture: architecture}},
		})
	}
	return index
}

func TestNodesOfEachArchitectureCanPullWhatWasPushed(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	var uploads atomic.Int32
	memory := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	tag := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			uploads.Add(1)
		}
		memory.ServeHTTP(w, r)
	}))
	if err := push(t.Context(), sampleIndex(t), tag); err != nil {
		t.Fatal(err)
	}
	for _, architecture := range supported {
		pulled, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := pulled.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := sampleImage(t, architecture).Digest(); err != nil || got != want {
			t.Errorf("%s: pulled %s, want %s; %v", architecture, got, want, err)
		}
	}
	before := uploads.Load()
	if err := push(t.Context(), sampleIndex(t), tag); err != nil || before == 0 || uploads.Load() != before {
		t.Errorf("%d uploads, then %d, want the same; %v", before, uploads.Load(), err)
	}
}

func TestARefusedPushSaysWhatToDoAndNoPassword(t *testing.T) {
	tag := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	directory := t.TempDir()
	t.Setenv("DOCKER_CONFIG", directory)
	login := `{"auths": {"` + tag.RegistryStr() + `": {"username": "me", "password": "hunter2"}}}`
	if err := os.WriteFile(filepath.Join(directory, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	err := push(t.Context(), sampleIndex(t), tag)
	if err == nil || !strings.Contains(err.Error(), "docker login "+tag.RegistryStr()) ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v, want one that says how to log in", err)
	}
}

func TestOnlyThisMachineIsTrustedWithoutTLS(t *testing.T) {
	answer := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	for url, want := range map[string]bool{
		"http://localhost:5000/v2/": true, "http://127.0.0.1:5000/v2/": true, "http://[::1]/v2/": true,
		"https://ghcr.io/v2/":         true,
		"http://192.168.1.1:5000/v2/": false, "http://10.0.0.1/v2/": false, "http://registry.local/v2/": false,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := private{answer}.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
