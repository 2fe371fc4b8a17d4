package actions

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"strings"
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
	if !limited && !assumed {
		return failure
	}
	failure.rateLimited = true
	return &RateLimitedError{Endpoint: failure.Endpoint, Until: until, Assumed: assumed, Err: failure}
}

// isSecondaryLimit reports whether a 403 is the REST API's secondary limit, which need not have a header that says so: GitHub's
// documentation asks for a minute's pause then, and its own clients recognize it by the page that it links to, or by its text.
func isSecondaryLimit(answer *response) bool {
	var body errorBody
	if answer.status != http.StatusForbidden || json.Unmarshal(answer.body, &body) != nil {
		return false
	}
	return strings.HasSuffix(body.DocumentationURL, "secondary-rate-limits") || strings.HasSuffix(body.DocumentationURL, "abuse-rate-limits") ||
		strings.Contains(strings.ToLower(body.Message), "secondary rate limit")
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
		webPage:    isWebPage(x.last),
	}
	if x.redirect != nil {
		failure.redirect = bare(x.redirect)
	}
	return failure
}

func isWebPage(answer *response) bool {
	mediaType, _, _ := mime.ParseMediaType(answer.header.Get("Content-Type"))
	return mediaType == "text/html" || answer.hasMarkup()
}

// hasMarkup reports whether the body is a page, whatever its headers call it.
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
	Message  string `json:"message"`
	TypeName string `json:"typeName"`
	// Error and Details are set instead when a component in between wrapped the service's answer.
	Error   string `json:"error"`
	Details string `json:"details"`
	// DocumentationURL is the REST API's link to the page about the failure.
	DocumentationURL string `json:"documentation_url"`
}

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
		return text, body.TypeName
	}
	if body.Details != "" && body.TypeName == "" {
		body.unwrap()
	}
	switch {
	case body.Message != "":
		return body.Message, body.TypeName
	case body.Error != "":
		return body.Error, body.TypeName
	}
	return text, body.TypeName
}

var exceptionName = regexp.MustCompile(`[\w.]+Exception`)

// unwrap looks for the service's own error in the details: JSON somewhere in a text, or at least an exception's name.
func (b *errorBody) unwrap() {
	if start := strings.Index(b.Details, "{"); start >= 0 {
		var inner errorBody
		if json.NewDecoder(strings.NewReader(b.Details[start:])).Decode(&inner) == nil && inner.TypeName != "" {
			b.TypeName, b.Message = inner.TypeName, inner.Message
			return
		}
	}
	b.TypeName, b.Message = exceptionName.FindString(b.Details), b.Details
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
