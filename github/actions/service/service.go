// Package service calls the Actions service. It walks the chain of credentials: a personal access token or a GitHub App
// yields a registration token, that one the service's address and an admin token. It renews them when due or refused,
// one time for all callers, and asks for the address again if the service seems to have left it. Its callers know the
// calls and their results.
package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// APIVersion is the version of the Actions service's API that GitHub's own clients ask for.
const APIVersion = "6.0-preview"

// New returns the service for a config URL. It does not talk to GitHub yet.
func New(config *configurl.URL, source *credential.Source, options exchange.Options) *Service {
	s := &Service{Caller: exchange.New(config, options), source: source}
	s.connection = &Shared[connection]{Fetch: unlessLimited(s.Clock, s.connect), Limit: s.Deadlines.Call}
	s.installation = &Shared[installationToken]{
		Fetch: unlessLimited(s.Clock, s.createInstallationToken),
		Limit: s.Deadlines.Call,
	}
	return s
}

// Request is a call to the Actions service, whose address and token are not known yet.
type Request struct {
	// Endpoint is one of the Endpoint… constants of package failure.
	Endpoint string
	Method   string
	// Path is relative to the service's address and has no unescaped text of users.
	Path  string
	Query url.Values
	// Body is sent as JSON unless it is nil.
	Body any
	// ScaleSetID is the scale set that the call is about, 0 if there is none.
	ScaleSetID int
}

// Call calls the Actions service with the admin token and decodes the answer into result, unless it is 204. If result
// is nil, the answer only has to be GitHub's own. The token is renewed when due, and a single time if it is refused. If
// the service has moved, or refuses the token with 403, the service may register again; see isOutdated. It fails with
// the errors of package failure.
func (s *Service) Call(ctx context.Context, r Request, result any) error {
	ctx, cancel := failure.WithTimeout(ctx, s.Deadlines.Call)
	defer cancel()
	used, err := s.currentConnection(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", failure.Words(r.Endpoint), err)
	}
	call := func(admin *connection) (*exchange.Response, error) {
		used = admin
		return s.send(ctx, r, admin.serviceURL, admin.token, credential.AdminToken)
	}
	answer, err := WithRenewal(ctx, s.connection, used, credential.AdminToken, call)
	if s.isOutdated(used, r.Endpoint, err) {
		answer, err = s.reconnect(ctx, used, err, call)
	}
	if err != nil {
		return err
	}
	defer answer.Free()
	switch {
	case result == nil:
		return answer.Acknowledge()
	case answer.StatusCode == http.StatusNoContent:
		return nil
	}
	return answer.Decode(result)
}

// SendWith makes one call with a token of the caller, which is of the given kind. The answer must be freed.
func (s *Service) SendWith(ctx context.Context, r Request, token, kind string) (*exchange.Response, error) {
	// The service's address comes with the admin token.
	connection, err := s.currentConnection(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", failure.Words(r.Endpoint), err)
	}
	return s.send(ctx, r, connection.serviceURL, token, kind)
}

func (s *Service) send(
	ctx context.Context, r Request, service *url.URL, token, kind string,
) (*exchange.Response, error) {
	return s.Do(ctx, exchange.Request{
		Endpoint:   r.Endpoint,
		Method:     r.Method,
		URL:        addressOf(service, r.Path, r.Query),
		Header:     http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}},
		Body:       r.Body,
		Credential: kind,
		ScaleSetID: r.ScaleSetID,
	})
}

// addressOf adds a call's path and query to the service's address, which has a path of its own and may end in a slash.
func addressOf(service *url.URL, path string, query url.Values) *url.URL {
	address := service.JoinPath(path)
	all := address.Query()
	for key, values := range query {
		all[key] = values
	}
	if !all.Has("api-version") {
		all.Set("api-version", APIVersion)
	}
	address.RawQuery = all.Encode()
	return address
}

// AcceptNamed checks an address that an answer of the service names for later requests. It fails with
// *failure.UnexpectedResponseError.
func (s *Service) AcceptNamed(endpoint string, named *url.URL) error {
	if current := s.connection.Get(); current != nil {
		return s.Addresses.Accept(endpoint, current.serviceURL, named, current.token)
	}
	return nil
}

// isOutdated reports whether a call may have failed because the connection is outdated: the service has left its
// address, or the admin token was revoked.
func (s *Service) isOutdated(used *connection, endpoint string, err error) bool {
	now := s.Clock.Now()
	if now.Sub(used.since) < connectionTrust {
		return false
	}
	mayAsk := now.UnixNano() >= s.reconnectFrom.Load()
	if unreached, ok := errors.AsType[*failure.NetworkError](err); ok { // and the caller has not given up
		return mayAsk && unreached.Endpoint == endpoint && unreached.LastAnswer == nil &&
			!errors.Is(err, context.Canceled)
	}
	answer, ok := errors.AsType[*failure.Error](err)
	switch {
	case !ok || answer.Credential != credential.AdminToken:
		return false
	case answer.StatusCode == http.StatusNotFound:
		// It may come from somebody else at the old address. Believing it would mean that a runner is gone, and so
		// idle. So GitHub is asked each time until it answers.
		return answer.TypeName == ""
	}
	return mayAsk && answer.StatusCode == http.StatusForbidden && errors.Is(answer, failure.ErrUnauthorized)
}

// reconnect registers again. It repeats the call if the service has moved or the token was refused; otherwise it
// returns failed.
func (s *Service) reconnect(
	ctx context.Context, used *connection, failed error, call func(*connection) (*exchange.Response, error),
) (*exchange.Response, error) {
	current, err := s.connection.Replace(ctx, used)
	switch {
	case err != nil && errors.Is(failed, failure.ErrNotFound):
		return nil, fmt.Errorf("ask whether the Actions service has moved: %w", err)
	case err != nil:
		s.Logger.V(1).Info(
			"The connection to the Actions service may be outdated and could not be renewed",
			"cause", err.Error(),
		)
		return nil, failed
	case current.serviceURL.String() == used.serviceURL.String() && !errors.Is(failed, failure.ErrUnauthorized):
		return nil, failed
	}
	answer, err := call(current)
	return answer, failure.MarkRenewal(err, credential.AdminToken)
}
