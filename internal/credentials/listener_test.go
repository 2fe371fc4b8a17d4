package credentials_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

var listenerKey = client.ObjectKey{Namespace: "manager", Name: "set-listener"}

func (f *fixture) writeListenerConfig(t *testing.T, edit func(*config.Config)) {
	t.Helper()
	written := &config.Config{
		ConfigureURL: "https://github.com/org", Credentials: &config.Credentials{Token: "token-1"},
		EphemeralRunnerSetNamespace: "runners", EphemeralRunnerSetName: "set", MaxRunners: 5, RunnerScaleSetID: 1,
	}
	edit(written)
	content, err := written.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f.store.setSecret("manager", "set-listener-config", config.FileName, string(content))
}

func TestListenerSecretsAreTheLastSource(t *testing.T) {
	app := &actions.AppCredentials{ID: "1", InstallationID: 2, PrivateKey: privateKey()}
	for name, test := range map[string]struct {
		edit  func(*config.Config)
		proxy []string
		want  *credentials.Resolved
	}{
		"token": {
			edit: func(*config.Config) {},
			want: &credentials.Resolved{Credentials: actions.Credentials{Token: "token-1"}},
		},
		"App, CA and proxy": {
			edit: func(c *config.Config) {
				c.Credentials = &config.Credentials{AppID: "1", AppInstallationID: 2, AppPrivateKey: privateKey()}
				c.ServerRootCA = "pem"
			},
			proxy: []string{credentials.KeyHTTPProxy, "", credentials.KeyHTTPSProxy, "http://p:1", credentials.KeyNoProxy, "x"},
			want: &credentials.Resolved{
				Credentials: actions.Credentials{App: app},
				RootCAs:     "pem",
				Proxy:       &credentials.ProxySettings{HTTPS: "http://p:1", NoProxy: "x"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.writeListenerConfig(t, test.edit)
			if test.proxy != nil {
				f.store.setSecret("manager", "set-listener-proxy", test.proxy...)
			}
			got, err := f.FromListener(t.Context(), listenerKey)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Errorf("resolved (-want +got):\n%s", difference)
			}
		})
	}
}

func TestClientFromListenerSecrets(t *testing.T) {
	f := newFixture(t)
	f.writeListenerConfig(t, func(*config.Config) {})
	live := f.mustClient(t, githubReference())
	for range 100 {
		client, err := f.ClientOfListener(t.Context(), githubReference(), listenerKey, errors.New("refused"))
		if err != nil {
			t.Fatal(err)
		}
		if client != live {
			t.Fatal("equal values lead to another client")
		}
	}
	if reads := f.store.readsOf("manager", "set-listener-config"); reads != 1 {
		t.Errorf("%d reads for 100 runners, want 1", reads)
	}
}

func TestListenerSecretsThatDontHelp(t *testing.T) {
	f := newFixture(t)
	_, err := f.FromListener(t.Context(), listenerKey)
	mustName(t, err, "manager/set-listener-config")

	f.clock.Step(credentials.RetryBackoff)
	f.store.setSecret("manager", "set-listener-config", config.FileName, `{"github_token": "s3cret"`)
	_, err = f.FromListener(t.Context(), listenerKey)
	mustName(t, err, config.FileName)
	mustNotLeak(t, err)

	f.clock.Step(credentials.RetryBackoff)
	f.writeListenerConfig(t, func(c *config.Config) {
		c.Credentials, c.VaultType, c.VaultLookupKey = nil, config.VaultTypeAzureKeyVault, "key"
		c.AzureKeyVault = &config.AzureKeyVault{
			TenantID:        "t",
			ClientID:        "c",
			URL:             "https://vault",
			CertificatePath: "/cert",
		}
	})
	if _, err = f.FromListener(t.Context(), listenerKey); !isMissing(err) {
		t.Errorf("with a vault: got %v", err)
	}
}

// Credentials are unusable only if they won't come back: an API server that is unreachable now may answer in a moment.
func TestUnusableIsWhatWontComeBack(t *testing.T) {
	cause := &credentials.MissingError{Kind: "Secret", Name: "github"}
	for name, test := range map[string]struct {
		failure  error
		unusable bool
	}{"gone, too": {nil, true}, "API server away": {errors.New("connection refused"), false}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.failure = test.failure
			_, err := f.ClientOfListener(t.Context(), githubReference(), listenerKey, cause)
			if err == nil || credentials.Unusable(err) != test.unusable {
				t.Errorf("%v, want it unusable: %t", err, test.unusable)
			}
			mustName(t, err, "github")
		})
	}
}
