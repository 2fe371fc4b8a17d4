package credentials_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// canary is a server on loopback that must not be asked.
type canary struct {
	*httptest.Server
	asked atomic.Int32
}

func newCanary(t *testing.T) *canary {
	c := &canary{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(c.Close)
	return c
}

// allowing is the option of an administrator who allows these addresses.
func allowing(t *testing.T, allowed ...string) func(*credentials.Options) {
	t.Helper()
	policy, err := addresses.New(allowed)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *credentials.Options) { o.Addresses = policy }
}

// An address that is visibly on the machine itself is refused before the credentials are read, and whatever they come
// from.
func TestAddressesOnTheMachineAreRefused(t *testing.T) {
	c := newCanary(t)
	server := &v1alpha1.ProxyServerConfig{Url: c.URL}
	for field, change := range map[string]func(*credentials.Reference){
		"githubConfigUrl": func(r *credentials.Reference) { r.GitHubConfigURL = c.URL + "/org" },
		"proxy.http.url":  func(r *credentials.Reference) { r.Proxy = &v1alpha1.ProxyConfig{HTTP: server} },
		"proxy.https.url": func(r *credentials.Reference) { r.Proxy = &v1alpha1.ProxyConfig{HTTPS: server} },
		"vaultConfig.proxy.https.url": func(r *credentials.Reference) {
			r.Vault = &v1alpha1.VaultConfig{Proxy: &v1alpha1.ProxyConfig{HTTPS: server}}
		},
	} {
		f := newFixture(t, allowing(t))
		reference := githubReference()
		change(&reference)
		_, reading := f.Client(t.Context(), reference)
		_, given := f.ClientFrom(reference, &credentials.Resolved{})
		for _, err := range []error{reading, given} {
			var refused *addresses.NotAllowedError
			if !errors.As(err, &refused) || refused.Field != field || !strings.Contains(err.Error(), c.URL) ||
				causes.Of(err).Reason != v1alpha1.ReasonAddressNotAllowed {
				t.Errorf("%s: got %v", field, err)
			}
		}
		if reads := f.store.readsOf("runners", "github"); reads != 0 {
			t.Errorf("%s: the credentials were read %d times", field, reads)
		}
	}
	if asked := c.asked.Load(); asked != 0 {
		t.Errorf("%d requests were sent", asked)
	}
}

// The same addresses work if the administrator allows them, and what a listed GitHub leads to needs no entry.
func TestAllowedAddressesOnTheMachine(t *testing.T) {
	c, service := newCanary(t), newCanary(t)
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"url":"` + service.URL + `/","token":"t"}`))
	})
	f := newFixture(t, allowing(t, c.URL))
	reference := githubReference()
	reference.GitHubConfigURL = c.URL + "/org"
	_, _ = f.mustClient(t, reference).GetRunnerScaleSetByID(t.Context(), 1)
	if c.asked.Load() != 2 || service.asked.Load() == 0 {
		t.Errorf("%d requests to GitHub and %d to its service", c.asked.Load(), service.asked.Load())
	}
	reference = githubReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: c.URL}}
	before := c.asked.Load()
	ctx, cancel := context.WithCancel(t.Context())
	f = newFixture(t, allowing(t, "https://github.com", c.URL), func(o *credentials.Options) {
		// Before the pause, which would not end on this clock.
		o.OnRequest = func([]types.NamespacedName, actions.RequestInfo) { cancel() }
	})
	if _, err := f.mustClient(t, reference).GetRunnerScaleSetByID(ctx, 1); err == nil || c.asked.Load() == before {
		t.Errorf("got %v; the proxy was not asked", err)
	}
}

// A registration's answer that names an address on the machine is refused if the administrator hasn't listed that
// GitHub.
func TestWhatAnUnlistedGitHubLeadsTo(t *testing.T) {
	c := newCanary(t)
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"url":"` + c.URL + `/","token":"t"}`))
	}))
	defer github.Close()
	f := newFixture(t, allowing(t))
	reference := githubReference()
	reference.GitHubConfigURL = "http://ghes.example/org"
	// The test's GitHub is the proxy of the manager's own environment, so that its address needs no entry.
	t.Setenv("http_proxy", github.URL)
	t.Setenv("no_proxy", "")
	_, err := f.mustClient(t, reference).GetRunnerScaleSetByID(t.Context(), 1)
	if causes.Of(err).Reason != v1alpha1.ReasonAddressNotAllowed || c.asked.Load() != 0 {
		t.Errorf("got %v, and %d requests", err, c.asked.Load())
	}
}

// What can't be seen in a field is refused when it is dialled. The listener's Secret may have a proxy that the
// reference lacks.
func TestConnectionsAreChecked(t *testing.T) {
	c := newCanary(t)
	f := newFixture(t, allowing(t))
	reference := githubReference()
	made, err := f.ClientFrom(reference, &credentials.Resolved{
		Credentials: actions.Credentials{Token: "t"},
		Proxy:       &credentials.ProxySettings{HTTPS: c.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, proxied := made.GetRunnerScaleSetByID(t.Context(), 1)
	secretBy := func(proxy *v1alpha1.ProxyConfig) error {
		reference := vaultReference()
		reference.Vault.Proxy = proxy
		_, err := f.Resolve(t.Context(), reference)
		f.Invalidate(reference)
		f.clock.Step(credentials.RetryBackoff)
		return err
	}
	resolveToLoopback(t)
	for what, err := range map[string]error{
		"proxy": proxied, "vault": secretBy(&v1alpha1.ProxyConfig{}),
		"proxy of a vault": secretBy(&v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: c.URL}}),
	} {
		if causes.Of(err).Reason != v1alpha1.ReasonAddressNotAllowed {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if asked := c.asked.Load(); asked != 0 {
		t.Errorf("%d requests were sent", asked)
	}
	t.Setenv("https_proxy", c.URL) // the manager's own proxy is the administrator's
	t.Setenv("no_proxy", "")
	if err := secretBy(nil); causes.Of(err).Reason == v1alpha1.ReasonAddressNotAllowed || c.asked.Load() != 1 {
		t.Errorf("by the manager's own proxy: %v, %d requests", err, c.asked.Load())
	}
}

// resolveToLoopback has all names lead to the machine itself, as those of somebody who owns a domain may.
func resolveToLoopback(t *testing.T) {
	t.Helper()
	former := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = former })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerLoopback(ours)
		return theirs, nil
	}}
}

// answerLoopback answers one question, as DNS over TCP: before each message are two bytes with its length.
func answerLoopback(connection net.Conn) {
	defer connection.Close()
	var size uint16
	if binary.Read(connection, binary.BigEndian, &size) != nil {
		return
	}
	var message dnsmessage.Message
	text := make([]byte, size)
	if _, err := io.ReadFull(connection, text); err != nil || message.Unpack(text) != nil {
		return
	}
	message.Response, message.Additionals = true, nil
	if question := message.Questions[0]; question.Type == dnsmessage.TypeA {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, err := message.Pack()
	if err == nil {
		_, _ = connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}
