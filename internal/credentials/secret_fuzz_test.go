package credentials_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/internal/credentials"
)

// Any Secret gives exactly one kind of credentials, or an error that names the Secret and reveals none of its values.
func FuzzCredentialSecret(f *testing.F) {
	key := privateKey()
	f.Add("ghp_abc\n", "", "", "")
	f.Add("", "Iv1.abc", "42", key)
	f.Add("ghp_abc", "1", "42", key)
	f.Add("", "1", "-4", key)
	f.Add("", "1", "9999999999999999999", "not a key")
	f.Add("two words", "", "", "")
	f.Add("\xff\x00", " ", "\t", "\n")
	f.Fuzz(func(t *testing.T, token, appID, installation, key string) {
		provider := newFixture(t)
		provider.store.setSecret("runners", "github", credentials.KeyToken, token, credentials.KeyAppID, appID,
			credentials.KeyAppInstallationID, installation, credentials.KeyAppPrivateKey, key)
		resolved, err := provider.Resolve(t.Context(), githubReference())
		if err == nil {
			if found := resolved.Credentials; (found.Token == "") == (found.App == nil) {
				t.Errorf("not one kind of credentials: %v", found)
			}
			return
		}
		var missing *credentials.MissingError
		var invalid *credentials.InvalidError
		if (!errors.As(err, &missing) && !errors.As(err, &invalid)) ||
			!strings.Contains(err.Error(), "runners/github") {
			t.Errorf("the error doesn't name the Secret: %v", err)
		}
		const short = 16 // what is shorter than this may well be part of the advice
		for _, value := range []string{token, key} {
			if value := strings.TrimSpace(value); len(value) > short && strings.Contains(err.Error(), value) {
				t.Errorf("the error shows a value: %v", err)
			}
		}
	})
}
