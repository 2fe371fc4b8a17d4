package credential

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-cmp/cmp"
)

// appKey is made once: it takes most of the time of a test that needs it.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func pkcs1() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())}))
}

func pkcs8(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(appKey())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestValidateCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		credentials Credentials
		problem     string
	}{
		"token":                 {Credentials{Token: "t"}, ""},
		"token ends in newline": {Credentials{Token: "t\n"}, ""},
		"app, PKCS#1": {
			Credentials{App: &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: pkcs1()}}, "",
		},
		"app, PKCS#8, client id": {
			Credentials{App: &AppCredentials{ID: "Iv1.abc", InstallationID: 2, PrivateKey: pkcs8(t)}}, "",
		},
		"none":                   {Credentials{}, "give a personal access token or a GitHub App"},
		"both":                   {Credentials{Token: "t", App: &AppCredentials{}}, "give one"},
		"token with white space": {Credentials{Token: "secret one"}, "white space"},
		"app without id": {
			Credentials{App: &AppCredentials{InstallationID: 2, PrivateKey: pkcs1()}}, "client id",
		},
		"app, no installation": {Credentials{App: &AppCredentials{ID: "1", PrivateKey: pkcs1()}}, "installation id"},
		"app, key is no PEM": {
			Credentials{App: &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: "secret"}}, "private key",
		},
	} {
		err := test.credentials.Validate()
		if test.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: got %v, want one with %q", name, err, test.problem)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the secret is in %q", name, err)
		}
	}
}

func TestAppTokenHasThreeClaims(t *testing.T) {
	epoch := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	source, err := NewSource(Credentials{App: &AppCredentials{ID: "Iv1.abc", InstallationID: 2, PrivateKey: pkcs1()}})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := source.AppToken(epoch)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	if _, err := parser.ParseWithClaims(signed, claims, func(*jwt.Token) (any, error) {
		return appKey().Public(), nil
	}); err != nil {
		t.Fatal(err)
	}
	want := jwt.MapClaims{
		"iss": "Iv1.abc",
		"iat": float64(epoch.Add(-time.Minute).Unix()),
		"exp": float64(epoch.Add(8 * time.Minute).Unix()),
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// Tokens are refused or accepted, and never shown.
func FuzzCredentials(f *testing.F) {
	f.Add("ghp_abc", "", int64(0), "")
	f.Add("", "1", int64(2), "-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----")
	f.Add("ghp_secret with space", "1", int64(-1), "none")
	f.Add("\x00", "", int64(0), "")
	f.Fuzz(func(t *testing.T, token, appID string, installation int64, key string) {
		credentials := Credentials{Token: token}
		if appID != "" || key != "" {
			credentials.App = &AppCredentials{ID: appID, InstallationID: installation, PrivateKey: key}
		}
		err := credentials.Validate()
		if err == nil {
			return
		}
		const short = 8 // what is shorter than this may well be part of a word
		for _, secret := range []string{token, key} {
			if len(secret) > short && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a secret: %v", err)
			}
		}
	})
}
