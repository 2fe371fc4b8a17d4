package actions_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

// installationToken has the form that GitHub's have since April 2026: ghs_<app>_<JWT>, here with 524 characters.
var installationToken = "ghs_1234567_eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." +
	base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"github","aud":"api","iat":1775000000,"exp":1775003600,`+
		`"installation":98765432}`)) + "." + strings.Repeat("Zq3-xV_7", 43)

// mustNotShow fails if twelve characters of a secret are in a text.
func mustNotShow(t *testing.T, what, text, secret string) {
	t.Helper()
	for i := range len(secret) - 11 {
		if part := secret[i : i+12]; strings.Contains(text, part) {
			t.Errorf("%s shows %q: %s", what, part, text)
			return
		}
	}
}

// echoes are ways in which a debugging server or a proxy sends back what it was sent.
var echoes = map[string]func(w http.ResponseWriter, secret string){
	"message": func(w http.ResponseWriter, secret string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"message":"Authorization: Bearer %s is not valid"}`, secret)
	},
	"exception": func(w http.ResponseWriter, secret string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"typeName":"X%sException","message":"why"}`, secret)
	},
	"wrapped": func(w http.ResponseWriter, secret string) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintf(w, `{"error":"bad gateway","details":{"headers":{"Authorization":"Bearer %s"}}}`, secret)
	},
	"the middle": func(w http.ResponseWriter, secret string) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"message":"refused: …%s…"}`, secret[len(secret)/4:3*len(secret)/4])
	},
	"identifiers": func(w http.ResponseWriter, secret string) {
		for _, name := range []string{"ActivityId", "X-Github-Request-Id"} {
			w.Header().Set(name, secret[max(0, len(secret)-128):])
		}
		w.WriteHeader(http.StatusNotFound)
	},
	"redirect": func(w http.ResponseWriter, secret string) {
		w.Header().Set("Location", "https://elsewhere.example.com/"+url.PathEscape(secret))
		w.WriteHeader(http.StatusTemporaryRedirect)
	},
	"no HTTP": func(w http.ResponseWriter, secret string) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(connection, "%s\r\n\r\n", secret)
		_ = connection.Close()
	},
	"not JSON": func(w http.ResponseWriter, secret string) { fmt.Fprint(w, secret) },
}

// Whatever the credential's form, neither errors nor logs show what a server sends back of it.
func TestNothingShowsTheCredentialThatAServerEchoes(t *testing.T) {
	for form, token := range map[string]string{
		"with a JWT": installationToken, "opaque": "opaque~Enterprise_Server.credential:0123",
	} {
		for name, echo := range echoes {
			s := newServer(t)
			s.on(everyCall, reply{do: func(w http.ResponseWriter, r *http.Request) {
				_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				echo(w, secret)
			}})
			client, err := actions.NewClient(
				s.URL+"/acme", actions.Credentials{Token: token}, actions.Options{Clock: s.clock, Logger: s.log()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.GetRunner(t.Context(), 1)
			if err == nil {
				t.Fatalf("%s, %s: no error", form, name)
			}
			mustNotShow(t, form+", "+name, err.Error(), token)
			mustNotShow(t, form+", "+name+": the log", s.logText(), token)
		}
	}
}

// The address of the service, a session's queue and a message come from a server, too.
func TestNothingShowsACredentialInAnAddressOrAMessage(t *testing.T) {
	const registration = "opaque~registration.credential:01"
	s := newServer(t)
	s.on("POST /api/v3/orgs/acme/actions/runners/registration-token", reply{body: `{"token":"` + registration + `"}`})
	s.on("POST /api/v3/actions/runner-registration", reply{
		body: `{"url":"http://127.0.0.1/` + registration + `/","token":"x"}`,
	})
	refuse := func(o *actions.Options) {
		o.Addresses.URL = func(address *url.URL) error { return errors.New("no " + address.String()) }
	}
	_, err := s.client(refuse).GetRunner(t.Context(), 1)
	if _, refused := errors.AsType[*actions.RefusedAddressError](err); !refused {
		t.Fatalf("got %v", err)
	}
	mustNotShow(t, "the address", err.Error(), registration)

	const queue = "opaque~queue.credential:0123456789"
	for name, body := range map[string]string{
		"kind":  `{"messageId":1,"messageType":"` + queue + `"}`,
		"entry": `{"messageId":1,"messageType":"RunnerScaleSetJobMessages","body":"[{\"messageType\":\"` + queue + `\"}]"}`,
		"time": `{"messageId":1,"messageType":"RunnerScaleSetJobMessages","body":` +
			`"[{\"messageType\":\"JobStarted\",\"runnerAssignTime\":\"` + queue + `\"}]"}`,
	} {
		s := newServer(t)
		s.on("POST "+scaleSetsURL+"/7/sessions", reply{body: s.sessionBody(queue, nil)})
		s.on("GET /queue", reply{body: body})
		session, err := s.client().CreateSession(t.Context(), 7, "me")
		if err != nil {
			t.Fatal(err)
		}
		message, err := session.GetMessage(t.Context(), 0, 1)
		mustNotShow(t, name, fmt.Sprint(err, message), queue)
	}
}
