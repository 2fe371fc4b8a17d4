package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxMessageLength is how many bytes of a foreign text an error quotes, and with it logs and conditions.
const maxMessageLength = 512

// Headers that identify a call in GitHub's logs. The Actions service sends the first, the REST API the second.
const (
	headerActivityID = "ActivityId"
	headerRequestID  = "X-GitHub-Request-Id"
)

// answerError turns the last answer into the error to return.
func (x *exchange) answerError() error {
	failure := x.answer()
	now := x.client.clock.Now()
	until, limited := limitedUntil(failure.StatusCode, x.last.header, now)
	assumed := !limited && (failure.StatusCode == http.StatusTooManyRequests || isSecondaryLimit(x.last))
	if assumed {
		until = now.Add(limitedPause)
	}
	switch {
	case !limited && !assumed:
		return failure
	case failure.StatusCode == http.StatusServiceUnavailable || failure.webPage:
		if limited {
			failure.RetryAt = earlier(until, now.Add(unavailablePause))
		}
		return failure
	}
	failure.rateLimited = true
	return &RateLimitedError{Endpoint: failure.Endpoint, Until: until, Assumed: assumed, Err: failure}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// isSecondaryLimit reports whether an answer is a 403 for the REST API's secondary limit, which may come without any header that
// says so. GitHub's documentation then asks for a pause of a minute. GitHub's own clients recognize the limit by the page that the
// answer links to, or by its text.
func isSecondaryLimit(answer *response) bool {
	var body errorBody
	if answer.status != http.StatusForbidden || json.Unmarshal(answer.body, &body) != nil {
		return false
	}
	page := string(body.DocumentationURL)
	return strings.HasSuffix(page, "secondary-rate-limits") || strings.HasSuffix(page, "abuse-rate-limits") ||
		strings.Contains(strings.ToLower(string(body.Message)), "secondary rate limit")
}

// answer describes the last answer.
func (x *exchange) answer() *Error {
	message, typeName := explain(x.last)
	// Redacted before it is shortened: a credential that was cut would not be found.
	quote := func(text string) string { return shorten(printable(x.redact(text))) }
	failure := &Error{
		Endpoint:   x.request.endpoint,
		StatusCode: x.last.status,
		TypeName:   quote(typeName),
		Message:    quote(message),
		ActivityID: identifier(x.last.header.Get(headerActivityID)),
		RequestID:  identifier(x.last.header.Get(headerRequestID)),
		Credential: x.request.credential,
		webPage:    x.last.hasMarkup(),
		redirect:   x.redirect,
	}
	if errors.Is(failure, ErrUnauthorized) {
		failure.refusal = (&answerToRefuse{failure, x.last.header, x.client.config}).classify()
	}
	return failure
}

// identifierPattern matches GitHub's IDs of calls.
var identifierPattern = regexp.MustCompile(`^[0-9A-Za-z:._-]{1,128}$`)

// identifier returns the ID in a header, or "" if it can't be one of GitHub's.
func identifier(value string) string { return identifierPattern.FindString(value) }

// mediaTypePattern matches the types that are worth naming.
var mediaTypePattern = regexp.MustCompile(`^[a-z0-9.+-]{1,32}/[a-z0-9.+-]{1,64}$`)

// mediaType returns the type of the body, for errors.
func (r *response) mediaType() string {
	named, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	return cmp.Or(mediaTypePattern.FindString(named), "of no known type")
}

// hasMarkup reports whether the body is markup. Its Content-Type says nothing: some frameworks declare every text HTML, even an
// empty one.
func (r *response) hasMarkup() bool { return bytes.HasPrefix(bytes.TrimSpace(r.body), []byte("<")) }

// tokenPattern matches GitHub's tokens, by the prefixes that GitHub documents for them.
var tokenPattern = regexp.MustCompile(`\b(gh[a-z]_|github_pat_)\w{16,}`)

// printable replaces what a terminal or a log would not show as it is: control characters, line ends, directions of writing.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// redact removes the request's credential, and what looks like another one, from a foreign text: the error page of a proxy or debugging
// server may echo it.
func (x *exchange) redact(text string) string {
	text = tokenPattern.ReplaceAllString(text, "[redacted]")
	if _, secret, ok := strings.Cut(x.request.header.Get("Authorization"), " "); ok && secret != "" {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// errorBody has the keys of three forms of errors: the Actions service's, the REST API's, and the former wrapped.
type errorBody struct {
	Message textOrJSON `json:"message"`
	// TypeName is the full name of the service's exception, TypeKey the short one.
	TypeName textOrNone `json:"typeName"`
	TypeKey  textOrNone `json:"typeKey"`
	// Error and Details replace them if a component in between has wrapped the service's answer.
	Error   textOrJSON `json:"error"`
	Details textOrJSON `json:"details"`
	// DocumentationURL is the REST API's link to the page about the failure.
	DocumentationURL textOrNone `json:"documentation_url"`
}

// The types of errorBody's fields, so that a field of an unexpected type does not hide the others.
type (
	// textOrNone is empty if the field is not a text.
	textOrNone string
	// textOrJSON is the field's JSON if it is not a text.
	textOrJSON string
)

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *textOrNone) UnmarshalJSON(value []byte) error {
	if json.Unmarshal(value, (*string)(t)) != nil {
		*t = ""
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *textOrJSON) UnmarshalJSON(value []byte) error {
	if json.Unmarshal(value, (*string)(t)) != nil {
		*t = textOrJSON(value)
	}
	return nil
}

// exception returns the name of the service's exception.
func (b *errorBody) exception() string { return string(cmp.Or(b.TypeName, b.TypeKey)) }

// explain returns what an answer says about its failure. Only an error of GitHub's form is quoted: anything else may come from a
// server that whoever chose the config URL can't read otherwise.
func explain(answer *response) (message, typeName string) {
	const none = "no explanation was given"
	var body errorBody
	switch text := bytes.TrimSpace(answer.body); {
	case len(text) == 0:
		return none, ""
	case json.Unmarshal(text, &body) != nil, body == errorBody{}:
		return fmt.Sprintf("the answer has no error of GitHub's form (its type: %s)", answer.mediaType()), ""
	}
	if body.Details != "" && body.exception() == "" {
		body.unwrap()
	}
	return cmp.Or(string(body.Message), string(body.Error), none), body.exception()
}

var exceptionName = regexp.MustCompile(`[\w.]+Exception`)

// unwrap looks in Details for the service's own error: JSON somewhere in a text, or at least an exception's name.
func (b *errorBody) unwrap() {
	details := string(b.Details)
	if start := strings.Index(details, "{"); start >= 0 {
		var inner errorBody
		if json.NewDecoder(strings.NewReader(details[start:])).Decode(&inner) == nil && inner.exception() != "" {
			b.TypeName, b.Message = textOrNone(inner.exception()), inner.Message
			return
		}
	}
	b.TypeName = textOrNone(exceptionName.FindString(details))
	if b.TypeName != "" || b.Message == "" {
		b.Message = b.Details
	}
}

// shortError shortens the text of its cause, which may quote foreign text.
type shortError struct{ cause error }

func (e *shortError) Error() string { return shorten(e.cause.Error()) }

func (e *shortError) Unwrap() error { return e.cause }

func shorten(text string) string {
	if len(text) <= maxMessageLength {
		return text
	}
	end := maxMessageLength
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
