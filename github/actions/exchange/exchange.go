// Package exchange makes one request to GitHub and reads its answer: over proxies, to addresses that a check allows,
// within a budget of memory and a deadline, and again after failures that pass. It leaves the meaning of a failed
// answer to package failure, and the renewal of a refused token to package service.
package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// New returns a caller.
func New(config *configurl.URL, options Options) *Caller {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	made := &Caller{
		Options: options, Config: config, transport: NewTransport(options),
		Deadlines: Deadlines{Call: CallTimeout, Attempt: AttemptTimeout, Poll: PollTimeout},
	}
	made.closed, made.close = context.WithCancel(context.Background())
	return made
}

// errClosed ends the calls of a caller that was closed.
var errClosed = errors.New("the connection's settings were changed again, and the call was ended: it is repeated with " +
	"the present ones")

// Close ends the calls that are under way, and all later ones, and closes the connections.
func (c *Caller) Close() {
	c.close()
	c.CloseIdleConnections()
}

// Do makes a request, and repeats it as long as that may help and the context has time. It returns an answer with a 2xx
// status, which the caller must free, or fails with *failure.Error, *failure.RateLimitedError or *failure.NetworkError.
func (c *Caller) Do(ctx context.Context, r Request) (*Response, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.closed, func() { end(errClosed) })()
	a := &attempts{caller: c, request: r, reading: reading{
		endpoint: r.Endpoint, polls: r.Poll, budget: c.Budget, memory: reservation{owner: c.budgetOwner()},
	}}
	proxy, _ := c.transport.proxy(&http.Request{URL: r.URL}) // the request itself fails if there is an error
	a.secrets = failure.Secrets(r.Header.Get("Authorization"), proxy)
	var body any
	if r.Body != nil {
		text, err := encode(r.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", failure.Words(r.Endpoint), err)
		}
		body = text
	}
	outgoing, err := retryablehttp.NewRequestWithContext(ctx, r.Method, r.URL.String(), body)
	if err != nil {
		return nil, a.networkError(err)
	}
	maps.Copy(outgoing.Header, r.Header)
	outgoing.Header.Set("User-Agent", c.UserAgent.header(r.ScaleSetID))
	_, err = a.layer().Do(outgoing) //nolint:bodyclose // bodies are in memory, there is nothing to close
	if err == nil && a.last.StatusCode/100 == 2 {
		return a.last, nil
	}
	defer a.free()
	if err != nil {
		return nil, a.networkError(err)
	}
	return nil, a.answer().Failure(c.Clock.Now())
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

// RoundTrip makes one attempt, and reports it.
func (a *attempts) RoundTrip(outgoing *http.Request) (*http.Response, error) {
	start := a.caller.Clock.Now()
	answer, err := a.roundTrip(outgoing)
	info := infoOf(a.request.Endpoint, a.caller.Clock.Since(start), answer, err)
	if a.caller.OnRequest != nil {
		a.caller.OnRequest(info)
	}
	if info.StatusCode/100 == 2 {
		a.log(outgoing.Context(), answer).Info(
			"GitHub answered", "status", info.StatusCode, "seconds", info.Duration.Seconds(),
		)
	}
	return answer, err
}

// roundTrip makes one attempt.
func (a *attempts) roundTrip(outgoing *http.Request) (*http.Response, error) {
	limit := a.caller.Deadlines.Attempt
	if a.request.Poll {
		limit = a.caller.Deadlines.Poll
	}
	ctx, cancel := failure.WithTimeout(outgoing.Context(), limit)
	defer cancel()
	answer, err := a.caller.transport.RoundTrip(outgoing.WithContext(ctx))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer answer.Body.Close()
	response, err := a.read(ctx, answer)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	a.last = response
	answer.Body = io.NopCloser(bytes.NewReader(a.last.Body))
	return answer, nil
}

// causeOf returns the reason why ctx ended if it has, in place of the transport's own description.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// budgetOwner returns whose share of the budget the caller uses.
func (c *Caller) budgetOwner() any {
	if c.Owner == "" {
		return c
	}
	return c.Owner
}
