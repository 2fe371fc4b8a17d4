package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// renewBefore is how long before its expiry a token is renewed, as in GitHub's own client. It is longer than any attempt. A token
	// with a lifetime of less than twice that is renewed after half of it; otherwise each call would renew it.
	renewBefore = time.Minute
	// unknownLifetime is the assumed lifetime of an admin token that does not state its own. GitHub.com's tokens last about an
	// hour. A wrong guess costs one renewal too many, or one 401, which also leads to a renewal.
	unknownLifetime = 5 * time.Minute
	// longestLifetime is the longest lifetime that a token is believed to have.
	longestLifetime = 24 * time.Hour
	// renewalPause is how long a token that is still valid is used after its renewal has failed. Otherwise each call of its last
	// minute would wait for a renewal of its own.
	renewalPause = 10 * time.Second
)

// connection is the address of the Actions service and the admin token for it. A renewal may change both.
type connection struct {
	serviceURL *url.URL
	token      string
	// since is when GitHub gave address and token.
	since   time.Time
	expires time.Time
}

// renewAt returns when the admin token should be renewed.
func (c *connection) renewAt() time.Time {
	return c.expires.Add(-min(renewBefore, c.expires.Sub(c.since)/2))
}

// currentConnection returns a connection whose token is good for another minute, or for half of its lifetime. If the renewal fails,
// it returns the present connection until its token expires.
func (s *Service) currentConnection(ctx context.Context) (*connection, error) {
	current, now := s.connection.Get(), s.Clock.Now()
	switch {
	case current == nil || !now.Before(current.expires):
		return s.connection.Replace(ctx, current)
	case !now.After(current.renewAt()) || now.UnixNano() < s.renewFrom.Load():
		return current, nil
	}
	// The wait for a renewal that hangs leaves half of the call's time for the call itself. The renewal goes on for others.
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
	if next := now.Add(renewalPause).UnixNano(); s.renewFrom.Swap(next) < now.UnixNano() {
		s.Logger.Info("The admin token could not be renewed, using it until it expires", "expires", current.expires, "cause", err.Error())
	}
	return current, nil
}

// connectUnlessLimited returns the function that walks the chain of credentials, except while GitHub is rate limiting us:
// otherwise every runner's call would try again, and GitHub extends the limit of clients that do. The function's state
// needs no lock because it never runs twice at a time.
func (s *Service) connectUnlessLimited() func(context.Context, *connection) (*connection, error) {
	var failed error
	return func(ctx context.Context, _ *connection) (*connection, error) {
		if now := s.Clock.Now(); failure.RetryAt(failed, now).After(now) {
			return nil, failed
		}
		var fresh *connection
		if fresh, failed = s.connect(ctx); failed != nil {
			s.reconnectFrom.Store(s.Clock.Now().Add(connectionTrust).UnixNano())
		}
		return fresh, failed
	}
}

// connect walks the chain of credentials once. The registration token lasts an hour but is not kept: it is needed only to
// renew the admin token, which lasts as long.
func (s *Service) connect(ctx context.Context) (*connection, error) {
	token, kind, err := s.RESTCredential(ctx)
	if err != nil {
		return nil, err
	}
	registration, err := s.createToken(ctx, exchange.Request{
		Endpoint:   failure.EndpointRegistrationToken,
		URL:        s.Config.RunnersURL().JoinPath("registration-token"),
		Header:     restHeader("Bearer "+token, "application/vnd.github.v3+json"),
		Credential: kind,
	})
	if err != nil {
		return nil, err
	}
	fresh, err := s.register(ctx, registration)
	if err != nil {
		return nil, err
	}
	s.Logger.Info("Connected to the Actions service", "configURL", s.Config.String(), "service", fresh.serviceURL.Host, "expires", fresh.expires)
	return fresh, nil
}

// RESTCredential returns the bearer token for GitHub's REST API, and which kind of credential it is.
func (s *Service) RESTCredential(ctx context.Context) (token, kind string, err error) {
	if !s.source.IsApp() {
		return s.source.Token, credential.PersonalAccessToken, nil
	}
	appToken, err := s.source.AppToken(s.Clock.Now())
	if err != nil {
		return "", "", err
	}
	token, err = s.createToken(ctx, exchange.Request{
		Endpoint:   failure.EndpointInstallationToken,
		URL:        s.Config.RESTURL("app", "installations", strconv.FormatInt(s.source.InstallationID, 10), "access_tokens"),
		Header:     restHeader("Bearer "+appToken, "application/vnd.github+json"),
		Credential: credential.App,
	})
	return token, credential.InstallationToken, err
}

func (s *Service) createToken(ctx context.Context, r exchange.Request) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	if _, err := s.post(ctx, r, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", failure.Unexpected(r.Endpoint, errors.New("the answer has no token"))
	}
	return answer.Token, nil
}

// register exchanges a registration token for the address of the Actions service and an admin token. GitHub's replicas do not
// all know a new registration token at once, so 401 and 403 are worth repeating here, as GitHub's own clients do.
func (s *Service) register(ctx context.Context, registrationToken string) (*connection, error) {
	var answer struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	address := s.Config.RESTURL("actions", "runner-registration")
	given, err := s.post(ctx, exchange.Request{
		Endpoint: failure.EndpointRegister,
		URL:      address,
		Header:   restHeader("RemoteAuth "+registrationToken, "application/json"),
		Body: struct {
			URL         string `json:"url"`
			RunnerEvent string `json:"runner_event"`
		}{s.Config.String(), "register"},
		Credential:          credential.RegistrationToken,
		RepeatWhenForbidden: true,
	}, &answer)
	if err != nil {
		return nil, err
	}
	service, err := url.Parse(answer.URL)
	if err != nil || service.Host == "" {
		return nil, failure.Unexpected(failure.EndpointRegister, errors.New("the answer has no valid url"))
	}
	if answer.Token == "" {
		return nil, failure.Unexpected(failure.EndpointRegister, errors.New("the answer has no token"))
	}
	if err := s.Addresses.Accept(failure.EndpointRegister, address, service); err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	return &connection{serviceURL: service, token: answer.Token, since: now, expires: expiry(answer.Token, given.Header, now)}, nil
}

// post sends a POST to GitHub's REST API and decodes the answer, of which only status and header may be used afterwards.
func (s *Service) post(ctx context.Context, r exchange.Request, result any) (*exchange.Response, error) {
	r.Method = http.MethodPost
	answer, err := s.Do(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Config, err)
	}
	defer answer.Free()
	return answer, answer.Decode(result)
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

// expiry returns when a token expires that came in an answer with this header. It does not verify the token; that is up to GitHub.
// A token that is not a JWT or has no expiry gets unknownLifetime.
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
