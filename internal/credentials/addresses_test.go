package credentials

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
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

// limited is a provider whose administrator allows these addresses.
func limited(t *testing.T, allowed ...string) *fixture {
	t.Helper()
	policy, err := addresses.New(allowed)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.options.Addresses = policy
	return f
}

// An address that is visibly on the machine itself is refused before the credentials are read, and whatever they come
// from.
func TestAddressesOnTheMachineAreRefused(t *testing.T) {
	c := newCanary(t)
	server := &v1alpha1.ProxyServerConfig{Url: c.URL}
	for field, change := range map[string]func(*Reference){
		"githubConfigUrl": func(r *Reference) { r.GitHubConfigURL = c.URL + "/org" },
		"proxy.http.url":  func(r *Reference) { r.Proxy = &v1alpha1.ProxyConfig{HTTP: server} },
		"proxy.https.url": func(r *Reference) { r.Proxy = &v1alpha1.ProxyConfig{HTTPS: server} },
		"vaultConfig.proxy.https.url": func(r *Reference) {
			r.Vault = &v1alpha1.VaultConfig{Proxy: &v1alpha1.ProxyConfig{HTTPS: server}}
		},
	} {
		f := limited(t)
		reference := githubReference()
		change(&reference)
		_, reading := f.Client(t.Context(), reference)
		_, given := f.ClientFrom(reference, &Resolved{})
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
	f := limited(t, c.URL)
	reference := githubReference()
	reference.GitHubConfigURL = c.URL + "/org"
	_, _ = f.mustClient(t, reference).GetRunnerScaleSetByID(t.Context(), 1)
	if c.asked.Load() != 2 || service.asked.Load() == 0 {
		t.Errorf("%d requests to GitHub and %d to its service", c.asked.Load(), service.asked.Load())
	}
	f = limited(t, "https://github.com", c.URL)
	reference = githubReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: c.URL}}
	before := c.asked.Load()
	ctx, cancel := context.WithCancel(t.Context())
	// Before the pause, which would not end on this clock.
	f.options.OnRequest = func(string, actions.RequestInfo) { cancel() }
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
	f := limited(t)
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
	f := limited(t)
	reference := githubReference()
	made, err := f.ClientFrom(reference, &Resolved{
		Credentials: actions.Credentials{Token: "t"},
		Proxy:       &ProxySettings{HTTPS: c.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, proxied := made.GetRunnerScaleSetByID(t.Context(), 1)
	ask := func(address string, proxy *ProxySettings) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openAzureKeyVault(
			&v1alpha1.AzureKeyVaultConfig{}, proxy, f.options,
		).(azurekeyvault.Vault).HTTP.Transport.RoundTrip(request)
		return err
	}
	for what, err := range map[string]error{
		"proxy": proxied, "vault": ask(c.URL, &ProxySettings{}),
		"proxy of a vault": ask("http://x.vault.azure.net", &ProxySettings{HTTP: c.URL}),
	} {
		if causes.Of(err).Reason != v1alpha1.ReasonAddressNotAllowed {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if asked := c.asked.Load(); asked != 0 {
		t.Errorf("%d requests were sent", asked)
	}
	t.Setenv("http_proxy", c.URL) // the manager's own proxy is the administrator's
	t.Setenv("no_proxy", "")
	if err := ask("http://x.vault.azure.net", nil); err != nil || c.asked.Load() != 1 {
		t.Errorf("by the manager's own proxy: %v", err)
	}
}
