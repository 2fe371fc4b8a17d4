package actions_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	removeRunnerCall  = "DELETE " + runnersURL + "/7"
	deleteSetCall     = "DELETE " + scaleSetsURL + "/7"
	deleteMessageCall = "DELETE /queue/5"
)

// callsWithoutResult are the calls that return nothing but their success.
func callsWithoutResult(s *server) map[string]func() error {
	client, session := s.client(), s.session()
	return map[string]func() error{
		removeRunnerCall:  func() error { return client.RemoveRunner(s.t.Context(), 7) },
		deleteSetCall:     func() error { return client.DeleteRunnerScaleSet(s.t.Context(), 7) },
		deleteSessionCall: func() error { return session.Close(s.t.Context()) },
		deleteMessageCall: func() error { return session.DeleteMessage(s.t.Context(), 5) },
	}
}

// A redirect turns a DELETE into a GET: its 200 is not a deletion, and a runner that is wrongly considered removed may
// have a job.
func TestADeletionThatIsRedirectedIsNone(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		s := newServer(t)
		for name, call := range callsWithoutResult(s) {
			s.on(name, reply{status: status, header: map[string]string{"Location": "/elsewhere?secret=1"}})
			s.on("GET /elsewhere", reply{body: `{"id":7,"name":"busy"}`})
			err := call()
			var answer *actions.Error
			if !errors.As(err, &answer) || answer.StatusCode != status {
				t.Errorf("%d to %s: got %v, want an *Error with that status", status, name, err)
			}
			if text := fmt.Sprint(err); !strings.Contains(text, s.URL+"/elsewhere,") ||
				strings.Contains(text, "secret") {
				t.Errorf(
					"%d to %s: %q does not name the address it redirects to, without its query",
					status, name, text,
				)
			}
			if got := len(s.calls("GET /elsewhere")); got != 0 {
				t.Errorf("%d to %s was followed %d times", status, name, got)
			}
		}
	}
}

// http:// in githubConfigUrl is redirected to https://, which is not the credential's fault.
func TestARegistrationThatIsRedirectedNamesTheConfigURL(t *testing.T) {
	s := newServer(t)
	page := map[string]string{"Location": "https://github.example/api/v3/orgs/acme", "Content-Type": "text/html"}
	s.on(registrationTokenCall, reply{status: http.StatusMovedPermanently, header: page, body: "<html>Moved</html>"})
	_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
	if err == nil || errors.Is(err, actions.ErrUnauthorized) {
		t.Fatalf("got %v, want an error that does not blame the token", err)
	}
	for _, part := range []string{
		"301", "it redirects to https://github.example/api/v3/orgs/acme,", "githubConfigUrl",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// A GET that stays a GET is followed.
func TestAReadingCallFollowsEachRedirect(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: http.StatusMovedPermanently, header: map[string]string{"Location": "/elsewhere"}})
	s.on("GET /elsewhere", reply{body: `{"id":7}`})
	client := s.client()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	s.on("GET /elsewhere", redirected("/elsewhere"))
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err == nil || len(s.calls("GET /elsewhere")) > 1+10 {
		t.Errorf("got %v after %d redirects in a circle", err, len(s.calls("GET /elsewhere")))
	}
}

func TestWhatPassesForADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		answer reply
		fails  bool
	}{
		"204":            {reply{status: http.StatusNoContent}, false},
		"empty 200":      {reply{}, false},
		"white space":    {reply{body: "\r\n"}, false},
		"JSON":           {reply{body: `{"id":7}`}, false},
		"null":           {reply{body: "null"}, false},
		"JSON after BOM": {reply{body: "\xef\xbb\xbf{}"}, false},
		"a web page": {
			reply{body: "<html>please log in</html>", header: map[string]string{"Content-Type": "text/html"}}, true,
		},
		"a text":     {reply{body: "maintenance", header: map[string]string{"Content-Type": "text/plain"}}, false},
		"empty page": {reply{header: map[string]string{"Content-Type": "text/html"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			for call, run := range callsWithoutResult(s) {
				s.on(call, test.answer)
				var unexpected *actions.UnexpectedResponseError
				if err := run(); errors.As(err, &unexpected) != test.fails || (err != nil) != test.fails {
					t.Errorf("%s: got %v, want an *UnexpectedResponseError: %t", call, err, test.fails)
				}
			}
		})
	}
}
