package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// sample is a file as ARC's manager writes it for a token.
const sample = `{"configure_url":"https://github.com/owner/repo","vault_type":"","vault_lookup_key":"",` +
	`"github_app_id":"",` +
	`"github_app_installation_id":0,"github_app_private_key":"","github_token":"t",` +
	`"ephemeral_runner_set_namespace":"ns",` +
	`"ephemeral_runner_set_name":"ars","max_runners":10,"min_runners":1,"runner_scale_set_id":1,` +
	`"runner_scale_set_name":"ars",` +
	`"server_root_ca":"","log_level":"debug","log_format":"text","metrics_addr":"","metrics_endpoint":"",` +
	`"metrics":null}`

func valid() *Config {
	return &Config{
		ConfigureURL: "https://github.com/owner/repo", Credentials: &Credentials{Token: "t"},
		EphemeralRunnerSetNamespace: "ns", EphemeralRunnerSetName: "ars", MaxRunners: 10, MinRunners: 1,
		RunnerScaleSetID: 1, RunnerScaleSetName: "ars", LogLevel: "debug", LogFormat: "text",
	}
}

func TestTheFileIsARCs(t *testing.T) {
	content, err := valid().Encode()
	if err != nil || string(content) != sample {
		t.Errorf("error %v, encoded (-want +got):\n%s", err, cmp.Diff(sample, string(content)))
	}
	read, err := Parse([]byte(sample))
	if diff := cmp.Diff(valid(), read); diff != "" || err != nil {
		t.Errorf("error %v, read (-want +got):\n%s", err, diff)
	}
}

func TestAVaultLeavesCredentialsOut(t *testing.T) {
	c := valid()
	c.Credentials, c.VaultType, c.VaultLookupKey = nil, VaultTypeAzureKeyVault, "name"
	c.AzureKeyVault = &AzureKeyVault{
		TenantID: "tenant", ClientID: "client", URL: "https://vault", CertificatePath: "/certificate",
		Proxy: &VaultProxy{HTTPSProxy: "http://proxy", CGI: true},
	}
	content, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(content, &keys); err != nil {
		t.Fatal(err)
	}
	if _, present := keys["github_token"]; present {
		t.Errorf("a credential key is in %s", content)
	}
	want := map[string]any{
		"tenant_id": "tenant", "client_id": "client", "url": "https://vault", "certificate_path": "/certificate",
		"proxy": map[string]any{"HTTPProxy": "", "HTTPSProxy": "http://proxy", "NoProxy": "", "CGI": true},
	}
	if diff := cmp.Diff(want, keys["azure_key_vault"]); diff != "" {
		t.Errorf("vault (-want +got):\n%s", diff)
	}
}

func TestMetricsAreKept(t *testing.T) {
	c := valid()
	c.Metrics = &v1alpha1.MetricsConfig{
		Counters: map[string]*v1alpha1.CounterMetric{"gha_started_jobs_total": {Labels: []string{"repository"}}},
	}
	content, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(content)
	if err != nil || !reflect.DeepEqual(read, c) {
		t.Errorf("error %v, read %+v", err, read)
	}
}

func TestEachWrongKeyIsNamed(t *testing.T) {
	app := func(c *Config) { c.Credentials = &Credentials{AppID: "1", AppInstallationID: 2, AppPrivateKey: "key"} }
	vault := func(c *Config) {
		c.Credentials, c.VaultType, c.VaultLookupKey = nil, VaultTypeAzureKeyVault, "name"
		c.AzureKeyVault = &AzureKeyVault{TenantID: "t", ClientID: "c", URL: "https://v", CertificatePath: "/c"}
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"nothing":            {func(*Config) {}, nil},
		"an App":             {app, nil},
		"a vault":            {vault, nil},
		"maxRunners 0":       {func(c *Config) { c.MinRunners, c.MaxRunners = 0, 0 }, nil},
		"no URL":             {func(c *Config) { c.ConfigureURL = "" }, []string{"configure_url"}},
		"a URL without host": {func(c *Config) { c.ConfigureURL = "github" }, []string{"configure_url"}},
		"a URL without path": {func(c *Config) { c.ConfigureURL = "https://github.com" }, []string{"configure_url"}},
		"a URL of a file": {
			func(c *Config) { c.ConfigureURL = "https://github.com/a/b/c" }, []string{"configure_url"},
		},
		"no set": {
			func(c *Config) { c.EphemeralRunnerSetName = "" }, []string{"ephemeral_runner_set_name"},
		},
		"no namespace": {
			func(c *Config) { c.EphemeralRunnerSetNamespace = "" }, []string{"ephemeral_runner_set_namespace"},
		},
		"no scale set":          {func(c *Config) { c.RunnerScaleSetID = 0 }, []string{"runner_scale_set_id"}},
		"negative minimum":      {func(c *Config) { c.MinRunners = -1 }, []string{"min_runners"}},
		"maximum below minimum": {func(c *Config) { c.MinRunners = 11 }, []string{"max_runners"}},
		"no credentials":        {func(c *Config) { c.Credentials = nil }, []string{"github_token"}},
		"both credentials":      {func(c *Config) { app(c); c.Token = "t" }, []string{"github_token"}},
		"half an App": {
			func(c *Config) { app(c); c.AppPrivateKey, c.AppID = "", "" },
			[]string{"github_app_id", "github_app_private_key"},
		},
		"rules about addresses": {
			func(c *Config) { c.Addresses = &Addresses{AllowedGitHubURLs: []string{"https://github.com/owner"}} }, nil,
		},
		"broken rules": {
			func(c *Config) { c.Addresses = &Addresses{AllowedGitHubURLs: []string{"github.com"}} },
			[]string{"addresses"},
		},
		"unknown vault":          {func(c *Config) { c.VaultType = "safe" }, []string{"vault_type"}},
		"vault without settings": {func(c *Config) { vault(c); c.AzureKeyVault = nil }, []string{"azure_key_vault"}},
		"vault half set": {
			func(c *Config) { vault(c); c.VaultLookupKey, c.AzureKeyVault.URL = "", "v" },
			[]string{"vault_lookup_key", "azure_key_vault.url"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := valid()
			test.change(c)
			if diff := cmp.Diff(test.want, keysOf(c.Validate())); diff != "" {
				t.Errorf("wrong keys (-want +got):\n%s", diff)
			}
			if _, err := c.Encode(); (err != nil) != (test.want != nil) {
				t.Errorf("encode: %v", err)
			}
		})
	}
}

func keysOf(err error) (keys []string) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, one := range joined.Unwrap() {
		var invalid *InvalidError
		if errors.As(one, &invalid) {
			keys = append(keys, invalid.Key)
		}
	}
	return keys
}

func TestErrorsTellNoSecret(t *testing.T) {
	c := valid()
	c.Credentials = &Credentials{Token: "hush", AppID: "1", AppPrivateKey: "hush"}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error = %v", err)
	}
	if _, err := Parse([]byte(`{"github_token":["hush"]}`)); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error = %v", err)
	}
}

func TestReadingAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if _, err := Read(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(sample[:40]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("half a file was taken")
	}
}

func TestCredentialsForTheClient(t *testing.T) {
	want := actions.Credentials{Token: "t"}
	if diff := cmp.Diff(want, (&Credentials{Token: "t"}).ForActions()); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	want = actions.Credentials{App: &actions.AppCredentials{ID: "1", InstallationID: 2, PrivateKey: "key"}}
	if diff := cmp.Diff(
		want, (&Credentials{AppID: "1", AppInstallationID: 2, AppPrivateKey: "key"}).ForActions(),
	); diff != "" {
		t.Errorf("App (-want +got):\n%s", diff)
	}
}

func TestMetricsCanBeSwitchedOff(t *testing.T) {
	for address, want := range map[string]bool{"": false, MetricsDisabled: false, ":8080": true} {
		if got := (&Config{MetricsAddr: address}).MetricsEnabled(); got != want {
			t.Errorf("metrics_addr %q: enabled = %v, want %v", address, got, want)
		}
	}
}
