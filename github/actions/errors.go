package actions

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// What callers decide by. Those that end in NotFound also match ErrNotFound.
var (
	// ErrNotFound is any answer that says that the thing in question does not exist.
	ErrNotFound            = errors.New("not found")
	ErrRunnerNotFound      = fmt.Errorf("runner %w", ErrNotFound)
	ErrScaleSetNotFound    = fmt.Errorf("scale set %w", ErrNotFound)
	ErrRunnerGroupNotFound = fmt.Errorf("runner group %w", ErrNotFound)
	// ErrSessionNotFound is a session that expired or was evicted: create a new one.
	ErrSessionNotFound = fmt.Errorf("session %w", ErrNotFound)

	ErrRunnerExists   = errors.New("runner name is taken")
	ErrScaleSetExists = errors.New("scale set name is taken")
	// ErrSessionConflict says that the scale set has a session already, be it of the same owner. There is no taking
	// over; an abandoned session was seen to free itself between 60 and 91 s.
	ErrSessionConflict = errors.New("another session of the scale set is open")
	// ErrJobStillRunning says that a runner has a job and was not removed.
	ErrJobStillRunning = errors.New("the runner has a job")
	// ErrUnauthorized is a refused credential; Error.Credential says which.
	ErrUnauthorized = errors.New("credential refused")
	// ErrInvalidCredentials are credentials that can't work, found without asking GitHub.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrForeignAnswer is an answer in markup, which neither the Actions service nor the REST API gives: it is that of a proxy,
	// gateway or firewall on the way and says nothing about what was asked for.
	ErrForeignAnswer = errors.New("the answer is not of GitHub's API")
	// ErrTruncated is an answer that broke off.
	ErrTruncated = errors.New("the answer was cut short")
)

// exceptions maps the service's exception names to what they mean. Names are matched by substring because the
// service sends them with a namespace and an assembly that changed over time; status codes differ between versions.
var exceptions = []struct {
	name    string
	meaning error
}{
	{"AgentExistsException", ErrRunnerExists},
	{"AgentNotFoundException", ErrRunnerNotFound},
	{"JobStillRunningException", ErrJobStillRunning},
	{"SessionConflictException", ErrSessionConflict},
	{"SessionExpiredException", ErrSessionNotFound},
	{"RunnerScaleSetNotFoundException", ErrScaleSetNotFound},
	{"RunnerScaleSetExistsException", ErrScaleSetExists},
}

// Error is an unsuccessful answer from GitHub. errors.Is matches it with the sentinels above.
type Error struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// StatusCode is the HTTP status of the last attempt.
	StatusCode int
	// TypeName is the name of the service's exception, empty when it gave none.
	TypeName string
	// Message is GitHub's own explanation, at most maxMessageLength bytes of it.
	Message string
	// ActivityID and RequestID identify the call in GitHub's logs (headers ActivityId and X-GitHub-Request-Id).
	ActivityID string
	RequestID  string
	// Credential names the credential that the call carried, one of the Credential… constants.
	Credential string
	// RetryAt is when the answer, which speaks of no rate limit, wants the call to be repeated, at most a minute ahead; zero where
	// it does not say.
	RetryAt time.Time

	// rateLimited keeps a 403 that means "later" from being taken for a refused credential.
	rateLimited bool
	// webPage is an answer in markup.
	webPage bool
	// renewed is set when the credential was renewed before the call, because GitHub had refused the one before.
	renewed bool
	// redirect is where the answer wanted the call to go on as a GET, empty where it did not.
	redirect string
}

const webPageAdvice = "; a web page is no answer of GitHub's API: check the proxy or gateway on the way and the config URL"

// Error names the call, the answer, GitHub's reason, the ids to quote to GitHub's support, and what to check.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: GitHub answered %d %s: %s", describe(e.Endpoint), e.StatusCode, http.StatusText(e.StatusCode), e.Message)
	for _, detail := range []struct{ name, value string }{
		{"type", e.TypeName}, {"ActivityId", e.ActivityID}, {"X-GitHub-Request-Id", e.RequestID},
	} {
		if detail.value != "" {
			fmt.Fprintf(&text, " [%s %s]", detail.name, detail.value)
		}
	}
	if advice := e.advice(); advice != "" {
		fmt.Fprintf(&text, "; the %s was refused: %s", e.Credential, advice)
	}
	switch {
	case e.redirect != "":
		fmt.Fprintf(&text, "; it redirects to %s, which only a GET can follow: use that address's http:// or https:// and its host (without api.) "+
			"in githubConfigUrl, or check the proxy or gateway on the way", e.redirect)
	case e.webPage:
		text.WriteString(webPageAdvice)
	}
	return text.String()
}

// Is reports whether the answer means target.
func (e *Error) Is(target error) bool {
	meaning := e.meaning()
	return meaning != nil && errors.Is(meaning, target)
}

func (e *Error) meaning() error {
	if e.rateLimited {
		return nil
	}
	for _, exception := range exceptions {
		if strings.Contains(e.TypeName, exception.name) {
			return exception.meaning
		}
	}
	switch {
	case e.StatusCode == http.StatusUnauthorized:
		return ErrUnauthorized // renewing the credential costs little, whoever has refused it
	case e.webPage:
		return ErrForeignAnswer
	}
	switch e.StatusCode {
	case http.StatusForbidden:
		return ErrUnauthorized
	case http.StatusConflict:
		return endpoints[e.Endpoint].conflict
	case http.StatusUnprocessableEntity:
		return endpoints[e.Endpoint].unprocessable
	case http.StatusNotFound, http.StatusGone:
		return endpoints[e.Endpoint].meaningOfNotFound(e.TypeName)
	}
	return nil
}

// advice says what to check about a refused credential.
func (e *Error) advice() string {
	advice := credentialAdvice[e.Credential]
	switch {
	case advice == "" || !errors.Is(e, ErrUnauthorized):
		return ""
	case e.renewed:
		return "it was renewed and refused again; " + advice
	}
	return advice
}

// RateLimitedError says that GitHub wants to be left alone until a moment that lies beyond the call's deadline, or
// still did after the last repetition. It wraps the answer's *Error.
type RateLimitedError struct {
	Endpoint string
	// Until is the earliest moment at which asking again makes sense.
	Until time.Time
	// Assumed is set when GitHub did not say when that is: a caller with back-off of its own may go by that instead.
	Assumed bool
	// Err is the answer, with status and request ids.
	Err error
}

// Error implements error.
func (e *RateLimitedError) Error() string {
	if e.Assumed {
		return fmt.Sprintf("rate limited by GitHub, which did not say until when: %v", e.Err)
	}
	return fmt.Sprintf("rate limited by GitHub until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the answer.
func (e *RateLimitedError) Unwrap() error { return e.Err }

// RetryAt is when a call that failed with err may be repeated: at the time that suits the caller, or when GitHub, or a gateway that
// answers 503 in its place, wants to be asked again, whichever is later. That of a gateway is at most a minute ahead.
func RetryAt(err error, suits time.Time) time.Time {
	if limited, ok := errors.AsType[*RateLimitedError](err); ok && limited.Until.After(suits) {
		return limited.Until
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.RetryAt.After(suits) {
		return answer.RetryAt
	}
	return suits
}

// NamesException reports whether an answer named an exception of the service, which nobody on the way to it does.
func NamesException(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.TypeName != ""
}

// LacksReadByID reports whether GetRunnerScaleSetByID failed as it does at a service that doesn't have this call, which ARC never
// makes. GitHub, which has it, names the exception where it lacks the scale set.
func LacksReadByID(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.Endpoint == EndpointGetScaleSet && answer.TypeName == "" &&
		slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, answer.StatusCode)
}

// IsRejected reports whether GitHub refused the call itself, so that repeating it is of no use. 408 does not count: a proxy
// sends it about a poll that was held.
func IsRejected(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusRequestTimeout && !errors.Is(err, ErrForeignAnswer)
}

// NetworkError says that no complete answer came: GitHub, a proxy or the network between is at fault, or the call's
// time was up. It wraps the cause, and the last complete answer if an earlier attempt had one.
type NetworkError struct {
	Endpoint string
	Method   string
	// URL has no query and no user name or password.
	URL string
	// Attempts that were made, 1 and up.
	Attempts int
	// Err is the cause.
	Err error
	// LastAnswer is nil unless an earlier attempt was answered.
	LastAnswer *Error

	// text is the cause's text without secrets.
	text string
}

// Error implements error.
func (e *NetworkError) Error() string {
	text := fmt.Sprintf("%s: %s %s: attempt %d: %s", describe(e.Endpoint), e.Method, e.URL, e.Attempts, e.text)
	if e.LastAnswer != nil {
		text += "; before that: " + e.LastAnswer.Error()
	}
	return text
}

// Unwrap returns the cause and the last answer.
func (e *NetworkError) Unwrap() []error {
	if e.LastAnswer == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.LastAnswer}
}

// TimeoutError says which of this client's deadlines passed. It matches context.DeadlineExceeded.
type TimeoutError struct {
	// After is the time that was allowed.
	After time.Duration
}

// UnexpectedResponseError is a success that lacks what the protocol promises. It matches ErrForeignAnswer where it is a web page.
type UnexpectedResponseError struct {
	Endpoint string
	Err      error
}

// Error implements error. A web page, which says itself what to check, is not called GitHub's.
func (e *UnexpectedResponseError) Error() string {
	if errors.Is(e.Err, ErrForeignAnswer) {
		return fmt.Sprintf("%s: %v", describe(e.Endpoint), e.Err)
	}
	return fmt.Sprintf("%s: GitHub's answer breaks the protocol: %v", describe(e.Endpoint), e.Err)
}

// Unwrap returns what is wrong with the answer.
func (e *UnexpectedResponseError) Unwrap() error { return e.Err }

// webPageError is a success that is a web page.
type webPageError struct{ status int }

func (e *webPageError) Error() string {
	return fmt.Sprintf("the answer was %d %s%s", e.status, http.StatusText(e.status), webPageAdvice)
}

func (e *webPageError) Unwrap() error { return ErrForeignAnswer }

func unexpected(endpoint string, err error) error {
	return &UnexpectedResponseError{Endpoint: endpoint, Err: err}
}

// ignore returns err, or nil when it means harmless.
func ignore(harmless, err error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
