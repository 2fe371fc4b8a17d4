package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

const (
	// maxBodyBytes limits an answer. A JIT config, the largest that a manager reads, has about 6 kB.
	maxBodyBytes = 1 << 20
	// maxMessageBytes limits a message of the queue. One with 50 entries is about 100 kB.
	maxMessageBytes = 16 << 20
	// At most maxFailureBytes are read of an answer that is no success. Of a longer one its status is enough.
	maxFailureBytes = FirstBytes
	// Every answer gets FirstBytes immediately, beside the budget: more than all answers of an ordinary GitHub but long
	// lists and messages. So servers that announce much and send nothing, or that have used up the budget, delay no
	// ordinary answer.
	FirstBytes = 32 << 10
)

// byteOrderMark comes before the JSON in some of GitHub's answers.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Response is an answer that was read to its end, which makes its connection available to the next request.
type Response struct {
	StatusCode int
	Header     http.Header
	// Body is the body without a byte order mark.
	Body []byte
	// Whole is set if the answer marked the end of its body, so that an empty body is really empty. A body that ends with
	// its connection may have been cut anywhere.
	Whole bool

	// Secrets are what the request carried. Errors about the answer show nothing of them.
	Secrets []string

	endpoint string
	// free gives the body's memory back to the budget.
	free func()
}

// Free gives the body's memory back to the budget. Call it when the answer is decoded.
func (r *Response) Free() { r.free() }

// Acknowledge fails if a success is a page that a proxy or gateway shows in GitHub's place, with status 200: that must
// not pass for, say, a deletion. It fails with *failure.UnexpectedResponseError. GitHub answers 204 if there is no
// result; a server that says "ok" is believed.
func (r *Response) Acknowledge() error {
	if failure.HasMarkup(r.Body) {
		return failure.WebPage(r.endpoint, r.StatusCode)
	}
	return nil
}

// Decode decodes the JSON of a success into result. It fails with *failure.UnexpectedResponseError.
func (r *Response) Decode(result any) error {
	if err := r.Acknowledge(); err != nil {
		return err
	}
	err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(result)
	if _, noJSON := errors.AsType[*json.SyntaxError](err); noJSON {
		err = fmt.Errorf("it is not JSON (its type: %s)", failure.MediaType(r.Header))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
	}
	if err != nil {
		return failure.Unexpected(r.endpoint, fmt.Errorf("status %d: %w", r.StatusCode, failure.Short(err, r.Secrets...)))
	}
	return nil
}

// TooLargeError reports an answer that was not read to its end, with the allowed size. It matches failure.ErrTruncated.
type TooLargeError struct {
	// Limit is the allowed number of bytes, Size the one that the server announced, or -1.
	Limit, Size int64
	// MessageID is the ID of a message, 0 if it could not be read. The message must be deleted: the queue would never
	// get past it.
	MessageID int64
}

// Error names the size of the answer, if that is known, and the size that is read.
func (e *TooLargeError) Error() string {
	if e.Size > e.Limit {
		return fmt.Sprintf("%v: it has %d bytes, and more than %d are not read", failure.ErrTruncated, e.Size, e.Limit)
	}
	return fmt.Sprintf("%v: more than %d bytes are not read", failure.ErrTruncated, e.Limit)
}

// Unwrap returns failure.ErrTruncated.
func (e *TooLargeError) Unwrap() error { return failure.ErrTruncated }

// reading is what the answers to one request are read with.
type reading struct {
	endpoint string
	// polls is set if an answer may be a message of the queue.
	polls bool
	// secrets are what the request carries, of which nothing is shown.
	secrets []string
	budget  *Budget
	// memory is the last answer's part of the budget.
	memory reservation
}

// read reads an answer. The response must be freed.
func (r *reading) read(ctx context.Context, answer *http.Response) (*Response, error) {
	body, err := r.readBody(ctx, answer)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 && isCutJSON(body) { // if the call failed, its status matters more
		return nil, fmt.Errorf("%w: %w", failure.ErrTruncated, io.ErrUnexpectedEOF)
	}
	return &Response{
		StatusCode: answer.StatusCode, Header: answer.Header, Body: bytes.TrimPrefix(body, byteOrderMark),
		Whole:    answer.ContentLength >= 0 || len(answer.TransferEncoding) > 0 || answer.ProtoMajor > 1,
		Secrets:  r.secrets,
		endpoint: r.endpoint, free: r.free,
	}, nil
}

// readBody reads the body of an answer. If it has more than FirstBytes, it counts against the budget until the answer
// to the next attempt is read, or until the response is freed. The budget is asked a single time, when that many bytes
// have really come: what a server announces costs nobody anything, and as nobody waits while holding a part of the
// budget, calls can't wait for each other.
func (r *reading) readBody(ctx context.Context, answer *http.Response) ([]byte, error) {
	r.free()
	success := answer.StatusCode/100 == 2
	limit, expected := int64(maxBodyBytes), answer.ContentLength
	if r.polls {
		limit = maxMessageBytes
	}
	if r.budget != nil {
		limit = min(limit, r.budget.perOwner)
	}
	if !success {
		limit = maxFailureBytes
	}
	switch {
	case success && expected > limit && !r.polls: // the beginning of a message has its ID
		return nil, &TooLargeError{Limit: limit, Size: expected}
	case expected < 0:
		expected = limit
	}
	expected = min(expected, limit)
	body := make([]byte, 0, min(expected, FirstBytes)+1) // with room to notice the end
	for rest := io.LimitReader(answer.Body, limit+1); ; {
		if len(body) == cap(body) {
			if err := r.budget.raise(ctx, &r.memory, expected); err != nil {
				return nil, err
			}
			body = slices.Grow(body, len(body))
		}
		n, err := rest.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: %w", failure.ErrTruncated, err)
		case int64(len(body)) <= limit:
			return body, nil
		case !success:
			return body[:limit], nil
		}
		return nil, &TooLargeError{Limit: limit, Size: answer.ContentLength, MessageID: messageIDIn(body)}
	}
}

// free gives the memory of the last answer back to the budget. It may be called again.
func (r *reading) free() { r.budget.free(&r.memory) }

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

// isCutJSON reports whether a body is JSON that ends too early. The transport does not notice that if the end of the
// body is the end of the connection.
func isCutJSON(body []byte) bool {
	var value json.RawMessage
	err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, byteOrderMark))).Decode(&value)
	return errors.Is(err, io.ErrUnexpectedEOF)
}
