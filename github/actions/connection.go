package actions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v4"
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
func (c *Client) currentConnection(ctx context.Context) (*connection, error) {
	current, now := c.connection.get(), c.clock.Now()
	switch {
	case current == nil || !now.Before(current.expires):
		return c.connection.replace(ctx, current)
	case !now.After(current.renewAt()) || now.UnixNano() < c.renewFrom.Load():
		return current, nil
	}
	// The wait for a renewal that hangs leaves half of the call's time for the call itself. The renewal goes on for others.
	limit := c.deadlines.call
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	wait, cancel := withTimeout(ctx, limit/2)
	defer cancel()
	fresh, err := c.connection.replace(wait, current)
	if now = c.clock.Now(); err == nil || ctx.Err() != nil || !now.Before(current.expires) {
		return fresh, err
	}
	if next := now.Add(renewalPause).UnixNano(); c.renewFrom.Swap(next) < now.UnixNano() {
		c.log.Info("The admin token could not be renewed, using it until it expires", "expires", current.expires, "cause", err.Error())
	}
	return current, nil
}

// connectUnlessLimited returns the function that walks the chain of credentials, except while GitHub is rate limiting us:
// otherwise every runner's call would try again, and GitHub extends the limit of clients that do. The function's state
// needs no lock because it never runs twice at a time.
func (c *Client) connectUnlessLimited() func(context.Context, *connection) (*connection, error) {
	var failure error
	return func(ctx context.Context, _ *connection) (*connection, error) {
		if now := c.clock.Now(); RetryAt(failure, now).After(now) {
			return nil, failure
		}
		var fresh *connection
		if fresh, failure = c.connect(ctx); failure != nil {
			c.reconnectFrom.Store(c.clock.Now().Add(connectionTrust).UnixNano())
		}
		return fresh, failure
	}
}

// connect walks the chain of credentials once. The registration token lasts an hour but is not kept: it is needed only to
// renew the admin token, which lasts as long.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	token, kind, err := c.restCredential(ctx)
	if err != nil {
		return nil, err
	}
	registration, err := c.createRegistrationToken(ctx, token, kind)
	if err != nil {
		return nil, err
	}
	fresh, err := c.register(ctx, registration)
	if err != nil {
		return nil, err
	}
	c.log.Info("Connected to the Actions service", "configURL", c.config.String(), "service", fresh.serviceURL.Host, "expires", fresh.expires)
	return fresh, nil
}

// tokenAnswer is the REST API's answer to a request for a token.
type tokenAnswer struct {
	Token string `json:"token"`
}

// restCredential returns the bearer token for GitHub's REST API, and which credential it is.
func (c *Client) restCredential(ctx context.Context) (token, kind string, err error) {
	if !c.source.isApp() {
		return c.source.token, CredentialPersonalAccessToken, nil
	}
	appToken, err := c.source.appToken(c.clock.Now())
	if err != nil {
		return "", "", err
	}
	token, err = c.createToken(ctx, request{
		endpoint:   EndpointInstallationToken,
		url:        c.config.restURL("app", "installations", strconv.FormatInt(c.source.installationID, 10), "access_tokens"),
		header:     c.restHeader("Bearer "+appToken, "application/vnd.github+json"),
		credential: CredentialApp,
	})
	return token, CredentialInstallationToken, err
}

func (c *Client) createRegistrationToken(ctx context.Context, token, kind string) (string, error) {
	return c.createToken(ctx, request{
		endpoint:   EndpointRegistrationToken,
		url:        c.config.registrationTokenURL(),
		header:     c.restHeader("Bearer "+token, "application/vnd.github.v3+json"),
		credential: kind,
	})
}

func (c *Client) createToken(ctx context.Context, r request) (string, error) {
	var answer tokenAnswer
	if _, err := c.callREST(ctx, r, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", unexpected(r.endpoint, errors.New("the answer has no token"))
	}
	return answer.Token, nil
}

// register exchanges a registration token for the address of the Actions service and an admin token. GitHub's replicas do not
// all know a new registration token at once, so 401 and 403 are worth repeating here, as GitHub's own clients do.
func (c *Client) register(ctx context.Context, registrationToken string) (*connection, error) {
	body, err := encode(struct {
		URL         string `json:"url"`
		RunnerEvent string `json:"runner_event"`
	}{c.config.String(), "register"})
	if err != nil {
		return nil, err
	}
	var answer struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	address := c.config.restURL("actions", "runner-registration")
	given, err := c.callREST(ctx, request{
		endpoint:            EndpointRegister,
		url:                 address,
		header:              c.restHeader("RemoteAuth "+registrationToken, "application/json"),
		body:                body,
		credential:          CredentialRegistrationToken,
		repeatWhenForbidden: true,
	}, &answer)
	if err != nil {
		return nil, err
	}
	service, err := url.Parse(answer.URL)
	if err != nil || service.Host == "" {
		return nil, unexpected(EndpointRegister, errors.New("the answer has no valid url"))
	}
	if answer.Token == "" {
		return nil, unexpected(EndpointRegister, errors.New("the answer has no token"))
	}
	if err := c.accept(EndpointRegister, address, service); err != nil {
		return nil, err
	}
	now := c.clock.Now()
	return &connection{serviceURL: service, token: answer.Token, since: now, expires: expiry(answer.Token, given.header, now)}, nil
}

// callREST sends a POST to GitHub's REST API and decodes the answer, of which only status and header may be used afterwards.
func (c *Client) callREST(ctx context.Context, r request, result any) (*response, error) {
	r.method, r.timeout, r.retries = http.MethodPost, c.deadlines.attempt, maxRetries
	answer, err := c.exchange(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.config, err)
	}
	defer answer.free()
	return answer, answer.decode(r.endpoint, result)
}

func (c *Client) restHeader(authorization, contentType string) http.Header {
	return http.Header{
		"Authorization": {authorization},
		"Content-Type":  {contentType},
		"User-Agent":    {c.userAgent.header(0)},
	}
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
	ends := onOurClock(claims.ExpiresAt.Time, header, now)
	if latest := now.Add(longestLifetime); ends.After(latest) {
		return latest
	}
	return ends
}
