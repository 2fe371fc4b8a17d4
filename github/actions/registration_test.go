package actions_test

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

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	registrationTokenCall = "POST /api/v3/orgs/acme/actions/runners/registration-token"
	registerCall          = "POST /api/v3/actions/runner-registration"
	getSetCall            = "GET " + scaleSetsURL + "/7"
)

func TestRegistrationWalksTheChain(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7,"name":"big"}`})
	if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	token := s.only(registrationTokenCall)
	if got, want := token.header.Get("Authorization"), "Bearer "+testToken; got != want {
		t.Errorf("registration token: Authorization %q, want %q", got, want)
	}
	if got, want := token.header.Get("Content-Type"), "application/vnd.github.v3+json"; got != want {
		t.Errorf("registration token: Content-Type %q, want %q", got, want)
	}
	if got, want := token.header.Get("X-GitHub-Api-Version"), "2022-11-28"; got != want {
		t.Errorf("registration token: version %q of the REST API, want %q", got, want)
	}
	if token.body != "" {
		t.Errorf("registration token: body %q, want none", token.body)
	}
	register := s.only(registerCall)
	if got, want := register.header.Get("Authorization"), "RemoteAuth "+testRegistration; got != want {
		t.Errorf("register: Authorization %q, want %q", got, want)
	}
	if got, want := register.header.Get("Content-Type"), "application/json"; got != want {
		t.Errorf("register: Content-Type %q, want %q", got, want)
	}
	if got, want := register.body, `{"url":"`+s.URL+`/acme","runner_event":"register"}`+"\n"; got != want {
		t.Errorf("register: body %q, want %q", got, want)
	}
}

// The service's address has a path and a trailing slash; a renewal changes it.
func TestServiceAddressIsKeptAndReadAgain(t *testing.T) {
	s := newServer(t)
	moved := jsonText(t, map[string]string{
		"url":   s.URL + "/rest/elsewhere//?tenant=x",
		"token": adminToken(t, jwt.MapClaims{"exp": epoch.Add(5 * time.Hour).Unix()}),
	})
	s.on(registerCall, reply{do: s.register}, reply{status: 201, body: moved})
	s.on(getSetCall, reply{body: `{"id":7}`})
	s.on("GET /rest/elsewhere/_apis/runtime/runnerscalesets/7", reply{body: `{"id":7}`})
	client := s.client()
	for range 2 {
		if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		s.clock.Step(time.Hour)
	}
	if got, want := s.only(getSetCall).rawQuery, "api-version=6.0-preview"; got != want {
		t.Errorf("query %q, want %q", got, want)
	}
	after := s.only("GET /rest/elsewhere/_apis/runtime/runnerscalesets/7")
	if got, want := after.rawQuery, "api-version=6.0-preview&tenant=x"; got != want {
		t.Errorf("query after the move %q, want %q", got, want)
	}
}

// A token of an hour is renewed a minute before its end at the latest, and up to six minutes earlier.
func TestRenewsAMinuteBeforeExpiry(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	get := func() {
		t.Helper()
		if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
	}
	get()
	s.clock.Step(53 * time.Minute)
	get()
	if got := s.registrations(); got != 1 {
		t.Fatalf("%d registrations 7 min before the end, want 1", got)
	}
	s.clock.Step(6*time.Minute + time.Second)
	get()
	if got := s.registrations(); got != 2 {
		t.Fatalf("%d registrations 59 s before the end, want 2", got)
	}
}

// A token without exp, or that is not a JWT, must not crash the client; it lasts five minutes.
func TestTokenWithoutExpiry(t *testing.T) {
	for name, token := range map[string]string{
		"no exp":        adminToken(t, jwt.MapClaims{"sub": "x"}),
		"exp is a text": adminToken(t, jwt.MapClaims{"exp": "tomorrow"}),
		"opaque":        "opaque-token",
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(registerCall, reply{body: jsonText(t, map[string]string{"url": s.URL + servicePath, "token": token})})
			s.on(getSetCall, reply{body: `{"id":7}`})
			client := s.client()
			for _, step := range []time.Duration{0, 4 * time.Minute, time.Second} {
				s.clock.Step(step)
				if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.registrations(); got != 2 {
				t.Errorf("%d registrations, want 2", got)
			}
		})
	}
}

// With a minute to spare each call would register again: two more calls each time, on the REST API's limit.
func TestTokenShorterThanAMinuteIsRenewedInTheMiddleOfItsLife(t *testing.T) {
	s := newServer(t)
	token := adminToken(t, jwt.MapClaims{"exp": epoch.Add(30 * time.Second).Unix()})
	s.on(
		registerCall, reply{body: jsonText(t, map[string]string{"url": s.URL + servicePath, "token": token})},
		reply{do: s.register},
	)
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {15 * time.Second, 1}, {time.Second, 2}} {
		s.clock.Step(step.after)
		if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if got := s.registrations(); got != step.want {
			t.Errorf("%s later: %d registrations, want %d", step.after, got, step.want)
		}
	}
}

// A token that has expired by this machine's clock comes from a service whose clock differs.
func TestTokenThatHasEndedIsRenewedForEveryCall(t *testing.T) {
	s := newServer(t)
	token := adminToken(t, jwt.MapClaims{"exp": epoch.Add(-time.Hour).Unix()})
	s.on(registerCall, reply{body: jsonText(t, map[string]string{"url": s.URL + servicePath, "token": token})})
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	for want := 1; want <= 3; want++ {
		if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil || s.registrations() != want {
			t.Errorf("got %v, %d registrations; want nil, %d", err, s.registrations(), want)
		}
	}
}

// The call runner-registration is repeated on 401 and 403 with its body.
func TestRegistrationIsRepeatedWithItsBody(t *testing.T) {
	s := newServer(t)
	refused := `{"message":"Bad credentials","documentation_url":"https://docs.github.com"}`
	s.on(registerCall, reply{status: 401, body: refused}, reply{status: 403, body: refused}, reply{do: s.register})
	s.on(getSetCall, reply{body: `{"id":7}`})
	if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	attempts := s.calls(registerCall)
	if len(attempts) != 3 {
		t.Fatalf("%d attempts, want 3", len(attempts))
	}
	for i, attempt := range attempts {
		if attempt.body != attempts[0].body || attempt.body == "" {
			t.Errorf("attempt %d has body %q, the first %q", i+1, attempt.body, attempts[0].body)
		}
	}
	if got := len(s.calls(registrationTokenCall)); got != 1 {
		t.Errorf("%d registration tokens, want 1", got)
	}
}

// Token calls answer 201, runner-registration any 2xx, creation of a scale set 200.
func TestSuccessStatuses(t *testing.T) {
	for _, status := range []int{200, 201} {
		s := newServer(t)
		s.on(registerCall, reply{
			status: status,
			body:   jsonText(t, map[string]string{"url": s.URL + servicePath, "token": "opaque"}),
		})
		s.on("POST "+scaleSetsURL, reply{status: 200, body: `{"id":7,"name":"big"}`})
		set, err := s.client().CreateRunnerScaleSet(t.Context(), &actions.RunnerScaleSet{Name: "big"})
		if err != nil {
			t.Fatalf("runner-registration answered %d: %v", status, err)
		}
		if set.ID != 7 {
			t.Errorf("got scale set %d, want 7", set.ID)
		}
	}
}

func TestRefusedCredentialIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		call       string
		status     int
		attempts   int
		credential string
		advice     string
	}{
		"token refused":              {registrationTokenCall, 401, 1, actions.CredentialPersonalAccessToken, "expired"},
		"token lacks a scope":        {registrationTokenCall, 403, 1, actions.CredentialPersonalAccessToken, "admin:org"},
		"organization hidden":        {registrationTokenCall, 404, 1, actions.CredentialPersonalAccessToken, "config URL"},
		"registration token refused": {registerCall, 401, 5, actions.CredentialRegistrationToken, "config URL"},
		"admin token refused twice":  {getSetCall, 401, 2, actions.CredentialAdminToken, "revoked"},
		"admin token forbidden":      {getSetCall, 403, 1, actions.CredentialAdminToken, "revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(getSetCall, reply{body: `{"id":7}`})
			s.on(test.call, reply{
				status: test.status,
				body:   `{"message":"go away"}`,
				header: map[string]string{"X-GitHub-Request-Id": "AB:12"},
			})
			_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
			var failure *actions.Error
			if !errors.As(err, &failure) || !errors.Is(err, actions.ErrUnauthorized) {
				t.Fatalf("got %v, want *Error that matches ErrUnauthorized", err)
			}
			if errors.Is(err, actions.ErrNotFound) {
				t.Error("a hidden organization passes for a scale set that doesn't exist")
			}
			if failure.Credential != test.credential || failure.StatusCode != test.status ||
				failure.RequestID != "AB:12" {
				t.Errorf("got %+v", failure)
			}
			for _, part := range []string{test.credential, test.advice, "go away", "AB:12"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if got := len(s.calls(test.call)); got != test.attempts {
				t.Errorf("%d attempts, want %d", got, test.attempts)
			}
		})
	}
}

func TestRefusedAppIsNamed(t *testing.T) {
	s := newServer(t)
	s.on("POST /api/v3/app/installations/42/access_tokens", reply{status: 404, body: `{"message":"Not Found"}`})
	app := &actions.AppCredentials{ID: "1", InstallationID: 42, PrivateKey: pkcs1()}
	client, err := actions.NewClient(s.URL+"/acme", actions.Credentials{App: app}, actions.Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	err = client.RemoveRunner(t.Context(), 1)
	if !errors.Is(err, actions.ErrUnauthorized) || !strings.Contains(err.Error(), "installation id") {
		t.Errorf("got %v, want one that says to check the installation id", err)
	}
}

func TestIncompleteRegistrationIsAnError(t *testing.T) {
	for call, bodies := range map[string][]string{
		registrationTokenCall: {`{}`, `{"token":""}`, ``, `<html>`},
		registerCall: {
			`{}`, `{"url":"https://x/"}`, `{"token":"t"}`, `{"url":"%zz","token":"t"}`, `null`, `[]`,
		},
	} {
		for _, body := range bodies {
			s := newServer(t)
			s.on(call, reply{status: 201, body: body})
			_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
			var broken *actions.UnexpectedResponseError
			if !errors.As(err, &broken) {
				t.Errorf("%s answers %q: got %v, want *UnexpectedResponseError", call, body, err)
			}
		}
	}
}

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
	s.on("POST /api/v3/app/installations/42/access_tokens", reply{
		status: 201,
		body:   `{"token":"installation-secret","expires_at":"2026-03-01T13:00:00Z"}`,
	})
	s.on("GET "+scaleSetsURL+"/7", reply{body: `{"id":7}`})
	client, err := actions.NewClient(
		s.URL+"/acme", actions.Credentials{App: &actions.AppCredentials{ID: "1", InstallationID: 42, PrivateKey: pkcs1()}},
		actions.Options{Clock: s.clock},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	first := s.only("POST /api/v3/app/installations/42/access_tokens")
	if got, want := first.header.Get("X-GitHub-Api-Version"), "2022-11-28"; got != want {
		t.Errorf("installation token: version %q of the REST API, want %q", got, want)
	}
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
	app := actions.AppCredentials{ID: "1", InstallationID: 2, PrivateKey: "secret"}
	values := []any{
		actions.Credentials{Token: "secret"}, &actions.Credentials{Token: "secret"}, actions.Credentials{App: &app},
		app, &app,
		actions.JITConfig{EncodedJITConfig: "secret"}, &actions.JITConfig{EncodedJITConfig: "secret"},
		[]actions.JITConfig{{EncodedJITConfig: "secret"}},
	}
	s := newServer(t)
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "secret") ||
				strings.Contains(text, "736563726574") {
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

// Tokens and the service's address are kept: a server can't have the program keep a megabyte of each.
func TestLongTokensAndAddressesAreRefused(t *testing.T) {
	long := strings.Repeat("x", 17<<10)
	for name, broken := range map[string]map[string]reply{
		"registration token": {registrationTokenCall: {body: `{"token":"` + long + `"}`}},
		"admin token":        {registerCall: {body: `{"url":"https://x.example.com/","token":"` + long + `"}`}},
		"address":            {registerCall: {body: `{"url":"https://x.example.com/` + long + `","token":"x"}`}},
	} {
		s := newServer(t)
		for call, answer := range broken {
			s.on(call, answer)
		}
		_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
		if _, unexpected := errors.AsType[*actions.UnexpectedResponseError](err); !unexpected {
			t.Errorf("%s: got %v, want an answer that breaks the protocol", name, err)
		}
	}
}
