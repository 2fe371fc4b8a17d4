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
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-retryablehttp"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// Caller makes requests. It is safe for concurrent use.
type Caller struct {
	// Options are those that were given, with a clock.
	Options
	// Config is the address at which the caller registers runners.
	Config *configurl.URL
	// Deadlines are the package's constants, unless a test shortens them before the first request.
	Deadlines Deadlines

	transport *Transport
	// closed ends with the caller.
	closed context.Context
	close  context.CancelFunc
}

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

// owner returns whose share of the budget the caller uses.
func (c *Caller) owner() any {
	if c.Owner == "" {
		return c
	}
	return c.Owner
}

// errClosed ends the calls of a caller that was closed.
var errClosed = errors.New("the connection's settings were changed again, and the call was ended: it is repeated with " +
	"the present ones")

// Close ends the calls that are under way, and all later ones, and closes the connections.
func (c *Caller) Close() {
	c.close()
	c.CloseIdleConnections()
}

// CloseIdleConnections closes the connections that no request is using. Call it when the caller is replaced.
func (c *Caller) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Request is a question to GitHub.
type Request struct {
	// Endpoint is one of the Endpoint… constants of package failure.
	Endpoint string
	Method   string
	URL      *url.URL
	// Header has no User-Agent, which Do sets.
	Header http.Header
	// Body is sent as JSON unless it is nil.
	Body any
	// Credential is the kind of credential in the header Authorization, one of the constants of package credential.
	Credential string
	// ScaleSetID is the scale set that the request is about, 0 if there is none.
	ScaleSetID int
	// Poll is set if the server may hold the request until it has something to say. It then has the longer deadline of
	// polls, may be answered with a message, and is not repeated.
	Poll bool
	// Once is set if the request must not be carried out twice: it is only repeated after an answer which says that it
	// was not carried out.
	Once bool
	// RepeatWhenForbidden makes 401 and 403 worth repeating.
	RepeatWhenForbidden bool
}

// attempts are one request with its repetitions. They are the transport below the retry layer: there they read each
// answer within the attempt's deadline, so that a truncated body is repeated like any network error, and keep the last
// answer, which the retry layer would lose.
type attempts struct {
	caller  *Caller
	request Request
	attempt int
	pause   time.Duration
	last    *Response
	// secrets are what the request carries, of which nothing is shown.
	secrets []string
	// memory is the last answer's part of the budget.
	memory reservation
	// redirect is the redirect in the last answer, nil if there is none or it was followed.
	redirect *failure.Redirect
}

// Do makes a request, and repeats it as long as that may help and the context has time. It returns an answer with a 2xx
// status, which the caller must free, or fails with *failure.Error, *failure.RateLimitedError or *failure.NetworkError.
func (c *Caller) Do(ctx context.Context, r Request) (*Response, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.closed, func() { end(errClosed) })()
	a := &attempts{caller: c, request: r, memory: reservation{caller: c}}
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

// log returns the logger for lines about one attempt, at debug: the one in the call's context if there is one, because
// it says on whose behalf the call is made. Lines have the IDs that GitHub's support asks for; the final error of a
// call has these IDs, too.
func (a *attempts) log(ctx context.Context, answer *http.Response) logr.Logger {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = a.caller.Logger
	}
	log = log.V(1)
	if !log.Enabled() {
		return logr.Discard()
	}
	log = log.WithValues("endpoint", a.request.Endpoint, "attempt", a.attempt)
	if answer == nil {
		return log
	}
	for _, id := range []struct{ key, header string }{
		{"activityID", failure.HeaderActivityID},
		{"githubRequestID", failure.HeaderRequestID},
	} {
		if value := failure.Identifier(answer.Header, id.header, a.secrets...); value != "" {
			log = log.WithValues(id.key, value)
		}
	}
	return log
}

// answer returns the last answer and what was asked.
func (a *attempts) answer() *failure.Answer {
	return &failure.Answer{
		Endpoint:   a.request.Endpoint,
		Credential: a.request.Credential,
		Secrets:    a.secrets,
		Config:     a.caller.Config,
		StatusCode: a.last.StatusCode,
		Header:     a.last.Header,
		Body:       a.last.Body,
		Redirect:   a.redirect,
	}
}

// networkError returns the error for a call without a complete answer.
func (a *attempts) networkError(cause error) error {
	failed := failure.NetworkError{
		Endpoint: a.request.Endpoint, Method: a.request.Method, URL: failure.Bare(a.request.URL, a.secrets...),
		Attempts: max(1, a.attempt), Err: cause,
	}
	if a.last != nil {
		failed.LastAnswer = a.answer().Describe()
	}
	return failure.NewNetworkError(failed, a.secrets...)
}
