// Package failure explains failed calls to GitHub: it turns an answer that is no success, or the lack of one, into a
// typed error with GitHub's reason and what to do about it. Only what GitHub itself says is quoted, and no credential.
//
// It is the room below the exchange of requests: it gets answers and sends nothing. To teach it an exception of the
// Actions service, the meaning of a status or a way to refuse a credential, extend one of its tables: exceptions,
// endpoints, refusalRules.
package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Error is an unsuccessful answer from GitHub. errors.Is matches it with the sentinels, by its exception or else its
// status.
type Error struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// StatusCode is the HTTP status of the last attempt.
	StatusCode int
	// TypeName is the name of the Actions service's exception, such as
	// GitHub.DistributedTask.WebApi.TaskAgentNotFoundException. It is empty if the answer names none.
	TypeName string
	// Message is GitHub's own explanation, cut after 512 bytes.
	Message string
	// ActivityID and RequestID identify the call in GitHub's logs (headers ActivityId and X-GitHub-Request-Id).
	ActivityID string
	RequestID  string
	// Credential is the credential that the call carried, one of the constants of package credential.
	Credential string
	// RetryAt is the time for the next attempt according to an answer that is not a rate limit, at most a minute ahead.
	// It is zero if the answer does not say.
	RetryAt time.Time

	// rateLimited keeps a 403 that means "later" from being treated as a refused credential.
	rateLimited bool
	// webPage is set if the answer is markup.
	webPage bool
	// renewed is set if the credential was renewed for this call, because GitHub had refused the previous one.
	renewed bool
	// refusal is the reason why the credential was refused, if a rule knows it.
	refusal Refusal
	// redirect is the redirect in the answer, which was not followed; nil if there is none.
	redirect *Redirect
}

// Error names the call, the answer, GitHub's reason, the IDs to quote to GitHub's support, and what to check.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(
		&text, "%s: GitHub answered %d %s: %s", Words(e.Endpoint), e.StatusCode, http.StatusText(e.StatusCode),
		e.Message,
	)
	for _, detail := range []struct{ name, value string }{
		{"type", e.TypeName}, {"ActivityId", e.ActivityID}, {"X-GitHub-Request-Id", e.RequestID},
	} {
		if detail.value != "" {
			fmt.Fprintf(&text, " [%s %s]", detail.name, detail.value)
		}
	}
	if advice := e.nextStep(); advice != "" {
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
	if e.rateLimited {
		return false
	}
	meaning := meaningOf(e.Endpoint, e.StatusCode, e.TypeName, e.webPage)
	return meaning != nil && errors.Is(meaning, target)
}

// Unwrap returns an *InsecureRedirectError if the answer redirects from https:// to http://, else nil.
func (e *Error) Unwrap() error {
	if e.redirect == nil || e.redirect.Insecure == nil {
		return nil // not a nil *InsecureRedirectError, which would be an error
	}
	return e.redirect.Insecure
}

// nextStep is what to do about a refused credential: what the refusal asks for or, if no rule knows it, what to check.
func (e *Error) nextStep() string {
	advice := cmp.Or(e.refusal.Advice, credentialAdvice[e.Credential])
	switch {
	case advice == "" || !errors.Is(e, ErrUnauthorized):
		return ""
	case e.renewed:
		return "it was renewed and refused again; " + advice
	}
	return advice
}

// RateLimitedError reports that GitHub is rate limiting the caller: the limit ends after the call's deadline, or still
// held at the last attempt. It wraps the answer's *Error. By GitHub's documentation a limit is a 429, or a 403 with
// Retry-After, with X-RateLimit-Remaining: 0 or with the text of the secondary limit.
type RateLimitedError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Until is the earliest time at which it makes sense to repeat the call.
	Until time.Time
	// Assumed is set if GitHub did not name that time and Until is a minute ahead. A caller may follow its own back-off
	// instead.
	Assumed bool
	// Err is the answer, with its status and request IDs.
	Err error
}

// Error names the end of GitHub's limit, if GitHub has named it, and the answer.
func (e *RateLimitedError) Error() string {
	if e.Assumed {
		return fmt.Sprintf("rate limited by GitHub, which did not say until when: %v", e.Err)
	}
	return fmt.Sprintf("rate limited by GitHub until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the answer.
func (e *RateLimitedError) Unwrap() error { return e.Err }

const webPageAdvice = "; a web page is not an answer of GitHub's API: check the proxy or gateway on the way and the " +
	"config URL"

// NetworkError reports that no complete answer came, because of GitHub, a proxy, the network in between, or the end of
// the call's time. It wraps the cause, and the last complete answer if an earlier attempt had one.
type NetworkError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Method is the HTTP method.
	Method string
	// URL is the address without its query, user name and password.
	URL string
	// Attempts counts the attempts that were made, at least 1.
	Attempts int
	// Err is the cause.
	Err error
	// LastAnswer is the answer to an earlier attempt, nil if there was none.
	LastAnswer *Error

	// text is the cause's text without secrets.
	text string
}

// NewNetworkError returns an error like the given one for a call that carried the secrets. It drops the URL that net/http
// adds to the cause: it has the query, and a proxy's may have a password.
func NewNetworkError(e NetworkError, secrets ...string) *NetworkError {
	if wrapped, ok := errors.AsType[*url.Error](e.Err); ok {
		e.Err = wrapped.Err
	}
	e.text = Quote(textOf(e.Err), secrets...)
	return &e
}

// Error names the call, the last attempt and its cause, and the last answer if there was one.
func (e *NetworkError) Error() string {
	text := fmt.Sprintf("%s: %s %s: attempt %d: %s", Words(e.Endpoint), e.Method, e.URL, e.Attempts, e.text)
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

// TimeoutError reports that one of this client's deadlines passed. It matches context.DeadlineExceeded.
type TimeoutError struct {
	// Limit is the time that was allowed.
	Limit time.Duration
}

// WithTimeout returns a context that ends after limit because of a *TimeoutError.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &TimeoutError{Limit: limit})
}

// Error names the time that was allowed.
func (e *TimeoutError) Error() string { return fmt.Sprintf("no complete answer within %s", e.Limit) }

// Timeout returns true. With it, the error is recognized as a timeout by code that expects a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap makes the error match context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// UnexpectedResponseError reports a success that lacks what the protocol promises. It matches ErrForeignAnswer if it is
// a web page.
type UnexpectedResponseError struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// Err is what is wrong with the answer.
	Err error
}

// Error names the call and what is wrong with its answer. It does not blame GitHub for a web page, or for an address
// that this client refuses.
func (e *UnexpectedResponseError) Error() string {
	if errors.Is(e.Err, ErrForeignAnswer) || IsRefusedAddress(e.Err) {
		return fmt.Sprintf("%s: %v", Words(e.Endpoint), e.Err)
	}
	return fmt.Sprintf("%s: GitHub's answer breaks the protocol: %v", Words(e.Endpoint), e.Err)
}

// Unwrap returns what is wrong with the answer.
func (e *UnexpectedResponseError) Unwrap() error { return e.Err }

// Unexpected returns the error for a success that err makes useless.
func Unexpected(endpoint string, err error) error {
	return &UnexpectedResponseError{Endpoint: endpoint, Err: err}
}

// WebPage returns the error for a success that is a web page.
func WebPage(endpoint string, status int) error { return Unexpected(endpoint, &webPageError{status}) }

type webPageError struct{ status int }

func (e *webPageError) Error() string {
	return fmt.Sprintf("the answer was %d %s%s", e.status, http.StatusText(e.status), webPageAdvice)
}

func (e *webPageError) Unwrap() error { return ErrForeignAnswer }

// RefusedAddressError reports an address that the client's check of addresses refused. Nothing was sent there.
type RefusedAddressError struct {
	// Err is the check's own error.
	Err error

	// text is its text without secrets.
	text string
}

// NewRefusedAddressError returns the error for an address that a check has refused. The secrets are those of the request whose
// answer has named it.
func NewRefusedAddressError(err error, secrets ...string) *RefusedAddressError {
	return &RefusedAddressError{Err: err, text: Quote(err.Error(), secrets...)}
}

// Error returns the text of the check's error, as Quote shows it.
func (e *RefusedAddressError) Error() string { return e.text }

// Unwrap returns the check's error.
func (e *RefusedAddressError) Unwrap() error { return e.Err }

// InsecureRedirectError reports an https:// address that leads to one without TLS, where the credential would be sent
// in clear text. Nothing was sent there.
type InsecureRedirectError struct {
	// Endpoint is the call whose answer named the address, one of the Endpoint… constants.
	Endpoint string
	// From and To are the addresses, without queries.
	From, To string
}

// Error names both addresses and what to correct.
func (e *InsecureRedirectError) Error() string {
	return fmt.Sprintf("%s leads to %s, without TLS: the credential would be readable on the way and was not sent; "+
		"let the gateway in front of GitHub set X-Forwarded-Proto: https, so that GitHub names https:// addresses",
		e.From, e.To)
}

// Insecure returns an error if an https:// address leads to one without TLS, else nil. The call's answer names the
// address to; the secrets are those of the request.
func Insecure(endpoint string, from, to *url.URL, secrets ...string) *InsecureRedirectError {
	if from.Scheme != "https" || to.Scheme == "https" {
		return nil
	}
	return &InsecureRedirectError{Endpoint: endpoint, From: Bare(from, secrets...), To: Bare(to, secrets...)}
}

func (*RefusedAddressError) refusedByUs()   {}
func (*InsecureRedirectError) refusedByUs() {}

// IsRefusedAddress reports whether the client itself refused to use an address, so that repeating the call is useless.
func IsRefusedAddress(err error) bool {
	_, refused := errors.AsType[refusedByUs](err)
	return refused
}

// Redirect is a redirect that was not followed.
type Redirect struct {
	// To is the redirect's target.
	To string
	// Elsewhere is set if that is another host or port. Otherwise the redirect would turn the call into a GET.
	Elsewhere bool
	// Insecure is not nil if it leads from https:// to http://.
	Insecure *InsecureRedirectError
}

// String names the target of the redirect and what to check.
func (r *Redirect) String() string {
	const advice = "use that address's http:// or https:// and its host (without api.) in githubConfigUrl, or check " +
		"the proxy or gateway on the way"
	switch {
	case r.Insecure != nil:
		return r.Insecure.Error()
	case r.Elsewhere:
		return fmt.Sprintf(
			"it redirects to %s, on another host or port, where the credential is not sent: %s",
			r.To, advice,
		)
	}
	return fmt.Sprintf("it redirects to %s, which only a GET can follow: %s", r.To, advice)
}

// NamesException reports whether err is an answer that names an exception of the Actions service. Such an answer comes
// from the service itself, never from a proxy or gateway on the way.
func NamesException(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.TypeName != ""
}

// LacksReadByID reports whether the read of a scale set by its ID failed because the service does not have this call.
// ARC never makes it, so a server that stands in for GitHub may lack it. GitHub has it, and names an exception if it
// lacks the scale set.
func LacksReadByID(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.Endpoint == EndpointGetScaleSet && answer.TypeName == "" &&
		slices.Contains(
			[]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, answer.StatusCode,
		)
}

// IsRejected reports whether GitHub refused the call itself (4xx), so that repeating it is useless. 408 does not count,
// because proxies send it about a poll that is held; nor does ErrForeignAnswer.
func IsRejected(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusRequestTimeout &&
		!errors.Is(err, ErrForeignAnswer)
}

// IsRefused reports whether err is an answer with 401 to a call that carried this kind of credential.
func IsRefused(err error, credential string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.StatusCode == http.StatusUnauthorized && refused.Credential == credential
}

// MarkRenewal marks a call's error, and returns it: the refused credential had been renewed just before.
func MarkRenewal(err error, credential string) error {
	if refused, ok := errors.AsType[*Error](err); ok && refused.Credential == credential {
		refused.renewed = true
	}
	return err
}

// Ignore returns err, or nil if it matches harmless.
func Ignore(harmless, err error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// RefusalOf returns the class and the advice for an error that matches ErrUnauthorized. Of a refusal that no rule knows
// the class is RefusedCredential; the error's own text quotes GitHub.
func RefusalOf(err error) (refusal Refusal, refused bool) {
	if !errors.Is(err, ErrUnauthorized) {
		return Refusal{}, false
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.refusal.Class != "" {
		return answer.refusal, true
	}
	return Refusal{Class: RefusedCredential}, true
}
