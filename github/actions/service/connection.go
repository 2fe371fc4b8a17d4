package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// A token is renewed at renewBefore before its expiry at the latest, as in GitHub's own client. That is longer than
	// any attempt. A token with a lifetime of less than twice that is renewed after half of it; otherwise each call
	// would renew it.
	renewBefore = time.Minute
	// renewSpread is the part of its lifetime by which a token is renewed earlier than that, at most. Processes that
	// got their tokens in the same minute, as 200 listeners do after an upgrade, renew them within six minutes of an
	// hour. A renewal takes two or three calls, which GitHub counts as five points each, of 900 a minute.
	renewSpread = 10
	// unknownLifetime is the assumed lifetime of an admin token that does not state its own. GitHub.com's tokens last
	// about an hour. A wrong guess costs one renewal too many, or one 401, which also leads to a renewal.
	unknownLifetime = 5 * time.Minute
	// maxAddressBytes bounds the service's address, which is kept. GitHub's has about 100 bytes.
	maxAddressBytes = 8 << 10
	// longestLifetime is the longest lifetime that a token is believed to have.
	longestLifetime = 24 * time.Hour
	// A token that is still valid is used for renewalBackoff after its renewal has failed. Otherwise each call of its
	// last minute would wait for a renewal of its own.
	renewalBackoff = 10 * time.Second
)

// connection is the address of the Actions service and the admin token for it. A renewal may change both.
type connection struct {
	serviceURL *url.URL
	token      string
	lifetime
}

// lifetime has the times at which a token was given, should be renewed, and ends.
type lifetime struct{ since, renewAt, expires time.Time }

// lifetimeOf returns the lifetime of a token that is given now.
func lifetimeOf(now, expires time.Time) lifetime {
	length := max(0, expires.Sub(now))
	early := renewBefore + rand.N(length/renewSpread+1) //nolint:gosec // when a token is renewed is no secret
	return lifetime{since: now, renewAt: expires.Add(-min(early, length/2)), expires: expires}
}

// currentConnection returns a connection whose token is good for another minute, or for half of its lifetime. If the
// renewal fails, it returns the present connection until its token expires.
func (s *Service) currentConnection(ctx context.Context) (*connection, error) {
	current, now := s.connection.Get(), s.Clock.Now()
	switch {
	case current == nil || !now.Before(current.expires):
		return s.connection.Replace(ctx, current)
	case !now.After(current.renewAt) || now.UnixNano() < s.renewFrom.Load():
		return current, nil
	}
	// The wait for a renewal that hangs leaves half of the call's time for the call itself. The renewal goes on for
	// others.
	limit := s.Deadlines.Call
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	wait, cancel := failure.WithTimeout(ctx, limit/2)
	defer cancel()
	fresh, err := s.connection.Replace(wait, current)
	if now = s.Clock.Now(); err == nil || ctx.Err() != nil || !now.Before(current.expires) {
		return fresh, err
	}
	if next := now.Add(renewalBackoff).UnixNano(); s.renewFrom.Swap(next) < now.UnixNano() {
		s.Logger.Info(
			"The admin token could not be renewed, using it until it expires",
			"expires", current.expires, "cause", err.Error(),
		)
	}
	return current, nil
}

// connect walks the whole chain of credentials. The registration token lasts an hour but is not kept: it is needed only
// to renew the admin token, which lasts as long.
func (s *Service) connect(ctx context.Context, _ *connection) (fresh *connection, err error) {
	defer func() {
		if err != nil {
			s.reconnectFrom.Store(s.Clock.Now().Add(connectionTrust).UnixNano())
		}
	}()
	answer, err := s.CallREST(ctx, exchange.Request{
		Endpoint: failure.EndpointRegistrationToken,
		Method:   http.MethodPost,
		URL:      s.Config.RunnersURL().JoinPath("registration-token"),
		Header:   http.Header{"Content-Type": {"application/vnd.github.v3+json"}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Config, err)
	}
	defer answer.Free()
	registration, err := decodeToken(answer, failure.EndpointRegistrationToken)
	if err != nil {
		return nil, err
	}
	fresh, err = s.register(ctx, registration.Token)
	if err != nil {
		return nil, err
	}
	s.Logger.Info(
		"Connected to the Actions service", "configURL", s.Config.String(), "service",
		failure.Quote(fresh.serviceURL.Host),
		"expires", fresh.expires,
	)
	return fresh, nil
}

// register exchanges a registration token for the address of the Actions service and an admin token. GitHub's replicas
// do not all know a new registration token immediately, so 401 and 403 are worth repeating here, as GitHub's own
// clients do.
func (s *Service) register(ctx context.Context, registrationToken string) (*connection, error) {
	var answer struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	address := s.Config.RESTURL("actions", "runner-registration")
	given, err := s.Do(ctx, exchange.Request{
		Endpoint: failure.EndpointRegister,
		Method:   http.MethodPost,
		URL:      address,
		Header:   restHeader("RemoteAuth "+registrationToken, "application/json"),
		Body: struct {
			URL         string `json:"url"`
			RunnerEvent string `json:"runner_event"`
		}{s.Config.String(), "register"},
		Credential:          credential.RegistrationToken,
		RepeatWhenForbidden: true,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Config, err)
	}
	defer given.Free()
	if err := given.Decode(&answer); err != nil {
		return nil, err
	}
	service, err := url.Parse(answer.URL)
	if err != nil || service.Host == "" || len(answer.URL) > maxAddressBytes {
		return nil, failure.Unexpected(failure.EndpointRegister, errors.New("the answer has no valid url"))
	}
	if err := CheckToken(failure.EndpointRegister, answer.Token); err != nil {
		return nil, err
	}
	if err := s.Addresses.Accept(failure.EndpointRegister, address, service, registrationToken); err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	return &connection{
		serviceURL: service,
		token:      answer.Token,
		lifetime:   lifetimeOf(now, expiry(answer.Token, given.Header, now)),
	}, nil
}

func restHeader(authorization, contentType string) http.Header {
	return http.Header{"Authorization": {authorization}, "Content-Type": {contentType}}
}

// expiryClaim has no other claim, because one of an unexpected type would hide this one.
type expiryClaim struct {
	ExpiresAt *jwt.NumericDate `json:"exp"`
}

// Valid implements jwt.Claims.
func (expiryClaim) Valid() error { return nil }

// expiry returns the time at which a token expires that came in an answer with this header. It does not verify the
// token; that is up to GitHub. A token that is not a JWT or has no expiry gets unknownLifetime.
func expiry(token string, header http.Header, now time.Time) time.Time {
	var claims expiryClaim
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil {
		return now.Add(unknownLifetime)
	}
	ends := failure.OnOurClock(claims.ExpiresAt.Time, header, now)
	if latest := now.Add(longestLifetime); ends.After(latest) {
		return latest
	}
	return ends
}
