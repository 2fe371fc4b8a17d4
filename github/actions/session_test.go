package actions_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	createSessionCall  = "POST " + scaleSetsURL + "/7/sessions"
	refreshSessionCall = "PATCH " + scaleSetsURL + "/7/sessions/s-1"
	deleteSessionCall  = "DELETE " + scaleSetsURL + "/7/sessions/s-1"
	pollCall           = "GET /queue"
)

func TestCreateSession(t *testing.T) {
	s := newServer(t)
	session := s.session()
	if got, want := s.only(createSessionCall).body, `{"ownerName":"me"}`+"\n"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	if session.ID() != "s-1" {
		t.Errorf("got session %s", session.ID())
	}
	if diff := cmp.Diff(&actions.Statistics{TotalAssignedJobs: 3}, session.Statistics()); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

// A conflict is 409 even for the same owner.
func TestSessionConflict(t *testing.T) {
	for _, body := range []string{
		exception(
			"RunnerScaleSetSessionConflictException",
			"The runner scale set big already has an active session for owner me.",
		),
		"",
	} {
		s := newServer(t)
		s.on(createSessionCall, reply{status: 409, body: body})
		if _, err := s.client().CreateSession(t.Context(), 7, "me"); !errors.Is(err, actions.ErrSessionConflict) {
			t.Errorf("got %v, want ErrSessionConflict", err)
		}
		if got := len(s.calls(createSessionCall)); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
	}
}

func TestSessionOfAScaleSetThatIsGone(t *testing.T) {
	s := newServer(t)
	s.on(createSessionCall, reply{
		status: 404,
		body:   exception("RunnerScaleSetNotFoundException", "No runner scale set found with identifier 7."),
	})
	if _, err := s.client().CreateSession(t.Context(), 7, "me"); !errors.Is(err, actions.ErrScaleSetNotFound) {
		t.Errorf("got %v, want ErrScaleSetNotFound", err)
	}
}

// Missing statistics must not crash the client. A missing field that a session needs is an error.
func TestIncompleteSession(t *testing.T) {
	s := newServer(t)
	s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"statistics": nil, "runnerScaleSet": nil})})
	session, err := s.client().CreateSession(t.Context(), 7, "me")
	if err != nil {
		t.Fatal(err)
	}
	if session.Statistics() != nil {
		t.Errorf("got statistics %v out of nothing", session.Statistics())
	}
	for _, missing := range []string{"sessionId", "messageQueueUrl", "messageQueueAccessToken"} {
		s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{missing: ""})})
		var broken *actions.UnexpectedResponseError
		if _, err := s.client().CreateSession(t.Context(), 7, "me"); !errors.As(err, &broken) {
			t.Errorf("without %s: got %v, want *UnexpectedResponseError", missing, err)
		}
	}
}

func TestClosingASession(t *testing.T) {
	for name, test := range map[string]struct {
		reply reply
		fails bool
	}{
		"closed": {reply{status: 204}, false},
		"expired": {
			reply{
				status: 400,
				body:   exception("RunnerScaleSetSessionExpiredException", "The session identifier s-1 is not valid."),
			},
			false,
		},
		"gone":         {reply{status: 404}, false},
		"set gone too": {reply{status: 404, body: exception("RunnerScaleSetNotFoundException", "gone")}, false},
		"refused":      {reply{status: 400, body: exception("ArgumentException", "no")}, true},
	} {
		s := newServer(t)
		session := s.session()
		s.on(deleteSessionCall, test.reply)
		if err := session.Close(t.Context()); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An ID that somebody else has written must not reach anything but a session.
func TestDeletingASessionThatCannotExist(t *testing.T) {
	s := newServer(t)
	client := s.client()
	for _, id := range []string{"", ".", "..", "a/b", "../../8", "%2e%2e", "s 1", "s?1"} {
		if err := client.DeleteSession(t.Context(), 7, id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	if len(s.requests) != 0 {
		t.Errorf("requests were sent: %+v", s.requests)
	}
}

// A 401 leads to one PATCH and one repetition; the answer replaces the whole session.
func TestRefusedQueueTokenIsRenewedOnce(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{status: 401})
	s.on("GET /moved", reply{status: 202})
	s.on(refreshSessionCall, reply{body: s.sessionBody("second-token", map[string]any{
		"messageQueueUrl": s.URL + "/moved?id=s-1&v=2", "statistics": map[string]any{"totalAssignedJobs": 9},
	})})
	message, err := session.GetMessage(t.Context(), 0, 1)
	if message != nil || err != nil {
		t.Fatalf("got %v, %v; want nil, nil", message, err)
	}
	refresh := s.only(refreshSessionCall)
	if refresh.body != "" || refresh.header.Get("Authorization") != "Bearer "+s.newest {
		t.Errorf(
			"refreshed with body %q and %q, want none and the admin token",
			refresh.body, refresh.header.Get("Authorization"),
		)
	}
	poll := s.only("GET /moved")
	if got, want := poll.header.Get("Authorization"), "Bearer second-token"; got != want {
		t.Errorf("repeated with %q, want %q", got, want)
	}
	if got := session.Statistics().TotalAssignedJobs; got != 9 {
		t.Errorf("statistics still say %d jobs, want 9", got)
	}
}

// Fields that the answer leaves out stay.
func TestRefreshThatLeavesThingsOut(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{status: 401}, reply{status: 202})
	s.on(refreshSessionCall, reply{body: `{"messageQueueAccessToken":"second-token"}`})
	if _, err := session.GetMessage(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if session.ID() != "s-1" || session.Statistics().TotalAssignedJobs != 3 {
		t.Error("the session lost what the answer left out")
	}
}

// A second 401 is an error.
func TestSecondRefusalIsAnError(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{status: 401})
	s.on(refreshSessionCall, reply{body: s.sessionBody("second-token", nil)})
	_, err := session.GetMessage(t.Context(), 0, 1)
	var failure *actions.Error
	if !errors.As(err, &failure) || !errors.Is(err, actions.ErrUnauthorized) ||
		failure.Credential != actions.CredentialQueueToken {
		t.Errorf("got %v, want a refused queue token", err)
	}
	if polls, refreshes := len(s.calls(pollCall)), len(s.calls(refreshSessionCall)); polls != 2 || refreshes != 1 {
		t.Errorf("%d polls, %d refreshes; want 2, 1", polls, refreshes)
	}
}

// A refresh that answers 404 means that the session was evicted.
func TestEvictedSession(t *testing.T) {
	evicted := map[string]func(*server){
		"401, then refresh 404": func(s *server) {
			s.on(pollCall, reply{status: 401})
			s.on(refreshSessionCall, reply{
				status: 404,
				body:   exception("RunnerAdminException", "a session ID that doesn't exist"),
			})
		},
		"400 expired": func(s *server) {
			s.on(pollCall, reply{
				status: 400,
				body:   exception("RunnerScaleSetSessionExpiredException", "The session identifier s-1 is not valid."),
			})
		},
		"404": func(s *server) { s.on(pollCall, reply{status: 404}) },
	}
	for name, evict := range evicted {
		s := newServer(t)
		session := s.session()
		evict(s)
		if _, err := session.GetMessage(t.Context(), 0, 1); !errors.Is(err, actions.ErrSessionNotFound) {
			t.Errorf("%s: got %v, want ErrSessionNotFound", name, err)
		}
	}
}

func TestConcurrentQueueCallsShareOneRefresh(t *testing.T) {
	s := newServer(t)
	session := s.session()
	tokenIs := func(token string, good reply) reply {
		return reply{do: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			good.write(w, r)
		}}
	}
	s.on(refreshSessionCall, reply{body: s.sessionBody("second-token", nil)})
	s.on("DELETE /queue/1", tokenIs("second-token", reply{status: 204}))
	s.on("POST "+scaleSetsURL+"/7/acquirejobs", tokenIs("second-token", reply{body: `{"value":[]}`}))
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if err := session.DeleteMessage(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		calls.Go(func() {
			if _, err := session.AcquireJobs(t.Context(), []int64{1}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if got := len(s.calls(refreshSessionCall)); got != 1 {
		t.Errorf("%d refreshes, want 1", got)
	}
}

func TestPollInFlightHoldsUpNothing(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{do: hang})
	s.on("DELETE /queue/1", reply{status: 204})
	s.on(deleteSessionCall, reply{status: 204})
	ctx, cancel := context.WithCancel(t.Context())
	polled := make(chan error, 1)
	go func() {
		_, err := session.GetMessage(ctx, 0, 1)
		polled <- err
	}()
	gomega.NewWithT(t).Eventually(func() int {
		return len(s.calls(pollCall))
	}).WithTimeout(busyTimeout).Should(gomega.Equal(1))
	if err := session.DeleteMessage(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-polled; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
