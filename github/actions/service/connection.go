package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// maxAddressBytes bounds the service's address, which is kept. GitHub's has about 100 bytes.
	maxAddressBytes = 8 << 10
	// A token that is still valid is used for renewalBackoff after its renewal has failed. Otherwise each call of its
	// last minute would wait for a renewal of its own.
	renewalBackoff = 10 * time.Second
)

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
