package credentials_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestProxySettings(t *testing.T) {
	server := func(url, secret string) *v1alpha1.ProxyServerConfig {
		return &v1alpha1.ProxyServerConfig{Url: url, CredentialSecretRef: secret}
	}
	for name, test := range map[string]struct {
		config *v1alpha1.ProxyConfig
		want   *credentials.ProxySettings
	}{
		"none":  {},
		"empty": {config: &v1alpha1.ProxyConfig{}, want: &credentials.ProxySettings{}},
		"both": {
			config: &v1alpha1.ProxyConfig{
				HTTP:    server("http://a:1", ""),
				HTTPS:   server("https://b:2", ""),
				NoProxy: []string{"x", "10.0.0.0/8"},
			},
			want: &credentials.ProxySettings{HTTP: "http://a:1", HTTPS: "https://b:2", NoProxy: "x,10.0.0.0/8"},
		},
		"user name and password are escaped": {
			config: &v1alpha1.ProxyConfig{HTTPS: server("http://b:2", "login")},
			want:   &credentials.ProxySettings{HTTPS: "http://us%40er:s3cret%2F%3A%23@b:2"},
		},
		"without a scheme": {
			config: &v1alpha1.ProxyConfig{HTTP: server("proxy.example.com:3128", "")},
			want:   &credentials.ProxySettings{HTTP: "http://proxy.example.com:3128"},
		},
		"without a URL": {config: &v1alpha1.ProxyConfig{HTTP: server("", "login")}, want: &credentials.ProxySettings{}},
		"SOCKS": {
			config: &v1alpha1.ProxyConfig{HTTP: server("socks5://p:1", "")},
			want:   &credentials.ProxySettings{HTTP: "socks5://p:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.setSecret("runners", "login", "username", "us@er", "password", "s3cret/:#")
			reference := githubReference()
			reference.Proxy = test.config
			resolved, err := f.Resolve(t.Context(), reference)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, resolved.Proxy); difference != "" {
				t.Errorf("settings (-want +got):\n%s", difference)
			}
		})
	}
}

func TestSecretOfBothProxiesIsReadOnce(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "login", "username", "user", "password", "password")
	reference := githubReference()
	server := &v1alpha1.ProxyServerConfig{Url: "http://p:1", CredentialSecretRef: "login"}
	reference.Proxy = &v1alpha1.ProxyConfig{HTTP: server, HTTPS: server}
	f.mustResolve(t, reference)
	if reads := f.store.readsOf("runners", "login"); reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
}

func TestProxyErrors(t *testing.T) {
	for name, server := range map[string]v1alpha1.ProxyServerConfig{
		"not a URL":       {Url: "http://user:s3cret@[bad"},
		"no host":         {Url: "http://"},
		"another scheme":  {Url: "ftp://user:s3cret@proxy"},
		"no Secret":       {Url: "http://p:1", CredentialSecretRef: "gone"},
		"no password key": {Url: "http://p:1", CredentialSecretRef: "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.setSecret("runners", "incomplete", "username", "s3cret")
			reference := githubReference()
			reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &server}
			_, err := f.Resolve(t.Context(), reference)
			var missing *credentials.MissingError
			var invalid *credentials.InvalidError
			if !errors.As(err, &missing) && !errors.As(err, &invalid) {
				t.Fatalf("got %v", err)
			}
			mustNotLeak(t, err)
		})
	}
}

func TestProxyDataOfReference(t *testing.T) {
	f := newFixture(t)
	f.store.setSecret("runners", "github", credentials.KeyToken, "ghp_1")
	reference := githubReference()
	if data, err := f.ProxyData(t.Context(), reference); data != nil || err != nil {
		t.Errorf("without a proxy: %v, %v", data, err)
	}
	reference.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: "http://proxy:1"}}
	if data, err := f.ProxyData(t.Context(), reference); string(data[credentials.KeyHTTPProxy]) != "http://proxy:1" || err != nil {
		t.Errorf("with a proxy: %v, %v", data, err)
	}
}

func TestProxySecretDataHasAllKeys(t *testing.T) {
	settings := &credentials.ProxySettings{HTTPS: "http://p:1"}
	want := map[string][]byte{"http_proxy": {}, "https_proxy": []byte("http://p:1"), "no_proxy": {}}
	if difference := cmp.Diff(want, settings.SecretData()); difference != "" {
		t.Errorf("data (-want +got):\n%s", difference)
	}
	f := newFixture(t)
	f.writeListenerConfig(t, func(*config.Config) {})
	f.store.secrets[client.ObjectKey{Namespace: "manager", Name: "set-listener-proxy"}] = settings.SecretData()
	resolved, err := f.FromListener(t.Context(), listenerKey)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(settings, resolved.Proxy); difference != "" {
		t.Errorf("there and back (-want +got):\n%s", difference)
	}
}

func TestProxyFunc(t *testing.T) {
	choose := (&credentials.ProxySettings{HTTP: "http://a:1", HTTPS: "http://b:2", NoProxy: "internal.example.com"}).Func()
	for address, want := range map[string]string{
		"http://github.example.com":    "http://a:1",
		"https://github.example.com":   "http://b:2",
		"https://internal.example.com": "",
	} {
		request, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := choose(request)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if proxy != nil {
			got = proxy.String()
		}
		if got != want {
			t.Errorf("proxy for %s is %q, want %q", address, got, want)
		}
	}
}
