package credentials

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
)

// fakeVault has secrets by name.
type fakeVault map[string]string

func (v fakeVault) Secret(_ context.Context, name string) (string, error) {
	if value, known := v[name]; known {
		return value, nil
	}
	return "", azurekeyvault.ErrNotFound
}

func vaultReference() Reference {
	reference := githubReference()
	reference.GitHubConfigSecret = "in-vault"
	reference.Vault = &v1alpha1.VaultConfig{Type: v1alpha1.VaultTypeAzureKeyVault, AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{URL: "https://v"}}
	return reference
}

// withVault returns a fixture whose vault is content. opened gets the proxy that the vault was opened with.
func withVault(t *testing.T, content fakeVault) (f *fixture, opened **ProxySettings) {
	t.Helper()
	f, opened = newFixture(t), new(*ProxySettings)
	f.reader.openVault = func(_ *v1alpha1.AzureKeyVaultConfig, proxy *ProxySettings) vault {
		*opened = proxy
		return content
	}
	return f, opened
}

func TestVaultReplacesSecrets(t *testing.T) {
	f, opened := withVault(t, fakeVault{
		"in-vault": `{"github_token": "", "github_app_id": "1", "github_app_installation_id": 9007199254740993, "github_app_private_key": ` +
			strconv.Quote(privateKey()) + `}`,
		"github-proxy": `{"username": "u", "password": "p"}`,
	})
	f.store.setSecret("runners", "vault-proxy", keyProxyUsername, "v", keyProxyPassword, "w")
	reference := vaultReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: "http://github", CredentialSecretRef: "github-proxy"}}
	reference.Vault.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{Url: "http://vault", CredentialSecretRef: "vault-proxy"}}
	resolved, err := f.Resolve(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	want := actions.AppCredentials{ID: "1", InstallationID: 9007199254740993, PrivateKey: resolved.Credentials.App.PrivateKey}
	if difference := cmp.Diff(&want, resolved.Credentials.App); difference != "" {
		t.Errorf("App (-want +got):\n%s", difference)
	}
	if got := resolved.Proxy.HTTPS; got != "http://u:p@github" {
		t.Errorf("GitHub's proxy is %s", got)
	}
	if got := (*opened).HTTPS; got != "http://v:w@vault" {
		t.Errorf("the vault's proxy is %s", got)
	}
}

func TestVaultErrors(t *testing.T) {
	var missing *MissingError
	var invalid *InvalidError
	var unsupported *UnsupportedError
	for name, test := range map[string]struct {
		content fakeVault
		edit    func(*Reference)
		want    any
	}{
		"no such secret":     {edit: func(*Reference) {}, want: &missing},
		"no name":            {edit: func(r *Reference) { r.GitHubConfigSecret = "" }, want: &missing},
		"no JSON":            {content: fakeVault{"in-vault": "s3cret"}, edit: func(*Reference) {}, want: &invalid},
		"empty JSON":         {content: fakeVault{"in-vault": "{}"}, edit: func(*Reference) {}, want: &missing},
		"no settings":        {edit: func(r *Reference) { r.Vault.AzureKeyVault = nil }, want: &invalid},
		"another vault":      {edit: func(r *Reference) { r.Vault.Type = "hashicorp" }, want: &unsupported},
		"bad proxy of vault": {edit: func(r *Reference) { r.Vault.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: ":"}} }, want: &invalid},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withVault(t, test.content)
			reference := vaultReference()
			test.edit(&reference)
			_, err := f.Resolve(t.Context(), reference)
			if !errors.As(err, test.want) {
				t.Fatalf("got %T: %v", err, err)
			}
			mustNotLeak(t, err)
		})
	}
}

// lockedVault can't be opened: the manager's certificate is missing.
type lockedVault struct{}

func (lockedVault) Secret(context.Context, string) (string, error) {
	return "", fmt.Errorf("get a token: %w", &azurekeyvault.CertificateError{Path: "/certificate", Reason: "no such file"})
}

func TestUnusableCertificateOfTheVaultsClientIsForTheUserToMend(t *testing.T) {
	f := newFixture(t)
	f.reader.openVault = func(*v1alpha1.AzureKeyVaultConfig, *ProxySettings) vault { return lockedVault{} }
	_, err := f.Resolve(t.Context(), vaultReference())
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Key != "spec.vaultConfig.azureKeyVault.certificatePath" {
		t.Errorf("got %v, want an InvalidError about the certificate's path", err)
	}
}

// An unusable address of the vault is a user's error, which names the field.
func TestUnusableAddressOfTheVaultIsForTheUserToMend(t *testing.T) {
	for _, address := range []string{"", "::::", "http://my-vault.vault.azure.net"} {
		f := newFixture(t)
		f.reader.openVault = func(config *v1alpha1.AzureKeyVaultConfig, proxy *ProxySettings) vault {
			return openAzureKeyVault(config, proxy, Options{Clock: clock.RealClock{}})
		}
		reference := vaultReference()
		reference.Vault.AzureKeyVault.URL = address
		_, err := f.Resolve(t.Context(), reference)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Key != "spec.vaultConfig.azureKeyVault.url" || !strings.Contains(err.Error(), "https://NAME") {
			t.Errorf("%q: got %v, want an InvalidError about the vault's address", address, err)
		}
	}
}

func TestVaultTypeEmptyMeansNone(t *testing.T) {
	f := newFixture(t)
	reference := githubReference()
	reference.Vault = &v1alpha1.VaultConfig{}
	if got := f.mustResolve(t, reference); got != "token-1" {
		t.Errorf("got %s", got)
	}
}
