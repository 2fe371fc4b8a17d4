package credentials_test

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/credentials/azurekeyvault"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestVaultReplacesSecrets(t *testing.T) {
	f, vault := newFixture(t), newAzure(t, map[string]string{
		"in-vault": `{"github_token": "", "github_app_id": "1", "github_app_installation_id": 9007199254740993,` +
			` "github_app_private_key": ` +
			strconv.Quote(privateKey()) + `}`,
		"github-proxy": `{"username": "u", "password": "p"}`,
	})
	f.store.setSecret("runners", "vault-proxy", "username", "v", "password", "w")
	reference := vault.reference()
	reference.Proxy = &v1alpha1.ProxyConfig{HTTPS: &v1alpha1.ProxyServerConfig{
		Url:                 "http://github",
		CredentialSecretRef: "github-proxy",
	}}
	reference.Vault.Proxy.HTTPS.CredentialSecretRef = "vault-proxy"
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
	if logins, _ := vault.seen(); !slices.Equal(logins, []string{"v:w"}) {
		t.Errorf("the vault's proxy is asked as %q", logins)
	}
}

func TestVaultErrors(t *testing.T) {
	var missing *credentials.MissingError
	var invalid *credentials.InvalidError
	var unsupported *credentials.UnsupportedError
	for name, test := range map[string]struct {
		content map[string]string
		edit    func(*credentials.Reference)
		want    any
	}{
		"no such secret": {edit: func(*credentials.Reference) {}, want: &missing},
		"no name":        {edit: func(r *credentials.Reference) { r.GitHubConfigSecret = "" }, want: &missing},
		"no JSON":        {content: map[string]string{"in-vault": "s3cret"}, edit: func(*credentials.Reference) {}, want: &invalid},
		"empty JSON":     {content: map[string]string{"in-vault": "{}"}, edit: func(*credentials.Reference) {}, want: &missing},
		"no settings":    {edit: func(r *credentials.Reference) { r.Vault.AzureKeyVault = nil }, want: &invalid},
		"another vault":  {edit: func(r *credentials.Reference) { r.Vault.Type = "hashicorp" }, want: &unsupported},
		"bad proxy of vault": {
			edit: func(r *credentials.Reference) {
				r.Vault.Proxy = &v1alpha1.ProxyConfig{HTTP: &v1alpha1.ProxyServerConfig{Url: ":"}}
			},
			want: &invalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, reference := newFixture(t), newAzure(t, test.content).reference()
			test.edit(&reference)
			_, err := f.Resolve(t.Context(), reference)
			if !errors.As(err, test.want) {
				t.Fatalf("got %T: %v", err, err)
			}
			mustNotLeak(t, err)
		})
	}
}

func TestUnusableCertificateOfTheVaultsClientIsForTheUserToMend(t *testing.T) {
	logged := ""
	f := newFixture(t, func(o *credentials.Options) {
		o.Logger = funcr.New(func(_, line string) { logged += line }, funcr.Options{})
	})
	reference := vaultReference()
	reference.Vault.AzureKeyVault.CertificatePath = "/certificate"
	_, err := f.Resolve(t.Context(), reference)
	var invalid *credentials.InvalidError
	if !errors.As(err, &invalid) || invalid.Key != "spec.vaultConfig.azureKeyVault.certificatePath" {
		t.Errorf("got %v, want an InvalidError about the certificate's path", err)
	}
	if strings.Contains(err.Error(), "no such file") || !strings.Contains(logged, "/certificate: no such file") {
		t.Errorf("the cause is for the log only: %q; log: %s", err, logged)
	}
}

// An unusable address of the vault is a user's error, which names the field.
func TestUnusableAddressOfTheVaultIsForTheUserToMend(t *testing.T) {
	for _, address := range []string{"", "::::", "http://my-vault.vault.azure.net"} {
		f := newFixture(t)
		reference := vaultReference()
		reference.Vault.AzureKeyVault.URL = address
		_, err := f.Resolve(t.Context(), reference)
		var invalid *credentials.InvalidError
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
			vault := newAzure(t, map[string]string{
				test.secret: `{"github_token": "x"}`, test.login: `{"username": "u", "password": "p"}`,
			})
			f := newFixture(t, func(o *credentials.Options) { o.Vaults = mustParse(t, allowed) })
			reference := vault.reference()
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
			var refused *credentials.VaultNotAllowedError
			if !errors.As(err, &refused) || refused.Field != test.field ||
				causes.Of(err).Reason != v1alpha1.ReasonVaultNotAllowed || !credentials.IsUserError(err) {
				t.Errorf("got %v, want a refusal of %s", err, test.field)
			}
			for _, part := range []string{test.field, "vaults", "administrator", test.namespace} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q doesn't say %s", err, part)
				}
			}
			if _, requests := vault.seen(); requests > 0 || len(f.store.reads) > 0 {
				t.Errorf("something was read: %d requests to the vault, %v", requests, f.store.reads)
			}
		})
	}
}

func mustParse(t *testing.T, text string) []credentials.VaultRule {
	t.Helper()
	rules, err := credentials.ParseVaultRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// What a listener has got from a vault is no way around the list, and sets without a vault are not concerned.
func TestTheListOfVaultsHasNoWayAround(t *testing.T) {
	vault := newAzure(t, map[string]string{"in-vault": `{"github_token": "x"}`})
	rules := mustParse(t, `[{"url": "https://v.vault.azure.net", "namespaces": "*", "secretNames": "*"}]`)
	f, reference := newFixture(t, func(o *credentials.Options) { o.Vaults = rules }), vault.reference()
	f.mustResolve(t, reference)
	rules[0] = mustParse(t, allowed)[0] // as after a restart, but that everything is still remembered
	if _, err := f.Resolve(t.Context(), reference); !credentials.IsVaultNotAllowed(err) {
		t.Errorf("what was read before the list is still used: %v", err)
	}
	key := client.ObjectKey{Namespace: "system", Name: "listener"}
	f.store.setSecret(key.Namespace, key.Name+credentials.ListenerConfigSuffix, config.FileName, `{"github_token": "x"}`)
	if _, err := f.ClientOfListener(
		t.Context(), reference, key, errors.New("the vault is gone"),
	); !credentials.IsVaultNotAllowed(err) {
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
		if _, err := credentials.ParseVaultRules(text); err == nil || !strings.Contains(err.Error(), want) {
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
		provider := newFixture(t, func(o *credentials.Options) {
			o.Vaults = []credentials.VaultRule{{
				URL: "https://v.vault.azure.net", Namespaces: credentials.Patterns{pattern},
				SecretNames: credentials.Patterns{"*"},
			}}
		})
		reference := vaultReference()
		reference.Namespace = name
		reference.Vault.AzureKeyVault.CertificatePath = "" // so that no vault is asked
		_, err := provider.Resolve(t.Context(), reference)
		if got := !credentials.IsVaultNotAllowed(err); got != want && utf8.ValidString(pattern+name) {
			t.Errorf("%q matches %q: %t; %v", pattern, name, got, err)
		}
	})
}

func TestRedirectsOfVaultsAreNotFollowed(t *testing.T) {
	vault := newAzure(t, nil)
	vault.redirect = "/elsewhere"
	_, err := newFixture(t).Resolve(t.Context(), vault.reference())
	refused, ok := errors.AsType[*azurekeyvault.Error](err)
	if _, requests := vault.seen(); !ok || refused.StatusCode != http.StatusFound || requests != 1 {
		t.Errorf("%d requests, and then %v", requests, err)
	}
}
