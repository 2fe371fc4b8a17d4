package actions

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Sentinel errors, to be matched with errors.Is.
var (
	// ErrNotFound means that something does not exist. All errors whose names end in NotFound match it.
	ErrNotFound = errors.New("not found")
	// ErrRunnerNotFound means that the runner is not registered, or no longer.
	ErrRunnerNotFound = fmt.Errorf("runner %w", ErrNotFound)
	// ErrScaleSetNotFound means that the scale set does not exist. GitHub was observed to delete one that is unused for some days.
	ErrScaleSetNotFound = fmt.Errorf("scale set %w", ErrNotFound)
	// ErrRunnerGroupNotFound means that the runner group does not exist, or that the credentials can't see it.
	ErrRunnerGroupNotFound = fmt.Errorf("runner group %w", ErrNotFound)
	// ErrSessionNotFound means that the session expired or was evicted: create a new one.
	ErrSessionNotFound = fmt.Errorf("session %w", ErrNotFound)

	// ErrRunnerExists means that a runner of that name is already registered in the organization, repository or enterprise.
	ErrRunnerExists = errors.New("runner name is taken")
	// ErrScaleSetExists means that the runner group already has a scale set of that name.
	ErrScaleSetExists = errors.New("scale set name is taken")
	// ErrSessionConflict means that the scale set already has a session, even if it has the same owner. It can't be taken over.
	// GitHub was observed to end an abandoned one after 60 to 91 s.
	ErrSessionConflict = errors.New("another session of the scale set is open")
	// ErrJobStillRunning means that the runner was not removed because it has a job.
	ErrJobStillRunning = errors.New("the runner has a job")
	// ErrUnauthorized means that GitHub refused a credential; [Error.Credential] says which.
	ErrUnauthorized = errors.New("credential refused")
	// ErrInvalidCredentials means that the credentials can't work, which is known without asking GitHub.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrForeignAnswer means that the answer is markup. Neither the Actions service nor the REST API sends any, so it comes from a
	// proxy, gateway or firewall on the way and says nothing about what was asked for.
	ErrForeignAnswer = errors.New("the answer did not come from GitHub's API")
	// ErrTruncated means that the answer ends too early.
	ErrTruncated = errors.New("the answer was cut short")
)

// exceptions maps the service's exception names to what they mean. Names are matched by substring because the service sends them
// with a namespace and an assembly, which have changed over time. Their status codes differ between versions.
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

// Error is an unsuccessful answer from GitHub. errors.Is matches it with the sentinels above, by its exception or else its status.
type Error struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// StatusCode is the HTTP status of the last attempt.
	StatusCode int
	// TypeName is the name of the Actions service's exception, such as GitHub.DistributedTask.WebApi.TaskAgentNotFoundException. It
	// is empty if the answer names none.
	TypeName string
	// Message is GitHub's own explanation, cut after 512 bytes.
	Message string
	// ActivityID and RequestID identify the call in GitHub's logs (headers ActivityId and X-GitHub-Request-Id).
	ActivityID string
	RequestID  string
	// Credential is the credential that the call carried, one of the Credential… constants.
	Credential string
	// RetryAt is when to repeat the call according to an answer that is not a rate limit, at most a minute ahead. It is zero if the
	// answer does not say.
	RetryAt time.Time

	// rateLimited keeps a 403 that means "later" from being treated as a refused credential.
	rateLimited bool
	// webPage is set if the answer is markup.
	webPage bool
	// renewed is set if the credential was renewed for this call, because GitHub had refused the previous one.
	renewed bool
	// refusal says why the credential was refused, if a rule knows.
	refusal Refusal
	// redirect is the redirect in the answer, which was not followed; nil if there is none.
	redirect *refusedRedirect
}

const webPageAdvice = "; a web page is not an answer of GitHub's API: check the proxy or gateway on the way and the config URL"

// Error names the call, the answer, GitHub's reason, the IDs to quote to GitHub's support, and what to check.
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
	case e.redirect != nil:
		fmt.Fprintf(&text, "; %s", e.redirect)
	case e.webPage:
		text.WriteString(webPageAdvice)
	}
	return text.String()
}

// Is reports whether the answer means target, one of the sentinels.
func (e *Error) Is(target error) bool {
	meaning := e.meaning()
	return meaning != nil && errors.Is(meaning, target)
}

// Unwrap returns an *InsecureRedirectError if the answer redirects from https:// to http://, else nil.
func (e *Error) Unwrap() error {
	if e.redirect == nil || e.redirect.insecure == nil {
		return nil // not a nil *InsecureRedirectError, which would be an error
	}
	return e.redirect.insecure
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
		return ErrUnauthorized // whoever refused the credential: renewing it costs little
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

// advice says what to do about a refused credential: what the refusal asks for or, if no rule knows it, what to check.
func (e *Error) advice() string {
	advice := cmp.Or(e.refusal.Advice, credentialAdvice[e.Credential])
	switch {
	case advice == "" || !errors.Is(e, ErrUnauthorized):
		return ""
	case e.renewed:
		return "it was renewed and refused again; " + advice
	}
	return advice
}

// RateLimitedError says that GitHub is rate limiting the caller: the limit ends after the call's deadline, or still held at the last
// attempt. It wraps the answer's *Error. By GitHub's documentation a limit is a 429, or a 403 with Retry-After, with
// X-RateLimit-Remaining: 0 or with the text of the secondary limit.
type RateLimitedError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Until is the earliest time at which it makes sense to repeat the call.
	Until time.Time
	// Assumed is set if GitHub did not name that time and Until is a minute ahead. A caller may follow its own back-off instead.
	Assumed bool
	// Err is the answer, with its status and request IDs.
	Err error
}

// Error says until when GitHub limits the caller, if it said so, and what it answered.
func (e *RateLimitedError) Error() string {
	if e.Assumed {
		return fmt.Sprintf("rate limited by GitHub, which did not say until when: %v", e.Err)
	}
	return fmt.Sprintf("rate limited by GitHub until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the answer.
func (e *RateLimitedError) Unwrap() error { return e.Err }

// RetryAt returns when a call that failed with err may be repeated: at earliest, or later if GitHub said so, or a gateway that
// answered 503 in its place. A gateway is believed for at most a minute.
func RetryAt(err error, earliest time.Time) time.Time {
	if limited, ok := errors.AsType[*RateLimitedError](err); ok && limited.Until.After(earliest) {
		return limited.Until
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.RetryAt.After(earliest) {
		return answer.RetryAt
	}
	return earliest
}

// NamesException reports whether err is an answer that names an exception of the Actions service. Such an answer comes from the
// service itself, never from a proxy or gateway on the way.
func NamesException(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.TypeName != ""
}

// LacksReadByID reports whether [Client.GetRunnerScaleSetByID] failed because the service does not have this call. ARC never makes
// it, so a server that stands in for GitHub may lack it. GitHub has it, and names an exception if it lacks the scale set.
func LacksReadByID(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.Endpoint == EndpointGetScaleSet && answer.TypeName == "" &&
		slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, answer.StatusCode)
}

// IsRejected reports whether GitHub refused the call itself (4xx), so that repeating it is useless. 408 does not count, because
// proxies send it about a poll that is held; nor does ErrForeignAnswer.
func IsRejected(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusRequestTimeout && !errors.Is(err, ErrForeignAnswer)
}

// NetworkError says that no complete answer came, because of GitHub, a proxy, the network in between, or the end of the call's
// time. It wraps the cause, and the last complete answer if an earlier attempt had one.
type NetworkError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Method is the HTTP method.
	Method string
	// URL is the address without its query, user name and password.
	URL string
	// Attempts is how many attempts were made, at least 1.
	Attempts int
	// Err is the cause.
	Err error
	// LastAnswer is the answer to an earlier attempt, nil if there was none.
	LastAnswer *Error

	// text is the cause's text without secrets.
	text string
}

// Error names the call, the last attempt and its cause, and the last answer if there was one.
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

// TimeoutError says that one of this client's deadlines passed. It matches context.DeadlineExceeded.
type TimeoutError struct {
	// After is the time that was allowed.
	After time.Duration
}

// UnexpectedResponseError reports a success that lacks what the protocol promises. It matches ErrForeignAnswer if it is a web page.
type UnexpectedResponseError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Err says what is wrong with the answer.
	Err error
}

// Error names the call and what is wrong with its answer. It does not blame GitHub for a web page, or for an address that this
// client refuses.
func (e *UnexpectedResponseError) Error() string {
	if errors.Is(e.Err, ErrForeignAnswer) || isRefusedAddress(e.Err) {
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

// ignore returns err, or nil if it matches harmless.
func ignore(harmless, err error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
