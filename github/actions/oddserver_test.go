package actions

import (
	"io"
	"net/http"
	"strings"
	"testing"
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
		"in chunks":                 {inPieces(text), 5},
		"ends with the connection":  {reply{do: endWithConnection(text)}, 5},
		"as plain text":             {reply{body: text, header: map[string]string{"Content-Type": "text/plain"}}, 5},
		"with keys nobody knows":    {reply{body: strings.Replace(text, "{", `{"$type":"x","nested":{"a":[1]},`, 1)}, 5},
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
	if _, err := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); err != nil {
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
		want    *Statistics
	}{
		"no statistics":          {map[string]any{"statistics": nil}, nil},
		"statistics in part":     {map[string]any{"statistics": map[string]any{"totalAssignedJobs": 4, "new": "x"}}, &Statistics{TotalAssignedJobs: 4}},
		"no owner, no scale set": {map[string]any{"ownerName": nil, "runnerScaleSet": nil}, &Statistics{TotalAssignedJobs: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(createSessionCall, inPieces(s.sessionBody(testQueueToken, test.changes)))
			session, err := s.client().CreateSession(t.Context(), 7, "me")
			if err != nil {
				t.Fatal(err)
			}
			if got := session.Statistics(); (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
