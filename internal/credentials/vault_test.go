package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
	"github.com/harrier-ci/harrier/internal/listener/config"
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
	reference.Vault = &v1alpha1.VaultConfig{
		Type:          v1alpha1.VaultTypeAzureKeyVault,
		AzureKeyVault: &v1alpha1.AzureKeyVaultConfig{URL: "https://v"},
	}
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
		"in-vault": `{"github_token": "", "github_app_id": "1", "github_app_installation_id": 9007199254740993,` +
			` "github_app_private_key": ` +
			strconv.Quote(privateKey()) + `}`,
		"github-proxy": `{"username": "u", "password": "p"}`,
	})
	f.store.setSecret("runners", "vault-proxy", keyProxyUsername, "v", keyProxyPassword, "w")
	reference := vaultReference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
		Url:                 "http://github",
		CredentialSecretRef: "github-proxy",
	}}
	reference.Vault.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
		Url:                 "http://vault",
		CredentialSecretRef: "vault-proxy",
	}}
	resolved, err := f.Resolve(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	want := actions.AppCredentials{
		ID:             "1",
		InstallationID: 9007199254740993,
		PrivateKey:     resolved.Credentials.App.PrivateKey,
	}
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
		"no such secret": {edit: func(*Reference) {}, want: &missing},
		"no name":        {edit: func(r *Reference) { r.GitHubConfigSecret = "" }, want: &missing},
		"no JSON":        {content: fakeVault{"in-vault": "s3cret"}, edit: func(*Reference) {}, want: &invalid},
		"empty JSON":     {content: fakeVault{"in-vault": "{}"}, edit: func(*Reference) {}, want: &missing},
		"no settings":    {edit: func(r *Reference) { r.Vault.AzureKeyVault = nil }, want: &invalid},
		"another vault":  {edit: func(r *Reference) { r.Vault.Type = "hashicorp" }, want: &unsupported},
		"bad proxy of vault": {
			edit: func(r *Reference) {
				r.Vault.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: ":"}}
			},
			want: &invalid,
		},
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
	return "", fmt.Errorf("get a token: %w", &azurekeyvault.CertificateError{Cause: errors.New(
		"open /certificate: no such file",
	)})
}

func TestUnusableCertificateOfTheVaultsClientIsForTheUserToMend(t *testing.T) {
	f, logged := newFixture(t), ""
	f.options.Logger = funcr.New(func(_, line string) { logged += line }, funcr.Options{})
	f.reader.openVault = func(*v1alpha1.AzureKeyVaultConfig, *ProxySettings) vault { return lockedVault{} }
	_, err := f.Resolve(t.Context(), vaultReference())
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Key != "spec.vaultConfig.azureKeyVault.certificatePath" {
		t.Errorf("got %v, want an InvalidError about the certificate's path", err)
	}
	if strings.Contains(err.Error(), "no such file") || !strings.Contains(logged, "open /certificate: no such file") {
		t.Errorf("the cause is for the log only: %q; log: %s", err, logged)
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
		if !errors.As(err, &invalid) || invalid.Key != "spec.vaultConfig.azureKeyVault.url" ||
			!strings.Contains(err.Error(), "https://NAME") {
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

// allowed is a list of vaults for the tests below.
const allowed = `[
	{"url": "https://shared.vault.azure.net", "namespaces": ["runners"], "secretNames": ["team-a", "team-a-*", "proxy-*-login"]},
	{"url": "https://shared.vault.azure.net/", "namespaces": ["team-*"], "secretNames": "team-b"},
	{"url": "https://other.vault.azure.net:8443", "namespaces": ["*"], "secretNames": "*"}
]`

// A set is served only if one entry has its namespace, its vault and all names. The vault is asked nothing otherwise.
func TestOnlyAllowedSecretsAreReadFromVaults(t *testing.T) {
	const (
		shared  = "https://shared.vault.azure.net"
		other   = "https://other.vault.azure.net:8443"
		address = "spec.vaultConfig.azureKeyVault.url"
		secret  = "spec.githubConfigSecret"
		login   = "spec.proxy.https.credentialSecretRef"
	)
	for name, test := range map[string]struct {
		namespace, url, secret, login string
		// field is the refused one; empty: allowed.
		field string
	}{
		"a name":                       {"runners", shared, "team-a", "", ""},
		"a pattern":                    {"runners", shared, "team-a-github", "", ""},
		"a pattern with a proxy":       {"runners", shared, "team-a", "proxy-eu-login", ""},
		"the host in another spelling": {"runners", "HTTPS://Shared.Vault.Azure.NET:443/", "team-a", "", ""},
		"the second entry":             {"team-x", shared, "team-b", "", ""},
		"any namespace and secret":     {"whoever", other, "x", "", ""},
		"another's secret":             {"runners", shared, "team-b", "", secret},
		"a prefix of a name":           {"runners", shared, "team-ab", "", secret},
		"another case":                 {"runners", shared, "Team-a", "", secret},
		"a slash":                      {"runners", shared, "team-a-x/../team-b", "", secret},
		"a version":                    {"whoever", other, "a/b", "", secret},
		"another's proxy":              {"runners", shared, "team-a", "team-b", login},
		"names of two entries":         {"team-x", shared, "team-b", "team-a", login},
		"another namespace":            {"other", shared, "team-a", "", address},
		"another port":                 {"runners", shared + ":8443", "team-a", "", address},
		"another scheme": {
			"runners", "http://shared.vault.azure.net:443", "team-a", "", address,
		},
		"another vault":                         {"runners", "https://sharedx.vault.azure.net", "team-a", "", address},
		"a path in the vault's address":         {"runners", shared + "/secrets/team-b", "team-a", "", address},
		"a user in the vault's address":         {"runners", "https://x@shared.vault.azure.net", "team-a", "", address},
		"a query in the vault's address":        {"runners", shared + "?x=", "team-a", "", address},
		"no address":                            {"runners", "::", "team-a", "", address},
		"the entry that allows the most counts": {"team-x", shared, "team-b", "x", login},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := withVault(t, nil)
			asked := false
			f.reader.openVault = func(*v1alpha1.AzureKeyVaultConfig, *ProxySettings) vault {
				asked = true
				return fakeVault{test.secret: `{"github_token": "x"}`, test.login: `{"username": "u", "password": "p"}`}
			}
			f.options.Vaults = mustParse(t, allowed)
			reference := vaultReference()
			reference.Namespace, reference.GitHubConfigSecret = test.namespace, test.secret
			reference.Vault.AzureKeyVault.URL = test.url
			if test.login != "" {
				reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
					Url:                 "http://proxy",
					CredentialSecretRef: test.login,
				}}
			}
			_, err := f.Resolve(t.Context(), reference)
			if test.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refused *VaultNotAllowedError
			if !errors.As(err, &refused) || refused.Field != test.field ||
				causes.Of(err).Reason != v1alpha1.ReasonVaultNotAllowed || !IsUserError(err) {
				t.Errorf("got %v, want a refusal of %s", err, test.field)
			}
			for _, part := range []string{test.field, "vaults", "administrator", test.namespace} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q doesn't say %s", err, part)
				}
			}
			if asked || len(f.store.reads) > 0 {
				t.Errorf("something was read: the vault %t, %v", asked, f.store.reads)
			}
		})
	}
}

func mustParse(t *testing.T, text string) []VaultRule {
	t.Helper()
	rules, err := ParseVaultRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// What a listener has got from a vault is no way around the list, and sets without a vault are not concerned.
func TestTheListOfVaultsHasNoWayAround(t *testing.T) {
	f, _ := withVault(t, fakeVault{"in-vault": `{"github_token": "x"}`})
	reference := vaultReference()
	f.mustResolve(t, reference)
	f.options.Vaults = mustParse(t, allowed)
	if _, err := f.Resolve(t.Context(), reference); !IsVaultNotAllowed(err) {
		t.Errorf("what was read before the list is still used: %v", err)
	}
	key := client.ObjectKey{Namespace: "system", Name: "listener"}
	f.store.setSecret(key.Namespace, key.Name+ListenerConfigSuffix, config.FileName, `{"github_token": "x"}`)
	if _, err := f.ClientOfListener(
		t.Context(), reference, key, errors.New("the vault is gone"),
	); !IsVaultNotAllowed(err) {
		t.Errorf("the listener's copy is still used: %v", err)
	}
	if got := f.mustResolve(t, githubReference()); got != "token-1" {
		t.Errorf("got %s", got)
	}
}

func TestWrongListsOfVaultsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "JSON list",
		`null`:                           "use []",
		`{}`:                             "JSON list",
		`[] []`:                          "use []",
		`[{"url": "https://v", "x": 1}]`: `unknown field "x"`,
		`[{"url": "http://v.vault.azure.net", "namespaces": ["a"], "secretNames": "a"}]`: "entry 1: url",
		`[{"url": "https://v/secrets", "namespaces": ["a"], "secretNames": "a"}]`:        "entry 1: url",
		`[{"url": "https://v", "secretNames": "a"}]`:                                     "entry 1: namespaces",
		`[{"url": "https://v", "namespaces": [], "secretNames": "a"}]`:                   "entry 1: namespaces",
		`[{"url": "https://v", "namespaces": ["a"]}]`:                                    "entry 1: secretNames",
		`[{"url": "https://v", "namespaces": ["a"], "secretNames": "a/*"}]`:              "entry 1: secretNames",
		`[{"url": "https://v", "namespaces": ["a"], "secretNames": [""]}]`:               "entry 1: secretNames",
		`[{"url": "https://v", "namespaces": ["a"], "secretNames": {"a": 1}}]`:           "JSON list",
		`[{"url": "https://v", "namespaces": ["a"], "secretNames": "a"}, {"url": "v", "namespaces": ["a"],` +
			` "secretNames": "a"}]`: "entry 2: url",
	} {
		if _, err := ParseVaultRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if rules := mustParse(t, `[]`); len(rules) != 0 {
		t.Errorf("got %v", rules)
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("team-*", "team-a")
	f.Add("a*b*c", "abbc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		quoted := make([]string, 0, strings.Count(pattern, "*")+1)
		for part := range strings.SplitSeq(pattern, "*") {
			quoted = append(quoted, regexp.QuoteMeta(part))
		}
		want := regexp.MustCompile(`(?s)\A`+strings.Join(quoted, "[^/]*")+`\z`).MatchString(name) &&
			!strings.Contains(name, "/")
		if got := (Patterns{pattern}).match(name); got != want && utf8.ValidString(pattern+name) {
			t.Errorf("%q matches %q: %t", pattern, name, got)
		}
	})
}

func TestRedirectsOfVaultsAreNotFollowed(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	opened := openAzureKeyVault(&v1alpha1.AzureKeyVaultConfig{}, nil, Options{}).(azurekeyvault.Vault)
	response, err := opened.HTTP.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusFound || asked != 1 {
		t.Errorf("%d requests, the last answered %d", asked, response.StatusCode)
	}
}
