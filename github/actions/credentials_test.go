package actions

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
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
