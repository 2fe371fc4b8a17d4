package github_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/github"
)

// certificate is a self-signed one of a made-up authority.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBjzCCATWgAwIBAgIUPAgdDkd5/NX/AWSJeXbhPskmIfgwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRZXhhbXBsZSBhdXRob3JpdHkwIBcNMjYxMTIwMTQwOTA0WhgP
MjEyNjEwMjcxNDA5MDRaMBwxGjAYBgNVBAMMEWV4YW1wbGUgYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEfhmmHuH3lNSRx1bkqeaR+1KuDqT0mFlY
c4XhwUZKqDeCPalGGb+9HsSZmO4nydUeCJAq/LzrsHCcveJ78DJexaNTMFEwHQYD
VR0OBBYEFEdf82v74ChVyAEkXZAVu2kqCfpLMB8GA1UdIwQYMBaAFEdf82v74ChV
yAEkXZAVu2kqCfpLMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIh
APXxecAZYTvnEVf0tg6JJAB/yLEwNwczl6l+eT0EqRXVAiAAkiKMwulK+2+gihgJ
VPcWscvYPX3ABjSutPTWMWUo1g==
-----END CERTIFICATE-----
`

func TestWhatAClientCanBeMadeFrom(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   error
	}{
		"a token":             {func(*config.Config) {}, nil},
		"a private authority": {func(c *config.Config) { c.ServerRootCA = certificate }, nil},
		"no certificate":      {func(c *config.Config) { c.ServerRootCA = "nonsense" }, failure.ErrUnusable},
		"a vault": {func(c *config.Config) {
			c.Credentials, c.VaultType = nil,
				config.VaultTypeAzureKeyVault
		}, failure.ErrUnusable},
		"an allowed address": {func(c *config.Config) {
			c.Addresses = &config.Addresses{AllowedGitHubURLs: []string{"https://github.example"}}
		}, nil},
		"no allowed address": {
			func(c *config.Config) {
				c.Addresses = &config.Addresses{AllowedGitHubURLs: []string{"https://github.example/other"}}
			},
			&addresses.NotAllowedError{},
		},
		"an address on loopback": {func(c *config.Config) {
			c.ConfigureURL, c.Addresses = "http://127.0.0.1/org",
				&config.Addresses{}
		}, &addresses.NotAllowedError{}},
		"an address on loopback, no rules": {func(c *config.Config) { c.ConfigureURL = "http://127.0.0.1/org" }, nil},
		"an App without its key": {
			func(c *config.Config) { c.Credentials = &config.Credentials{AppID: "1", AppInstallationID: 2} },
			actions.ErrInvalidCredentials,
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := &config.Config{
				ConfigureURL: "https://github.example/org",
				Credentials:  &config.Credentials{Token: "t"},
			}
			test.change(settings)
			made, err := github.Connect(logr.Discard(), nil)(settings, nil)
			_, refused := errors.AsType[*addresses.NotAllowedError](err)
			_, refusal := errors.AsType[*addresses.NotAllowedError](test.want)
			if refused != refusal || (!refusal && !errors.Is(err, test.want)) || (made == nil) != (test.want != nil) {
				t.Errorf("made %v, error %v, want error %v", made, err, test.want)
			}
		})
	}
}

// The listener's environment may be a tenant's: only what the file allows makes a proxy on loopback usable.
func TestProxiesOfTheEnvironmentFollowTheFile(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	defer proxy.Close()
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("no_proxy", "")
	for name, test := range map[string]struct {
		rules   *config.Addresses
		refused bool
	}{
		"rules": {&config.Addresses{}, true},
		"rules that exempt it": {
			&config.Addresses{AllowedGitHubURLs: []string{"http://github.example", proxy.URL}}, false,
		},
		"no rules, as in ARC's": {nil, false},
	} {
		settings := &config.Config{
			ConfigureURL: "http://github.example/org",
			Credentials:  &config.Credentials{Token: "t"},
			Addresses:    test.rules,
		}
		made, err := github.Connect(logr.Discard(), nil)(settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = made.GetRunnerScaleSetByID(t.Context(), 1)
		reason, _ := failure.Explain(err)
		if refused := reason == v1alpha1.ReasonAddressNotAllowed; err == nil || refused != test.refused {
			t.Errorf("%s: got %v because of %s", name, err, reason)
		}
		made.CloseIdleConnections()
	}
}
