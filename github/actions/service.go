package actions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// apiVersion is the version of the Actions service's API that GitHub's own clients ask for.
const apiVersion = "6.0-preview"

// serviceRequest is a call to the Actions service whose address and token are not known yet.
type serviceRequest struct {
	endpoint string
	method   string
	// path is relative to the service's address and has no unescaped text of users.
	path  string
	query url.Values
	// body is sent as JSON unless it is nil.
	body any
	// scaleSetID goes into the User-Agent. It is 0 if the call is not about a scale set.
	scaleSetID int
}

// callService calls the Actions service with the admin token and decodes the answer into result, unless it is 204. If result is
// nil, the answer only has to be GitHub's own. The token is renewed when due, and once if it is refused. If the service has moved,
// or refuses the token with 403, the client may register again; see isOutdated.
func (c *Client) callService(ctx context.Context, r serviceRequest, result any) error {
	ctx, cancel := withTimeout(ctx, c.deadlines.call)
	defer cancel()
	used, err := c.currentConnection(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(r.endpoint), err)
	}
	call := func(admin *connection) (*response, error) {
		used = admin
		return c.sendToService(ctx, r, admin.serviceURL, admin.token, CredentialAdminToken)
	}
	answer, err := withRenewal(ctx, c.connection, used, CredentialAdminToken, call)
	if c.isOutdated(used, r.endpoint, err) {
		answer, err = c.reconnect(ctx, used, err, call)
	}
	if err != nil {
		return err
	}
	defer answer.free()
	switch {
	case result == nil:
		return answer.acknowledge(r.endpoint)
	case answer.status == http.StatusNoContent:
		return nil
	}
	return answer.decode(r.endpoint, result)
}

// connectionTrust is how long a connection is trusted after GitHub has given it. In that time, a service that is down, a missing
// permission, or things that don't exist, such as runners that GitHub itself has removed, cause at most one registration.
const connectionTrust = 5 * time.Minute

// isOutdated reports whether a call may have failed because the connection is outdated: the service has left its address, or the
// admin token was revoked.
func (c *Client) isOutdated(used *connection, endpoint string, err error) bool {
	now := c.clock.Now()
	if now.Sub(used.since) < connectionTrust {
		return false
	}
	mayAsk := now.UnixNano() >= c.reconnectFrom.Load()
	if unreached, ok := errors.AsType[*NetworkError](err); ok { // and the caller has not given up
		return mayAsk && unreached.Endpoint == endpoint && unreached.LastAnswer == nil && !errors.Is(err, context.Canceled)
	}
	answer, ok := errors.AsType[*Error](err)
	switch {
	case !ok || answer.Credential != CredentialAdminToken:
		return false
	case answer.StatusCode == http.StatusNotFound:
		// It may come from somebody else at the old address. Believing it would mean that a runner is gone, and so idle. So GitHub
		// is asked each time until it answers.
		return answer.TypeName == ""
	}
	return mayAsk && answer.StatusCode == http.StatusForbidden && errors.Is(answer, ErrUnauthorized)
}

// reconnect registers again. It repeats the call if the service has moved or the token was refused; otherwise it returns failure.
func (c *Client) reconnect(ctx context.Context, used *connection, failure error, call func(*connection) (*response, error)) (*response, error) {
	current, err := c.connection.replace(ctx, used)
	switch {
	case err != nil && errors.Is(failure, ErrNotFound):
		return nil, fmt.Errorf("ask whether the Actions service has moved: %w", err)
	case err != nil:
		c.log.V(1).Info("The connection to the Actions service may be outdated and could not be renewed", "cause", err.Error())
		return nil, failure
	case current.serviceURL.String() == used.serviceURL.String() && !errors.Is(failure, ErrUnauthorized):
		return nil, failure
	}
	answer, err := call(current)
	return answer, noteRenewal(err, CredentialAdminToken)
}

// sendToService makes one call with a token, which is of the given kind, one of the Credential… constants.
func (c *Client) sendToService(ctx context.Context, r serviceRequest, service *url.URL, token, kind string) (*response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = encode(r.body); err != nil {
			return nil, fmt.Errorf("%s: %w", describe(r.endpoint), err)
		}
	}
	return c.exchange(ctx, request{
		endpoint: r.endpoint,
		method:   r.method,
		url:      serviceAddress(service, r.path, r.query),
		header: http.Header{
			"Authorization": {"Bearer " + token},
			"Content-Type":  {"application/json"},
			"User-Agent":    {c.userAgent.header(r.scaleSetID)},
		},
		body:       body,
		credential: kind,
		timeout:    c.deadlines.attempt,
		retries:    maxRetries,
	})
}

// serviceAddress adds a call's path and query to the service's address, which has a path of its own and may end in a slash.
func serviceAddress(service *url.URL, path string, query url.Values) *url.URL {
	address := service.JoinPath(path)
	all := address.Query()
	for key, values := range query {
		all[key] = values
	}
	if !all.Has("api-version") {
		all.Set("api-version", apiVersion)
	}
	address.RawQuery = all.Encode()
	return address
}

// encode encodes JSON as GitHub's own clients do: without escaping & < >, and with a newline at the end.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return text.Bytes(), nil
}

// acknowledge fails if a success is a page that a proxy or gateway shows in GitHub's place, with status 200: that must not pass
// for, say, a deletion. GitHub answers 204 if there is no result; a server that says "ok" is believed.
func (r *response) acknowledge(endpoint string) error {
	if r.hasMarkup() {
		return unexpected(endpoint, &webPageError{r.status})
	}
	return nil
}

// decode decodes the JSON of a success into result.
func (r *response) decode(endpoint string, result any) error {
	if err := r.acknowledge(endpoint); err != nil {
		return err
	}
	err := json.NewDecoder(bytes.NewReader(r.body)).Decode(result)
	if _, noJSON := errors.AsType[*json.SyntaxError](err); noJSON {
		err = fmt.Errorf("it is not JSON (its type: %s)", r.mediaType())
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
	}
	if err != nil {
		return unexpected(endpoint, fmt.Errorf("status %d: %w", r.status, &shortError{err}))
	}
	return nil
}
