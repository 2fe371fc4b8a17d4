package actions_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

// inPieces sends a body in chunks, without a type.
func inPieces(body string) reply {
	return reply{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		for _, piece := range strings.SplitAfter(body, ",") {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}}
}

// redirected redirects a call with a status that keeps method and body.
func redirected(to string) reply {
	return reply{status: http.StatusTemporaryRedirect, header: map[string]string{"Location": to}}
}

func TestAnswersOfOddServersToAPoll(t *testing.T) {
	text := message(t, 5, map[string]any{"messageType": "JobAssigned", "runnerRequestId": 7})
	for name, test := range map[string]struct {
		answer reply
		want   int64 // the message's id, 0 for none
	}{
		"in chunks":                {inPieces(text), 5},
		"ends with the connection": {reply{do: endWithConnection(text)}, 5},
		"as plain text":            {reply{body: text, header: map[string]string{"Content-Type": "text/plain"}}, 5},
		"with keys nobody knows": {
			reply{body: strings.Replace(text, "{", `{"$type":"x","nested":{"a":[1]},`, 1)}, 5,
		},
		"after a redirect":          {redirected("/elsewhere?id=s-1"), 5},
		"empty 202":                 {reply{status: http.StatusAccepted}, 0},
		"202 with a body":           {reply{status: http.StatusAccepted, body: "{}"}, 0},
		"204":                       {reply{status: http.StatusNoContent}, 0},
		"empty 200":                 {reply{}, 0},
		"empty 200 in chunks":       {inPieces(""), 0},
		"200 with null":             {reply{body: "null\n"}, 0},
		"200 with white space only": {reply{body: " \r\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			session := s.session()
			s.on(pollCall, test.answer)
			s.on("GET /elsewhere", reply{body: text})
			got, err := session.GetMessage(t.Context(), 0, 1)
			switch {
			case err != nil:
				t.Fatal(err)
			case test.want == 0 && got != nil:
				t.Errorf("got message %+v, want none", got)
			case test.want != 0 && (got == nil || got.ID != test.want || len(got.JobsAssigned) != 1):
				t.Errorf("got message %+v, want %d", got, test.want)
			}
		})
	}
}

// A call that is redirected keeps its method, body and credential.
func TestARedirectKeepsTheCall(t *testing.T) {
	s := newServer(t)
	s.on(jitCall, redirected("/moved"))
	s.on("POST /moved", reply{body: `{"runner":{"id":5,"name":"r"},"encodedJITConfig":"e"}`})
	if _, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r"}); err != nil {
		t.Fatal(err)
	}
	first, second := s.only(jitCall), s.only("POST /moved")
	if second.body != first.body || second.header.Get("Authorization") != first.header.Get("Authorization") {
		t.Errorf("sent on with body %q; want %q and the same credential", second.body, first.body)
	}
}

func TestSessionsOfOddServers(t *testing.T) {
	for name, test := range map[string]struct {
		changes map[string]any
		want    *actions.Statistics
	}{
		"no statistics": {map[string]any{"statistics": nil}, nil},
		"statistics in part": {
			map[string]any{"statistics": map[string]any{"totalAssignedJobs": 4, "new": "x"}},
			&actions.Statistics{TotalAssignedJobs: 4},
		},
		"no owner, no scale set": {
			map[string]any{"ownerName": nil, "runnerScaleSet": nil}, &actions.Statistics{TotalAssignedJobs: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(createSessionCall, inPieces(s.sessionBody(testQueueToken, test.changes)))
			session, err := s.client().CreateSession(t.Context(), 7, "me")
			if err != nil {
				t.Fatal(err)
			}
			if got := session.Statistics(); (got == nil) != (test.want == nil) || (got != nil && *got != *test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// A proxy that asks for a login shows its page with status 200. It is not a success, says nothing about what was asked
// for, and is neither a message nor GitHub's.
func TestAWebPageInPlaceOfAResult(t *testing.T) {
	for name, page := range map[string]reply{
		"as HTML":  {body: "<html>please log in</html>", header: map[string]string{"Content-Type": "text/html"}},
		"as JSON":  {body: "\n<!DOCTYPE html><title>please log in</title>"},
		"accepted": {status: http.StatusAccepted, body: "<html>please log in</html>"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			session := s.session()
			for _, call := range []string{getSetCall, pollCall, acquireCall} {
				s.on(call, page)
			}
			_, reading := s.client().GetRunnerScaleSetByID(t.Context(), 7)
			_, polling := session.GetMessage(t.Context(), 0, 1)
			_, acquiring := session.AcquireJobs(t.Context(), []int64{11})
			for _, err := range []error{reading, polling, acquiring} {
				wantWebPage(t, err)
			}
		})
	}
}

func TestAWebPageInPlaceOfARegistration(t *testing.T) {
	for _, call := range []string{registrationTokenCall, registerCall} {
		s := newServer(t)
		s.on(call, reply{status: http.StatusCreated, body: "<html>"})
		_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
		wantWebPage(t, err)
	}
}

func wantWebPage(t *testing.T, err error) {
	t.Helper()
	var malformed *actions.MalformedMessageError
	var unexpected *actions.UnexpectedResponseError
	if !errors.Is(err, actions.ErrForeignAnswer) || !errors.As(err, &unexpected) || errors.As(err, &malformed) ||
		errors.Is(err, actions.ErrNotFound) {
		t.Fatalf("got %v, want an *UnexpectedResponseError that matches ErrForeignAnswer", err)
	}
	if text := err.Error(); !strings.Contains(
		text, "a web page is not an answer of GitHub's API: check the proxy or gateway on the way and the config URL",
	) || strings.Contains(text, "breaks the protocol") {
		t.Errorf("%q does not say whose answer it may be and what to check", text)
	}
}

// Some frameworks declare every text HTML. Their servers mean what they say: Flask's `return "", 404`, Express's
// `send("…")`.
func TestATextThatIsCalledHTMLIsNoWebPage(t *testing.T) {
	for _, text := range []string{"", "no"} {
		s := newServer(t)
		session := s.session()
		for call, status := range map[string]int{
			"DELETE " + runnersURL + "/5": 404,
			pollCall:                      404,
			createSessionCall:             409,
			jitCall:                       409,
		} {
			s.on(call, reply{
				status: status,
				body:   text,
				header: map[string]string{"Content-Type": "text/html; charset=utf-8"},
			})
		}
		removing := s.client().RemoveRunner(t.Context(), 5)
		_, polling := session.GetMessage(t.Context(), 0, 1)
		_, opening := s.client().CreateSession(t.Context(), 7, "me")
		_, registering := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r-1"})
		for want, err := range map[error]error{
			actions.ErrRunnerNotFound: removing, actions.ErrSessionNotFound: polling, actions.ErrSessionConflict: opening,
			actions.ErrRunnerExists: registering,
		} {
			if !errors.Is(err, want) || errors.Is(err, actions.ErrForeignAnswer) {
				t.Errorf("%q: got %v, want %v", text, err, want)
			}
		}
	}
}

// A token is renewed only after a 401, so only then may the error say that it was.
func TestRenewalIsToldWhereThereWasOne(t *testing.T) {
	const told = "it was renewed and refused again"
	for name, test := range map[string]struct {
		replies []reply
		renewed bool
	}{
		"refused":                   {[]reply{{status: http.StatusUnauthorized}}, true},
		"forbidden":                 {[]reply{{status: http.StatusForbidden}}, false},
		"forbidden after a renewal": {[]reply{{status: http.StatusUnauthorized}, {status: http.StatusForbidden}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			session := s.session()
			s.on(refreshSessionCall, reply{body: s.sessionBody("next-token", nil)})
			for call, run := range map[string]func(context.Context) error{
				pollCall: func(ctx context.Context) error { _, err := session.GetMessage(ctx, 0, 1); return err },
				getSetCall: func(ctx context.Context) error {
					_, err := s.client().GetRunnerScaleSetByID(ctx, 7)
					return err
				},
			} {
				s.on(call, test.replies...)
				err := run(t.Context())
				if !errors.Is(err, actions.ErrUnauthorized) || strings.Contains(err.Error(), told) != test.renewed {
					t.Errorf("%s: got %v, want a refused credential, renewed before: %t", call, err, test.renewed)
				}
				if !strings.Contains(err.Error(), " token was refused: ") {
					t.Errorf("%s: %v does not say what to check", call, err)
				}
			}
		})
	}
}
