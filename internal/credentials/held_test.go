package credentials_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// These tests count what is held when many things change within the ten minutes for which a client may wait to be used
// again.

// ofSet is the reference of one set.
func ofSet(name string) credentials.Reference {
	reference := githubReference()
	reference.Set = name
	return reference
}

const mebibyte = 1 << 20

// authority is one certificate in PEM, made once.
var authority = sync.OnceValue(func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
})

// bundleOf returns a text of a mebibyte with a certificate; the number makes it another one.
func bundleOf(number int) string {
	text := fmt.Sprintf("%08d\n%s", number, authority())
	return text + strings.Repeat("#", mebibyte-len(text))
}

// withBundle has a reference trust the bundle in the ConfigMap.
func withBundle(reference credentials.Reference, configMap string) credentials.Reference {
	reference.TLS = &v1alpha1.TLSConfig{CertificateFrom: &v1alpha1.TLSCertificateSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Key: "ca.crt",
		},
	}}
	return reference
}

func (s *store) setBundle(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configMaps[client.ObjectKey{Namespace: "runners", Name: name}] = map[string]string{"ca.crt": text}
}

// grown returns the mebibytes of heap that are left of a step.
func grown(step func()) int {
	heap := func() int {
		runtime.GC()
		runtime.GC() // what weak pointers held goes with the second
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int(now.HeapAlloc)
	}
	before := heap()
	step()
	return (heap() - before) / mebibyte
}

func TestChangesOfASetAreNotAllHeld(t *testing.T) {
	const changes = 200
	f := newFixture(t)
	f.store.setBundle("ca", bundleOf(0))
	f.mustClient(t, withBundle(ofSet("set"), "ca"))
	for name, change := range map[string]func(i int) credentials.Reference{
		"hosts without proxy": func(i int) credentials.Reference {
			reference := withBundle(ofSet("set"), "ca")
			reference.Proxy = &v1alpha1.ProxyConfig{NoProxy: []string{fmt.Sprintf("host-%d", i)}}
			return reference
		},
		"address": func(i int) credentials.Reference {
			reference := withBundle(ofSet("set"), "ca")
			reference.GitHubConfigURL += fmt.Sprintf("-%d", i)
			return reference
		},
		"bundle": func(i int) credentials.Reference {
			f.store.setBundle("ca", bundleOf(i))
			f.clock.Step(time.Second)
			f.Invalidate(withBundle(ofSet("set"), "ca"))
			return withBundle(ofSet("set"), "ca")
		},
		"ConfigMap": func(i int) credentials.Reference {
			name := fmt.Sprintf("ca-%d", i%3)
			f.store.setBundle(name, bundleOf(i))
			reference := withBundle(ofSet("set"), name)
			reference.Proxy = &v1alpha1.ProxyConfig{NoProxy: []string{fmt.Sprintf("host-%d", i)}}
			return reference
		},
		"sets of one bundle": func(i int) credentials.Reference {
			f.store.setBundle("same", bundleOf(-1))
			reference := withBundle(ofSet(fmt.Sprintf("set-%d", i)), "same")
			reference.Proxy = &v1alpha1.ProxyConfig{NoProxy: []string{fmt.Sprintf("host-%d", i)}}
			return reference
		},
		"sets that go": func(i int) credentials.Reference {
			f.Forget(types.NamespacedName{Namespace: "runners", Name: fmt.Sprintf("passing-%d", i-1)})
			name := fmt.Sprintf("gone-%d", i%3)
			f.store.setBundle(name, bundleOf(1000+i))
			reference := withBundle(ofSet(fmt.Sprintf("passing-%d", i)), name)
			reference.Proxy = &v1alpha1.ProxyConfig{NoProxy: []string{fmt.Sprintf("host-%d", i)}}
			return reference
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := grown(func() {
				for i := range changes {
					f.mustClient(t, change(i))
				}
			})
			// Two of the set's clients with a text and what is made of it, three ConfigMaps of the test's own, and what 200
			// clients of other sets need besides.
			if left > 16 {
				t.Errorf("%d changes of a bundle of a mebibyte left %d MiB", changes, left)
			}
		})
	}
}

// A call that began with the client before the last ends, so that a slow server keeps none.
func TestTheClientBeforeTheLastEndsWithItsCalls(t *testing.T) {
	arrived, over := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	f := newFixture(t)
	clientOf := func(hosts string) (*credentials.Reference, chan error) {
		reference := ofSet("set")
		reference.GitHubConfigURL, reference.Proxy = server.URL+"/org", &v1alpha1.ProxyConfig{NoProxy: []string{hosts}}
		calls := make(chan error, 1)
		github := f.mustClient(t, reference)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func() {
			_, err := github.GetRunner(ctx, 1)
			calls <- err
		}()
		<-arrived
		return &reference, calls
	}
	_, first := clientOf("first")
	_, second := clientOf("second")
	select {
	case err := <-first:
		t.Fatalf("the call of the client that ends has ended: %v", err)
	default:
	}
	_, third := clientOf("third")
	if err := <-first; err == nil || !strings.Contains(err.Error(), "changed again") {
		t.Errorf("got %v", err)
	}
	for name, calls := range map[string]chan error{"second": second, "third": third} {
		select {
		case err := <-calls:
			t.Errorf("the %s client's call has ended: %v", name, err)
		default:
		}
	}
}

// Whoever has another credential or way isn't the same account, whatever name it gives itself.
func TestAccountsAreOfACredentialAndAWay(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("b", "github", credentials.KeyToken, "token-1")
	f.store.setSecret("runners", "other", credentials.KeyToken, "token-2")
	own := f.mustClient(t, githubReference()).Account()
	if own.Key == "" || own.Owner != "runners" || strings.Contains(own.Key, "token") {
		t.Errorf("account %+v", own)
	}
	for name, test := range map[string]struct {
		change func(*credentials.Reference)
		same   bool
	}{
		"another repository":                  {func(r *credentials.Reference) { r.GitHubConfigURL += "/web" }, true},
		"the same credential in another team": {func(r *credentials.Reference) { r.Namespace = "b" }, true},
		"another credential":                  {func(r *credentials.Reference) { r.GitHubConfigSecret = "other" }, false},
		"another server": {
			func(r *credentials.Reference) { r.GitHubConfigURL = "https://b.example.com/org" }, false,
		},
		"another proxy": {func(r *credentials.Reference) { r.Proxy = &v1alpha1.ProxyConfig{} }, false},
		"no TLS":        {func(r *credentials.Reference) { r.GitHubConfigURL = "http://github.com/org" }, false},
	} {
		reference := githubReference()
		test.change(&reference)
		if got := f.mustClient(t, reference).Account(); (got.Key == own.Key) != test.same || got.Name != own.Name {
			t.Errorf("%s: account %+v beside %+v", name, got, own)
		}
	}
	plain := [2]string{}
	for i, namespace := range []string{"runners", "b"} {
		reference := githubReference()
		reference.Namespace, reference.GitHubConfigURL = namespace, "http://github.com/org"
		plain[i] = f.mustClient(t, reference).Account().Key
	}
	if plain[0] == plain[1] {
		t.Error("without TLS two namespaces are one account")
	}
}
