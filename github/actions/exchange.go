package actions

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-retryablehttp"
)

// byteOrderMark comes before the JSON in some of GitHub's answers.
var byteOrderMark = []byte("\xef\xbb\xbf")

// request is a call that is ready to be sent. It can be sent any number of times.
type request struct {
	endpoint string
	method   string
	url      *url.URL
	header   http.Header
	body     []byte
	// credential is the credential in the Authorization header, one of the Credential… constants.
	credential string
	// timeout ends one attempt.
	timeout time.Duration
	// retries is how often a failed attempt is repeated at most.
	retries int
	// repeatWhenForbidden makes 401 and 403 worth repeating.
	repeatWhenForbidden bool
}

// response is an answer that was read to its end, which makes its connection available to the next call.
type response struct {
	status int
	header http.Header
	body   []byte
	// whole is set if the answer said where its body ends, so that an empty body is really empty. A body that ends with its
	// connection may have been cut anywhere.
	whole bool
	// free gives the body's memory back to the budget. Call it when the answer is decoded.
	free func()
}

// exchange is one call with its repetitions. It is the transport below the retry layer: there it reads each answer
// within the attempt's deadline, so that a truncated body is repeated like any network error, and keeps the last
// answer, which the retry layer would lose.
type exchange struct {
	client  *Client
	request request
	attempt int
	pause   time.Duration
	last    *response
	// memory is what the last answer holds of the budget.
	memory reservation
	// redirect is the redirect in the last answer, nil if there is none or it was followed.
	redirect *refusedRedirect
}

// exchange makes a call. It returns an answer with a 2xx status, which the caller must free, or fails with *Error,
// *RateLimitedError or *NetworkError.
func (c *Client) exchange(ctx context.Context, r request) (*response, error) {
	x := &exchange{client: c, request: r}
	var body any
	if r.body != nil {
		body = r.body
	}
	outgoing, err := retryablehttp.NewRequestWithContext(ctx, r.method, r.url.String(), body)
	if err != nil {
		return nil, x.networkError(err)
	}
	outgoing.Header = r.header
	layer := retryablehttp.Client{
		// The transport deliberately lacks CloseIdleConnections: after a failure the retry layer would call it and close
		// the connections of all other calls.
		HTTPClient:     &http.Client{Transport: x, CheckRedirect: x.followRedirect},
		RetryMax:       r.retries,
		RequestLogHook: func(_ retryablehttp.Logger, _ *http.Request, repetition int) { x.attempt = repetition + 1 },
		CheckRetry:     x.shouldRepeat,
		// The retry layer can't pause on an injected clock, so x.wait pauses in its place.
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 },
		PrepareRetry: x.wait,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	_, err = layer.Do(outgoing) //nolint:bodyclose // bodies are in memory, there is nothing to close
	if err == nil && x.last.status/100 == 2 {
		x.last.free = x.free
		return x.last, nil
	}
	defer x.free()
	if err != nil {
		return nil, x.networkError(err)
	}
	return nil, x.answerError()
}

// RoundTrip makes one attempt.
func (x *exchange) RoundTrip(outgoing *http.Request) (*http.Response, error) {
	start := x.client.clock.Now()
	answer, err := x.roundTrip(outgoing)
	info := RequestInfo{
		Endpoint: x.request.endpoint,
		Duration: x.client.clock.Since(start),
		Err:      err,
	}
	if answer != nil {
		info.StatusCode = answer.StatusCode
		info.RateLimit, info.TokenExpires = rateLimitOf(answer.Header), tokenExpiryOf(answer.Header)
	}
	if x.client.observe != nil {
		x.client.observe(info)
	}
	if info.StatusCode/100 == 2 {
		x.log(outgoing.Context(), answer).Info("GitHub answered", "status", info.StatusCode, "seconds", info.Duration.Seconds())
	}
	return answer, err
}

// log returns the logger for lines about one attempt, at debug: the one in the call's context if there is one, because it says on
// whose behalf the call is made. Lines have the IDs that GitHub's support asks for; a call's final error has them too.
func (x *exchange) log(ctx context.Context, answer *http.Response) logr.Logger {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = x.client.log
	}
	log = log.V(1)
	if !log.Enabled() {
		return logr.Discard()
	}
	log = log.WithValues("endpoint", x.request.endpoint, "attempt", x.attempt)
	if answer == nil {
		return log
	}
	for _, id := range []struct{ key, header string }{{"activityID", headerActivityID}, {"githubRequestID", headerRequestID}} {
		if value := identifier(answer.Header.Get(id.header)); value != "" {
			log = log.WithValues(id.key, value)
		}
	}
	return log
}

func (x *exchange) roundTrip(outgoing *http.Request) (*http.Response, error) {
	ctx, cancel := withTimeout(outgoing.Context(), x.request.timeout)
	defer cancel()
	answer, err := x.client.transport.RoundTrip(outgoing.WithContext(ctx))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer answer.Body.Close()
	body, err := x.readBody(ctx, answer)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	if answer.StatusCode/100 == 2 && isCutJSON(body) { // if the call failed, its status matters more
		return nil, fmt.Errorf("%w: %w", ErrTruncated, io.ErrUnexpectedEOF)
	}
	x.last = &response{
		status: answer.StatusCode, header: answer.Header, body: bytes.TrimPrefix(body, byteOrderMark),
		whole: answer.ContentLength >= 0 || len(answer.TransferEncoding) > 0 || answer.ProtoMajor > 1,
	}
	answer.Body = io.NopCloser(bytes.NewReader(x.last.body))
	return answer, nil
}

// messageIDIn returns the ID in the beginning of a message, or 0 if there is none.
func messageIDIn(beginning []byte) int64 {
	var id int64
	fields := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(beginning, byteOrderMark)))
	if opening, err := fields.Token(); err != nil || opening != json.Delim('{') {
		return 0
	}
	for fields.More() {
		var value json.RawMessage
		name, err := fields.Token()
		if err != nil || fields.Decode(&value) != nil {
			return 0
		}
		if name == "messageId" && json.Unmarshal(value, &id) == nil {
			return id
		}
	}
	return 0
}

// isCutJSON reports whether a body is JSON that ends too early. The transport does not notice that if the end of the body is the
// end of the connection.
func isCutJSON(body []byte) bool {
	var value json.RawMessage
	err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, byteOrderMark))).Decode(&value)
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// causeOf returns the reason why ctx ended if it has, in place of the transport's own description.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// networkError returns the error for a call without a complete answer. It drops the URL that net/http adds to the cause: it has
// the query, and a proxy's may have a password.
func (x *exchange) networkError(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	failure := &NetworkError{
		Endpoint: x.request.endpoint,
		Method:   x.request.method,
		URL:      bare(x.request.url),
		Attempts: max(1, x.attempt),
		Err:      err,
		text:     shorten(x.redact(textOf(err))),
	}
	if x.last != nil {
		failure.LastAnswer = x.answer()
	}
	return failure
}

// quoted matches what a text quotes.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// textOf returns the text of a transport's error without what the other side sent: net/http quotes the first line of an answer that
// is not HTTP, which may be any server's.
func textOf(err error) string {
	if _, header := errors.AsType[textproto.ProtocolError](err); header {
		return "the header of the answer is not HTTP"
	}
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if network || name || certificate || isRefusedAddress(err) {
		return err.Error()
	}
	return quoted.ReplaceAllString(err.Error(), "(not shown)")
}

// bare returns an address as errors show it: shortened, and without query, user name and password, which may be secret.
func bare(address *url.URL) string {
	return shorten((&url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}).String())
}
