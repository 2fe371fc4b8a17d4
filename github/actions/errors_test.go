package actions

import (
	"errors"
	"strings"
	"testing"
)

// A 409 may have another cause than the name, so the error carries what GitHub said.
func TestATakenNameKeepsWhatGitHubSaid(t *testing.T) {
	s := newServer(t)
	answer := reply{status: 409, body: exception("QuotaException", "too many runners"), header: map[string]string{"ActivityId": "activity"}}
	s.on(jitCall, answer)
	s.on("POST "+scaleSetsURL, answer)
	_, registering := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r-1"})
	_, creating := s.client().CreateRunnerScaleSet(t.Context(), &RunnerScaleSet{Name: "big"})
	for want, err := range map[error]error{ErrRunnerExists: registering, ErrScaleSetExists: creating} {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		for _, said := range []string{"too many runners", "QuotaException", "[ActivityId activity]"} {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%v lacks %q", err, said)
			}
		}
	}
}

// A gateway on the way may write anything of any length, even in a header.
func TestNoErrorQuotesALongAnswer(t *testing.T) {
	const updateCall = "PATCH " + scaleSetsURL + "/7"
	long := strings.Repeat("7", 100_000)
	for name, answer := range map[string]reply{
		"body":                                {status: 400, body: long},
		"type":                                {status: 400, body: `{"message":"x","typeName":"` + long + `"}`},
		"ids":                                 {status: 400, header: map[string]string{"ActivityId": long, "X-GitHub-Request-Id": long}},
		"redirect that only a GET can follow": {status: 302, header: map[string]string{"Location": "https://example.com/" + long}},
		"redirect to no address":              {status: 307, header: map[string]string{"Location": "https://example.com/%zz" + long}},
		"success":                             {body: `{"id":` + long + `}`},
	} {
		s := newServer(t)
		s.on(updateCall, answer)
		_, err := s.client().UpdateRunnerScaleSet(t.Context(), 7, &RunnerScaleSet{Name: "big"})
		if err == nil || len(err.Error()) > 10_000 {
			t.Errorf("%s: got %.200v, want a short error", name, err)
		}
	}
}

// The address of a queue comes from GitHub as well.
func TestNoErrorQuotesALongAddress(t *testing.T) {
	s := newServer(t)
	path := "/queue/" + strings.Repeat("x", 100_000)
	s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"messageQueueUrl": s.URL + path})})
	session, err := s.client().CreateSession(t.Context(), 7, "me")
	if err != nil {
		t.Fatal(err)
	}
	s.on("GET "+path, cutShort("{}"))
	var network *NetworkError
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.As(err, &network) || len(err.Error()) > 10_000 {
		t.Errorf("got %.200v, want a short *NetworkError", err)
	}
}

// A credential that was cut would not be recognized, and its beginning would be shown.
func TestCredentialIsRedactedBeforeAMessageIsShortened(t *testing.T) {
	const shown = 10 // bytes of the token that are within the limit
	s := newServer(t)
	body := jsonText(t, map[string]any{"message": strings.Repeat("x", 512-shown) + testToken})
	s.on(registrationTokenCall, reply{status: 400, body: body})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken[:shown]) {
		t.Errorf("got %v, want nothing of the token", err)
	}
}

func TestErrorDoesNotEchoTheCredential(t *testing.T) {
	s := newServer(t)
	s.on(registrationTokenCall, reply{status: 400, body: jsonText(t, map[string]any{"message": "you sent Bearer " + testToken})})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || strings.Contains(err.Error(), testToken) || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %v, want the token redacted", err)
	}
}
