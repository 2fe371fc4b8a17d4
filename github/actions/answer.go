package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// maxMessageLength bounds what of a foreign text goes into an error, and so into logs and conditions.
const maxMessageLength = 512

// Headers that name a call in GitHub's logs: the Actions service sends the first, the REST API the second.
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

// isSecondaryLimit reports whether a 403 is the REST API's secondary limit, which need not have a header that says so: GitHub's
// documentation asks for a minute's pause then, and its own clients recognize it by the page that it links to, or by its text.
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
	// Redacted first: of a credential that is cut, the rest would stay.
	quote := func(text string) string { return shorten(x.redact(text)) }
	failure := &Error{
		Endpoint:   x.request.endpoint,
		StatusCode: x.last.status,
		TypeName:   quote(typeName),
		Message:    quote(message),
		ActivityID: quote(x.last.header.Get(headerActivityID)),
		RequestID:  quote(x.last.header.Get(headerRequestID)),
		Credential: x.request.credential,
		webPage:    x.last.hasMarkup(),
	}
	if x.redirect != nil {
		failure.redirect = bare(x.redirect)
	}
	return failure
}

// hasMarkup reports whether the body is a page. Its Content-Type says nothing: some frameworks call every text, even none, HTML.
func (r *response) hasMarkup() bool { return bytes.HasPrefix(bytes.TrimSpace(r.body), []byte("<")) }

// redact takes the request's credential out of a foreign text: a proxy's or debugging server's error page may echo it.
func (x *exchange) redact(text string) string {
	if _, secret, ok := strings.Cut(x.request.header.Get("Authorization"), " "); ok && secret != "" {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// errorBody has the keys of the service's, the REST API's and the wrapped form of errors.
type errorBody struct {
	Message textOrJSON `json:"message"`
	// TypeName is the full name of the service's exception, TypeKey the short one.
	TypeName textOrNone `json:"typeName"`
	TypeKey  textOrNone `json:"typeKey"`
	// Error and Details are set instead when a component in between wrapped the service's answer.
	Error   textOrJSON `json:"error"`
	Details textOrJSON `json:"details"`
	// DocumentationURL is the REST API's link to the page about the failure.
	DocumentationURL textOrNone `json:"documentation_url"`
}

// Fields of an error are decoded into these: one of an unexpected type must not hide the others.
type (
	// textOrNone is empty where a field is no text.
	textOrNone string
	// textOrJSON is the field's JSON where it is no text.
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

// explain reads what an answer says about its failure.
func explain(answer *response) (message, typeName string) {
	text := strings.TrimSpace(string(answer.body))
	if text == "" {
		return "no explanation was given", ""
	}
	var body errorBody
	if json.Unmarshal([]byte(text), &body) != nil {
		return text, ""
	}
	if mediaType, _, _ := mime.ParseMediaType(answer.header.Get("Content-Type")); mediaType == "text/plain" {
		// The text is the message; but a server that names no type sends JSON as text, too, and what it means must not be lost.
		return text, body.exception()
	}
	if body.Details != "" && body.exception() == "" {
		body.unwrap()
	}
	return cmp.Or(string(body.Message), string(body.Error), text), body.exception()
}

var exceptionName = regexp.MustCompile(`[\w.]+Exception`)

// unwrap looks for the service's own error in the details: JSON somewhere in a text, or at least an exception's name.
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

// shortError is an error whose text may quote what is foreign. Its cause stays as it is.
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
