package credentials_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/credentials"
)

// store is an API server with Secrets and ConfigMaps. It counts reads, and can be made to fail or hang.
type store struct {
	client.Reader // List is never called; if it were, this nil would panic

	mu         sync.Mutex
	secrets    map[client.ObjectKey]map[string][]byte
	configMaps map[client.ObjectKey]map[string]string
	reads      map[client.ObjectKey]int
	failure    error
	// gates hold reads of a namespace until they are closed.
	gates map[string]chan struct{}
}

func newStore() *store {
	return &store{
		secrets: map[client.ObjectKey]map[string][]byte{}, configMaps: map[client.ObjectKey]map[string]string{},
		reads: map[client.ObjectKey]int{}, gates: map[string]chan struct{}{},
	}
}

func (s *store) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	s.reads[key]++
	gate, failure, found := s.gates[key.Namespace], s.failure, false
	switch object := into.(type) { // as it is when the request arrives, however long the answer takes
	case *corev1.Secret:
		object.Data, found = s.secrets[key]
	case *corev1.ConfigMap:
		object.Data, found = s.configMaps[key]
	}
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if failure != nil {
		return failure
	}
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	return nil
}

// setSecret replaces a Secret; pairs are keys and values.
func (s *store) setSecret(namespace, name string, pairs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	s.secrets[client.ObjectKey{Namespace: namespace, Name: name}] = data
}

func (s *store) deleteSecret(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.secrets, client.ObjectKey{Namespace: namespace, Name: name})
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

func (s *store) readsOf(namespace, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[client.ObjectKey{Namespace: namespace, Name: name}]
}

// fixture is a provider on a store with one credential Secret, runners/github.
type fixture struct {
	*credentials.Provider
	store *store
	clock *clocktesting.FakeClock
}

// kept is the time for which a good result is used while reads fail, and for which unused ones and clients are kept.
const kept = 10 * time.Minute

func newFixture(t *testing.T, edits ...func(*credentials.Options)) *fixture {
	t.Helper()
	f := &fixture{store: newStore(), clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))}
	f.store.setSecret("runners", "github", credentials.KeyToken, "token-1")
	options := credentials.Options{Clock: f.clock}
	for _, edit := range edits {
		edit(&options)
	}
	f.Provider = credentials.New(f.store, options)
	return f
}

func githubReference() credentials.Reference {
	return credentials.Reference{
		Namespace: "runners", GitHubConfigURL: "https://github.com/org", GitHubConfigSecret: "github",
	}
}

// mustResolve returns the token, which identifies a state of the Secret.
func (f *fixture) mustResolve(t *testing.T, reference credentials.Reference) string {
	t.Helper()
	resolved, err := f.Resolve(t.Context(), reference)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	return resolved.Credentials.Token
}

// isMissing reports whether the error says that something doesn't exist.
func isMissing(err error) bool {
	_, ok := errors.AsType[*credentials.MissingError](err)
	return ok
}

// privateKey is generated once, because that takes a while.
var privateKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	var text bytes.Buffer
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := pem.Encode(&text, block); err != nil {
		panic(err)
	}
	return text.String()
})
