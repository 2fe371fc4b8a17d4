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
)

// apiVersion is the only version of the Actions service's interface that knows scale sets.
const apiVersion = "6.0-preview"

// serviceRequest is a call to the Actions service before address and token are known.
type serviceRequest struct {
	endpoint string
	method   string
	// path is relative to the service's address and holds no unescaped text of users.
	path  string
	query url.Values
	// body is sent as JSON unless nil.
	body any
	// scaleSetID is named in the User-Agent, 0 when the call is about none.
	scaleSetID int
}

// callService calls the Actions service with the admin token, renewing it when due and once when it is refused, and
// decodes the answer into result unless that is nil or the answer is 204.
func (c *Client) callService(ctx context.Context, r serviceRequest, result any) error {
	ctx, cancel := withTimeout(ctx, c.limits.call)
	defer cancel()
	current, err := c.currentConnection(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(r.endpoint), err)
	}
	answer, err := withRenewal(ctx, c.connection, current, CredentialAdminToken, func(admin *connection) (*response, error) {
		return c.sendToService(ctx, r, admin.serviceURL, admin.token, CredentialAdminToken)
	})
	if err != nil {
		return err
	}
	if result == nil || answer.status == http.StatusNoContent {
		return nil
	}
	return answer.decode(r.endpoint, result)
}

// sendToService makes one call with a token of the given kind.
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
		timeout:    c.limits.attempt,
		retries:    maxRetries,
	})
}

// serviceAddress joins the service's address, which has a path and may end in a slash, with a call's path and query.
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

// encode writes JSON as GitHub's own clients do: & < > as they are, a newline at the end.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return text.Bytes(), nil
}

// decode reads a success's JSON into result.
func (r *response) decode(endpoint string, result any) error {
	err := json.NewDecoder(bytes.NewReader(r.body)).Decode(result)
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
	}
	if err != nil {
		return unexpected(endpoint, fmt.Errorf("status %d: %w", r.status, err))
	}
	return nil
}
