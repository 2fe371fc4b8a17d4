package actions

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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
		"token":                  {Credentials{Token: "t"}, ""},
		"token ends in newline":  {Credentials{Token: "t\n"}, ""},
		"app, PKCS#1":            {Credentials{App: &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: pkcs1()}}, ""},
		"app, PKCS#8, client id": {Credentials{App: &AppCredentials{ID: "Iv1.abc", InstallationID: 2, PrivateKey: pkcs8(t)}}, ""},
		"none":                   {Credentials{}, "give a personal access token or a GitHub App"},
		"both":                   {Credentials{Token: "t", App: &AppCredentials{}}, "give one"},
		"token with white space": {Credentials{Token: "secret one"}, "white space"},
		"app without id":         {Credentials{App: &AppCredentials{InstallationID: 2, PrivateKey: pkcs1()}}, "client id"},
		"app, no installation":   {Credentials{App: &AppCredentials{ID: "1", PrivateKey: pkcs1()}}, "installation id"},
		"app, key is no PEM":     {Credentials{App: &AppCredentials{ID: "1", InstallationID: 2, PrivateKey: "secret"}}, "private key"},
	} {
		err := test.credentials.Validate()
		if test.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalidCredentials) || !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: got %v, want one with %q", name, err, test.problem)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the secret is in %q", name, err)
		}
	}
}

func TestAppTokenHasThreeClaims(t *testing.T) {
	source, err := Credentials{App: &AppCredentials{ID: "Iv1.abc", InstallationID: 2, PrivateKey: pkcs1()}}.source()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := source.appToken(epoch)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	if _, err := parser.ParseWithClaims(signed, claims, func(*jwt.Token) (any, error) { return appKey().Public(), nil }); err != nil {
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

func TestAppGetsAnInstallationToken(t *testing.T) {
	s := newServer(t)
	s.on("POST /api/v3/app/installations/42/access_tokens", reply{status: 201, body: `{"token":"installation-secret","expires_at":"2026-03-01T13:00:00Z"}`})
	s.on("GET "+scaleSetsURL+"/7", reply{body: `{"id":7}`})
	client, err := NewClient(s.URL+"/acme", Credentials{App: &AppCredentials{ID: "1", InstallationID: 42, PrivateKey: pkcs1()}}, Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	first := s.only("POST /api/v3/app/installations/42/access_tokens")
	if got := first.header.Get("Authorization"); strings.Count(got, ".") != 2 || !strings.HasPrefix(got, "Bearer ") {
		t.Errorf("installation token asked for with %q, want a JWT", got)
	}
	if got, want := first.header.Get("Content-Type"), "application/vnd.github+json"; got != want {
		t.Errorf("content type %q, want %q", got, want)
	}
	second := s.only("POST /api/v3/orgs/acme/actions/runners/registration-token")
	if got, want := second.header.Get("Authorization"), "Bearer installation-secret"; got != want {
		t.Errorf("registration token asked for with %q, want %q", got, want)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	app := AppCredentials{ID: "1", InstallationID: 2, PrivateKey: "secret"}
	values := []any{
		Credentials{Token: "secret"}, &Credentials{Token: "secret"}, Credentials{App: &app}, app, &app,
		JITConfig{EncodedJITConfig: "secret"}, &JITConfig{EncodedJITConfig: "secret"}, []JITConfig{{EncodedJITConfig: "secret"}},
	}
	s := newServer(t)
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "secret") || strings.Contains(text, "736563726574") {
				t.Errorf("%s of %T prints %s", verb, value, text)
			}
		}
	}
	for _, value := range values[:7] {
		s.log().Info("a line", "value", value)
	}
	if strings.Contains(s.logText(), "secret") {
		t.Errorf("logged: %s", s.logText())
	}
}
