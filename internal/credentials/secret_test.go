package credentials_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

func TestCredentialSecretHoldsExactlyOneKind(t *testing.T) {
	app := &actions.AppCredentials{ID: "Iv1.abc", InstallationID: 42, PrivateKey: strings.TrimSpace(privateKey())}
	for name, test := range map[string]struct {
		data []string
		want actions.Credentials
		// missing and invalid are the key the error names; "-" is an error about the Secret as a whole.
		missing, invalid string
	}{
		"token":                {data: []string{credentials.KeyToken, "abc"}, want: actions.Credentials{Token: "abc"}},
		"token with a newline": {data: []string{credentials.KeyToken, "abc\n"}, want: actions.Credentials{Token: "abc"}},
		"token and empty app keys": {
			data: []string{credentials.KeyToken, "abc", credentials.KeyAppID, "", credentials.KeyAppPrivateKey, " "},
			want: actions.Credentials{Token: "abc"},
		},
		"app": {
			data: []string{credentials.KeyAppID, "Iv1.abc\n", credentials.KeyAppInstallationID, " 42\n",
				credentials.KeyAppPrivateKey, privateKey()},
			want: actions.Credentials{App: app},
		},
		"foreign keys are ignored": {
			data: []string{credentials.KeyToken, "abc", "other", "x"},
			want: actions.Credentials{Token: "abc"},
		},
		"nothing": {missing: "github_token, or github_app_id, github_app_installation_id, " +
			"github_app_private_key"},
		"only empty values": {
			data:    []string{credentials.KeyToken, "\n"},
			missing: "github_token, or github_app_id, github_app_installation_id, github_app_private_key",
		},
		"app without its key": {data: []string{credentials.KeyAppID, "1", credentials.KeyAppInstallationID, "42"}, missing: credentials.KeyAppPrivateKey},
		"app with its id only": {
			data:    []string{credentials.KeyAppID, "1"},
			missing: "github_app_installation_id, github_app_private_key",
		},
		"both": {data: []string{credentials.KeyToken, "abc", credentials.KeyAppID, "1"}, invalid: "-"},
		"installation id is text": {
			data: []string{credentials.KeyAppID, "1", credentials.KeyAppInstallationID, "my-org",
				credentials.KeyAppPrivateKey, privateKey()},
			invalid: credentials.KeyAppInstallationID,
		},
		"installation id is negative": {
			data: []string{credentials.KeyAppID, "1", credentials.KeyAppInstallationID, "-4", credentials.KeyAppPrivateKey,
				privateKey()},
			invalid: credentials.KeyAppInstallationID,
		},
		"private key is none": {
			data: []string{credentials.KeyAppID, "1", credentials.KeyAppInstallationID, "4", credentials.KeyAppPrivateKey,
				"s3cret"},
			invalid: "-",
		},
		"token with a space":     {data: []string{credentials.KeyToken, "s3cret s3cret"}, invalid: "-"},
		"token with a line feed": {data: []string{credentials.KeyToken, "s3cret\ns3cret"}, invalid: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.setSecret("runners", "github", test.data...)
			resolved, err := f.Resolve(t.Context(), githubReference())
			var missing *credentials.MissingError
			var invalid *credentials.InvalidError
			switch {
			case test.missing != "":
				if !errors.As(err, &missing) || missing.Key != test.missing {
					t.Errorf("got %v, want a MissingError about %s", err, test.missing)
				}
			case test.invalid != "":
				if !errors.As(err, &invalid) || invalid.Key != strings.TrimPrefix(test.invalid, "-") {
					t.Errorf("got %v, want an InvalidError about %s", err, test.invalid)
				}
			case err != nil:
				t.Fatalf("got %v", err)
			default:
				if difference := cmp.Diff(test.want, resolved.Credentials); difference != "" {
					t.Errorf("credentials (-want +got):\n%s", difference)
				}
				return
			}
			mustNotLeak(t, err)
			mustName(t, err, "runners/github")
		})
	}
}

func TestMissingObjectsAreNamed(t *testing.T) {
	f := newFixture(t)
	reference := githubReference()
	reference.GitHubConfigSecret = "gone"
	_, err := f.Resolve(t.Context(), reference)
	mustName(t, err, "Secret runners/gone", "create it")
	if !credentials.Gone(err) {
		t.Error("Gone is false for a missing Secret")
	}

	reference.GitHubConfigSecret = "Bad Name/.."
	_, err = f.Resolve(t.Context(), reference)
	mustName(t, err, "Secret runners/Bad Name/..", "correct the name")

	reference.GitHubConfigSecret = ""
	_, err = f.Resolve(t.Context(), reference)
	mustName(t, err, "no Secret is named")
	if reads := f.store.readsOf("runners", ""); reads != 0 {
		t.Errorf("the API server was asked %d times for an object without a name", reads)
	}
}

func mustName(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %q doesn't say %q", err, part)
		}
	}
}

// mustNotLeak looks for the secret values that the tests use.
func mustNotLeak(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("the error holds a value: %v", err)
	}
}

// The Secret was created beside the controller. What is there is the controller's and other tenants' business: it is
// not even looked at.
func TestASecretIsReadInTheSetsNamespaceOnly(t *testing.T) {
	f := newFixture(t)
	f.store.deleteSecret("runners", "github")
	f.store.setSecret("arc-systems", "github", credentials.KeyToken, "abc")
	_, err := f.Resolve(t.Context(), githubReference())
	if missing, ok := errors.AsType[*credentials.MissingError](err); !ok || missing.Namespace != "runners" ||
		!strings.Contains(err.Error(), "create it in namespace runners") ||
		strings.Contains(err.Error(), "arc-systems") {
		t.Errorf("got %v, want one that names the namespace to use", err)
	}
	if f.store.readsOf("arc-systems", "github") != 0 {
		t.Error("a Secret of another namespace was read")
	}
}
