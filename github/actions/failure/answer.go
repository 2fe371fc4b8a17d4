package failure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
)

// Headers that identify a call in GitHub's logs. The Actions service sends the first, the REST API the second.
const (
	HeaderActivityID = "ActivityId"
	HeaderRequestID  = "X-GitHub-Request-Id"
)

const (
	// limitedBackoff is the pause after a rate limit that names no time, as GitHub's documentation asks.
	limitedBackoff = time.Minute
	// unavailableBackoff is the longest pause that a 503 or a web page can ask for. Both may come from a gateway, which
	// knows nothing about GitHub's limits, and one call a minute does no harm to a server that is overloaded or in
	// maintenance. Callers that give up after some minutes must have several attempts.
	unavailableBackoff = time.Minute
	// longestBackoff is the longest pause that a server can ask for. A limit lasts an hour; a wrong date must not last
	// forever.
	longestBackoff = 24 * time.Hour
)

// Answer is an answer that is no success, with what was asked.
type Answer struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Credential is the kind of credential that the request carried, one of the constants of package credential.
	Credential string
	// Secrets are what the request carried. Errors show nothing of them.
	Secrets []string
	// Config is the address at which the caller registers runners.
	Config *configurl.URL

	// StatusCode, Header and Body are the answer, without a byte order mark.
	StatusCode int
	Header     http.Header
	Body       []byte
	// Redirect is the redirect in the answer that was not followed, nil if there is none.
	Redirect *Redirect
}

// Failure returns the error for a call that ends with this answer: *RateLimitedError if GitHub is rate limiting the
// caller, else *Error.
func (a *Answer) Failure(now time.Time) error {
	failed := a.Describe()
	until, limited := LimitedUntil(a.StatusCode, a.Header, now)
	assumed := !limited && (a.StatusCode == http.StatusTooManyRequests || a.isSecondaryLimit())
	switch {
	case !limited && !assumed:
		return failed
	case a.StatusCode == http.StatusServiceUnavailable || failed.webPage:
		if limited {
			failed.RetryAt = now.Add(min(until.Sub(now), unavailableBackoff))
		}
		return failed
	case assumed:
		until = now.Add(limitedBackoff)
	}
	failed.rateLimited = true
	return &RateLimitedError{Endpoint: a.Endpoint, Until: until, Assumed: assumed, Err: failed}
}

// isSecondaryLimit reports whether an answer is a 403 for the REST API's secondary limit, which may come without any
// header that says so. GitHub's documentation then asks for a pause of a minute. GitHub's own clients recognize the
// limit by the page that the answer links to, or by its text.
func (a *Answer) isSecondaryLimit() bool {
	var body errorBody
	if a.StatusCode != http.StatusForbidden || json.Unmarshal(a.Body, &body) != nil {
		return false
	}
	page := string(body.DocumentationURL)
	return strings.HasSuffix(page, "secondary-rate-limits") || strings.HasSuffix(page, "abuse-rate-limits") ||
		strings.Contains(strings.ToLower(string(body.Message)), "secondary rate limit")
}

// Describe returns the content of the answer as an error, whether or not the call ends with it.
func (a *Answer) Describe() *Error {
	message, typeName := a.explain()
	failed := &Error{
		Endpoint:   a.Endpoint,
		StatusCode: a.StatusCode,
		TypeName:   Quote(typeName, a.Secrets...),
		Message:    Quote(message, a.Secrets...),
		ActivityID: Identifier(a.Header, HeaderActivityID, a.Secrets...),
		RequestID:  Identifier(a.Header, HeaderRequestID, a.Secrets...),
		Credential: a.Credential,
		webPage:    HasMarkup(a.Body),
		redirect:   a.Redirect,
	}
	if errors.Is(failed, ErrUnauthorized) {
		failed.refusal = (&answerToRefuse{failed, a.Header, a.Config}).classify()
	}
	return failed
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

// explain returns the answer's own explanation of the failure. Only an error of GitHub's form is quoted: anything else
// may come from a server that whoever chose the config URL can't read otherwise.
func (a *Answer) explain() (message, typeName string) {
	const none = "no explanation was given"
	var body errorBody
	switch text := bytes.TrimSpace(a.Body); {
	case len(text) == 0:
		return none, ""
	case json.Unmarshal(text, &body) != nil, body == errorBody{}:
		return fmt.Sprintf("the answer has no error of GitHub's form (its type: %s)", MediaType(a.Header)), ""
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

// RetryAt returns the time from which a call that failed with err may be repeated: earliest, or a later one if GitHub
// named it, or a gateway that answered 503 in its place. A gateway is believed for at most a minute.
func RetryAt(err error, earliest time.Time) time.Time {
	if limited, ok := errors.AsType[*RateLimitedError](err); ok && limited.Until.After(earliest) {
		return limited.Until
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.RetryAt.After(earliest) {
		return answer.RetryAt
	}
	return earliest
}

// LimitedUntil returns the end of GitHub's rate limit for us, if the answer has it: in Retry-After (seconds or a date),
// or as the reset of a primary limit that is used up. These headers mean that only together with some statuses.
func LimitedUntil(status int, header http.Header, now time.Time) (until time.Time, limited bool) {
	switch status {
	case http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable:
	default:
		return time.Time{}, false
	}
	until, limited = parseRetryAfter(header, now)
	if !limited && header.Get("X-Ratelimit-Remaining") == "0" && status != http.StatusServiceUnavailable {
		reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64)
		until, limited = OnOurClock(time.Unix(reset, 0), header, now), err == nil
	}
	if latest := now.Add(longestBackoff); until.After(latest) {
		until = latest
	}
	return until, limited
}

func parseRetryAfter(header http.Header, now time.Time) (time.Time, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		seconds = min(seconds, int64(longestBackoff/time.Second)) // the product below must not overflow
		return now.Add(time.Duration(seconds) * time.Second), seconds >= 0
	}
	date, err := http.ParseTime(value)
	return OnOurClock(date, header, now), err == nil
}

// OnOurClock converts a time on the server's clock, which the answer's Date header shows, to our clock. The result is
// relative to now, so it stays right if our clock is changed.
func OnOurClock(at time.Time, header http.Header, now time.Time) time.Time {
	sent, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		sent = now
	}
	return now.Add(at.Sub(sent))
}
