package exchange

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// Deadlines of calls. GitHub does not publish its own limits. These follow from the time that its calls take (a JIT
// config about 0.7 s) and that a caller can wait.
const (
	// CallTimeout ends a call, including all its repetitions and a renewal of credentials. 15 s of pauses (1+2+4+8)
	// leave 15 s for five attempts.
	CallTimeout = 30 * time.Second
	// AttemptTimeout ends one attempt of a call, so that a dead connection leaves time for another attempt.
	AttemptTimeout = 15 * time.Second
	// PollTimeout ends one attempt of GetMessage. GitHub holds a poll for about 50 s; half as much again is for slow
	// networks.
	PollTimeout = 75 * time.Second
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
	reading
	caller  *Caller
	request Request
	attempt int
	pause   time.Duration
	last    *Response
	// redirect is the redirect in the last answer, nil if there is none or it was followed.
	redirect *failure.Redirect
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

// Deadlines limit the duration of calls and of their parts.
type Deadlines struct {
	// Call is for a call, which may need several requests; whoever makes it keeps to that.
	Call time.Duration
	// Attempt and Poll are for one attempt of a request.
	Attempt, Poll time.Duration
}
