package actions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/github/actions"
)

// removeRunner has a client remove runner 1 twice, from a service that answers 404 without a reason: first with an
// address that GitHub has just given, then with an old one.
func removeRunner(t *testing.T, s *server) (young, old error) {
	t.Helper()
	client := s.client()
	s.on("DELETE "+runnersURL+"/1", reply{status: http.StatusNoContent}, reply{status: http.StatusNotFound})
	if err := client.RemoveRunner(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	young = client.RemoveRunner(t.Context(), 1)
	s.clock.Step(connectionTrust)
	return young, client.RemoveRunner(t.Context(), 1)
}

// A busy runner would be deleted if a 404 from the service's former address passed for "no such runner".
func TestServiceThatHasMovedIsFollowed(t *testing.T) {
	s := newServer(t)
	s.on("DELETE /elsewhere/_apis/distributedtask/pools/0/agents/1", reply{
		status: http.StatusBadRequest, body: exception("JobStillRunningException", "it has a job"),
	})
	s.on(registerCall, reply{do: s.register}, reply{do: func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"url":%q,"token":"new-secret"}`, s.URL+"/elsewhere/")
	}})
	if young, old := removeRunner(t, s); !errors.Is(young, actions.ErrRunnerNotFound) ||
		!errors.Is(old, actions.ErrJobStillRunning) {
		t.Errorf(
			"RemoveRunner() = %v with a new address, %v with an old one; want ErrRunnerNotFound and ErrJobStillRunning",
			young, old,
		)
	}
}

func TestWhatIsNotThereIsNotAskedForTwice(t *testing.T) {
	s := newServer(t)
	if young, old := removeRunner(t, s); !errors.Is(young, actions.ErrRunnerNotFound) ||
		!errors.Is(old, actions.ErrRunnerNotFound) {
		t.Errorf("RemoveRunner() = %v and %v, want ErrRunnerNotFound", young, old)
	}
	if removals, registrations := len(s.calls("DELETE "+runnersURL+"/1")),
		s.registrations(); removals != 3 || registrations != 2 {
		t.Errorf("%d removals and %d registrations, want 3 and 2", removals, registrations)
	}
}

func TestNotFoundProvesNothingWhileTheAddressIsInDoubt(t *testing.T) {
	s := newServer(t)
	s.on(registerCall, reply{do: s.register}, reply{status: http.StatusBadRequest})
	if _, old := removeRunner(t, s); old == nil || errors.Is(old, actions.ErrNotFound) {
		t.Errorf("RemoveRunner() = %v, want the failed registration", old)
	}
}

// A gateway whose GitHub is down also answers "404 Not Found". That must not be read as a runner or scale set that is
// gone, nor its 403 as a credential to be replaced.
func TestWebPagesSayNothingAboutWhatWasAskedFor(t *testing.T) {
	for status, wrong := range map[int]error{
		http.StatusNotFound: actions.ErrNotFound, http.StatusForbidden: actions.ErrUnauthorized,
	} {
		for name, page := range map[string]reply{
			"as HTML": {
				status: status,
				body:   "<h1>Not here</h1>",
				header: map[string]string{"Content-Type": "text/html; charset=utf-8"},
			},
			"as text": {
				status: status,
				body:   "\n<!DOCTYPE html><title>Not here</title>",
				header: map[string]string{"Content-Type": "text/plain"},
			},
		} {
			s := newServer(t)
			s.on("DELETE "+runnersURL+"/1", page)
			s.on(getSetCall, page)
			removal := s.client().RemoveRunner(t.Context(), 1)
			_, reading := s.client().GetRunnerScaleSetByID(t.Context(), 7)
			for _, err := range []error{removal, reading} {
				if !errors.Is(err, actions.ErrForeignAnswer) || errors.Is(err, wrong) ||
					!strings.Contains(err.Error(), "a web page is not an answer of GitHub's API") {
					t.Errorf("%s, status %d: got %v, want an error that says whose answer it may be", name, status, err)
				}
			}
		}
	}
}

// elsewhere registers clients at an address where nothing listens, with a token that lasts a day.
func (s *server) elsewhere() reply {
	s.t.Helper()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	return reply{body: jsonText(s.t, map[string]string{
		"url": gone.URL + servicePath, "token": adminToken(s.t, jwt.MapClaims{"exp": epoch.Add(24 * time.Hour).Unix()}),
	})}
}

func TestAServiceThatIsAwayIsFollowed(t *testing.T) {
	s := newServer(t)
	s.on(registerCall, s.elsewhere(), reply{do: s.register})
	s.on(getSetCall, reply{body: `{"id":7}`})
	client := s.client()
	var unreached *actions.NetworkError
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); !errors.As(err, &unreached) || s.registrations() != 1 {
		t.Errorf("with a new address: got %v and %d registrations, want *NetworkError and 1", err, s.registrations())
	}
	s.clock.Step(connectionTrust)
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil || s.registrations() != 2 {
		t.Errorf("with an old address: got %v and %d registrations, want none and 2", err, s.registrations())
	}
}

// Neither an outage of the service or of all of GitHub nor a missing permission makes each call register.
func TestADoubtfulConnectionIsReplacedOnceInAWhile(t *testing.T) {
	forbidden := reply{status: http.StatusForbidden}
	for name, test := range map[string]struct {
		service func(*server) reply // the registration that comes first
		then    func(*server) reply // to all later calls
	}{
		"service away": {(*server).elsewhere, (*server).elsewhere},
		"all away": {
			(*server).elsewhere, func(*server) reply { return reply{status: http.StatusNotImplemented} },
		},
		"forbidden": {
			func(s *server) reply { return reply{do: s.register} },
			func(s *server) reply { return reply{do: s.register} },
		},
		"forbidden, as is registering": {
			func(s *server) reply { return reply{do: s.register} },
			func(*server) reply { return reply{status: http.StatusNotImplemented} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(registerCall, test.service(s), test.then(s))
			s.on(getSetCall, forbidden)
			client := s.client()
			for want := 1; want <= 3; want++ {
				for range 3 {
					_, err := client.GetRunnerScaleSetByID(t.Context(), 7)
					var unreached *actions.NetworkError
					if away := errors.As(err, &unreached); !away && !errors.Is(err, actions.ErrUnauthorized) {
						t.Errorf("got %v, want why the call itself failed", err)
					}
				}
				if got := s.registrations(); got != want {
					t.Errorf("%d registrations, want %d", got, want)
				}
				s.clock.Step(connectionTrust)
			}
		})
	}
}

// A service may answer 403 to a token that was revoked.
func TestATokenThatIsForbiddenIsRenewed(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: http.StatusForbidden}, reply{status: http.StatusForbidden}, reply{body: `{"id":7}`})
	client := s.client()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); !errors.Is(err, actions.ErrUnauthorized) ||
		s.registrations() != 1 {
		t.Errorf("with a new token: got %v and %d registrations, want ErrUnauthorized and 1", err, s.registrations())
	}
	s.clock.Step(connectionTrust)
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil || s.registrations() != 2 {
		t.Errorf("with an old token: got %v and %d registrations, want none and 2", err, s.registrations())
	}
}

// Answers that say nothing about the connection do not replace it, however old it is.
func TestAConnectionIsNotDoubtedForNothing(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	for name, answer := range map[string]reply{
		"rate limited":       {status: http.StatusForbidden, header: map[string]string{"Retry-After": "120"}},
		"page of a firewall": {status: http.StatusForbidden, body: "<html>"},
		"caller has left":    {do: func(_ http.ResponseWriter, r *http.Request) { leave(); <-r.Context().Done() }},
	} {
		s := newServer(t)
		s.on(getSetCall, reply{body: `{"id":7}`}, answer)
		client := s.client()
		ctx := t.Context()
		if answer.do != nil {
			ctx = left
		}
		if _, err := client.GetRunnerScaleSetByID(ctx, 7); err != nil {
			t.Fatal(err)
		}
		s.clock.Step(connectionTrust)
		if _, err := client.GetRunnerScaleSetByID(ctx, 7); err == nil || s.registrations() != 1 {
			t.Errorf("%s: got %v and %d registrations, want a failure and 1", name, err, s.registrations())
		}
	}
}
