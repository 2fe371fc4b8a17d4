package actions

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

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
	var unreached *NetworkError
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
		"service away":                 {(*server).elsewhere, (*server).elsewhere},
		"all away":                     {(*server).elsewhere, func(*server) reply { return reply{status: http.StatusNotImplemented} }},
		"forbidden":                    {func(s *server) reply { return reply{do: s.register} }, func(s *server) reply { return reply{do: s.register} }},
		"forbidden, as is registering": {func(s *server) reply { return reply{do: s.register} }, func(*server) reply { return reply{status: http.StatusNotImplemented} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(registerCall, test.service(s), test.then(s))
			s.on(getSetCall, forbidden)
			client := s.client()
			for want := 1; want <= 3; want++ {
				for range 3 {
					_, err := client.GetRunnerScaleSetByID(t.Context(), 7)
					var unreached *NetworkError
					if away := errors.As(err, &unreached); !away && !errors.Is(err, ErrUnauthorized) {
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
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); !errors.Is(err, ErrUnauthorized) || s.registrations() != 1 {
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
