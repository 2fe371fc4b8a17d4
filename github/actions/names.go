package actions

import (
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// What the packages below have for users of a client. They need only import this one.

// Where runners register, and how a client authenticates.
type (
	// ConfigURL is the parsed web address of the organization, repository or enterprise at which runners register.
	ConfigURL = configurl.URL
	// Scope is the level of GitHub at which a scale set is registered.
	Scope = configurl.Scope
	// InvalidConfigURLError reports a config URL that can't be used.
	InvalidConfigURLError = configurl.InvalidError
	// Credentials authenticate to GitHub's REST API: a personal access token or a GitHub App.
	Credentials = credential.Credentials
	// AppCredentials are the credentials of a GitHub App.
	AppCredentials = credential.AppCredentials
)

// How a client makes requests.
type (
	// Options configure a [Client]. The zero value works.
	Options = exchange.Options
	// UserAgent identifies the calling program to GitHub.
	UserAgent = exchange.UserAgent
	// AddressCheck decides which addresses a client uses.
	AddressCheck = exchange.AddressCheck
	// Destination is the target of a connection that is about to be opened.
	Destination = exchange.Destination
	// Transport carries requests as those of a [Client]: with its proxy, timeouts, limits and [AddressCheck].
	Transport = exchange.Transport
	// Budget limits the bytes of large answers that are in memory at the same time, for all clients that share it.
	Budget = exchange.Budget
	// RequestInfo describes one attempt of a call, for metrics.
	RequestInfo = exchange.RequestInfo
	// RateLimit counts the requests for a resource of the REST API that are left.
	RateLimit = exchange.RateLimit
)

// What calls fail with. Each says in its own package what it has and matches.
type (
	// Error is an unsuccessful answer from GitHub.
	Error = failure.Error
	// RateLimitedError reports that GitHub is rate limiting the caller, and the end of the limit.
	RateLimitedError = failure.RateLimitedError
	// NetworkError reports that no complete answer came.
	NetworkError = failure.NetworkError
	// TimeoutError reports that one of this client's deadlines passed.
	TimeoutError = failure.TimeoutError
	// UnexpectedResponseError reports a success that lacks what the protocol promises.
	UnexpectedResponseError = failure.UnexpectedResponseError
	// RefusedAddressError reports an address that the client's [AddressCheck] refused.
	RefusedAddressError = failure.RefusedAddressError
	// InsecureRedirectError reports an https:// address that leads to one without TLS.
	InsecureRedirectError = failure.InsecureRedirectError
	// Refusal is GitHub's refusal of a credential: its class, and who has to do what.
	Refusal = failure.Refusal
	// RefusalClass is GitHub's reason to refuse a credential.
	RefusalClass = failure.RefusalClass
)

// Sentinel errors, to be matched with errors.Is; package failure has the meaning of each.
var (
	ErrNotFound            = failure.ErrNotFound
	ErrRunnerNotFound      = failure.ErrRunnerNotFound
	ErrScaleSetNotFound    = failure.ErrScaleSetNotFound
	ErrRunnerGroupNotFound = failure.ErrRunnerGroupNotFound
	ErrSessionNotFound     = failure.ErrSessionNotFound
	ErrRunnerExists        = failure.ErrRunnerExists
	ErrScaleSetExists      = failure.ErrScaleSetExists
	ErrSessionConflict     = failure.ErrSessionConflict
	ErrJobStillRunning     = failure.ErrJobStillRunning
	ErrUnauthorized        = failure.ErrUnauthorized
	ErrForeignAnswer       = failure.ErrForeignAnswer
	ErrTruncated           = failure.ErrTruncated
	// ErrInvalidCredentials means that the credentials can't work, which is known without asking GitHub.
	ErrInvalidCredentials = credential.ErrInvalid
)

// The scopes that a config URL can name.
const (
	ScopeOrganization = configurl.ScopeOrganization
	ScopeRepository   = configurl.ScopeRepository
	ScopeEnterprise   = configurl.ScopeEnterprise
)

// Kinds of credentials, for [Error.Credential].
const (
	CredentialPersonalAccessToken = credential.PersonalAccessToken
	CredentialApp                 = credential.App
	CredentialInstallationToken   = credential.InstallationToken
	CredentialRegistrationToken   = credential.RegistrationToken
	CredentialAdminToken          = credential.AdminToken
	CredentialQueueToken          = credential.QueueToken
)

// Limits of time and memory; package exchange explains their values.
const (
	CallTimeout    = exchange.CallTimeout
	AttemptTimeout = exchange.AttemptTimeout
	PollTimeout    = exchange.PollTimeout
	FirstBytes     = exchange.FirstBytes
)

// Names of GitHub's endpoints, for metrics and errors.
const (
	EndpointInstallationToken = failure.EndpointInstallationToken
	EndpointRegistrationToken = failure.EndpointRegistrationToken
	EndpointRegister          = failure.EndpointRegister
	EndpointListRunners       = failure.EndpointListRunners
	EndpointRunnerDownloads   = failure.EndpointRunnerDownloads
	EndpointRunnerReleases    = failure.EndpointRunnerReleases
	EndpointGetRun            = failure.EndpointGetRun
	EndpointListRunJobs       = failure.EndpointListRunJobs
	EndpointListRuns          = failure.EndpointListRuns
	EndpointRerunJob          = failure.EndpointRerunJob
	EndpointRerunFailedJobs   = failure.EndpointRerunFailedJobs
	EndpointListCheckRuns     = failure.EndpointListCheckRuns
	EndpointCreateCheckRun    = failure.EndpointCreateCheckRun
	EndpointUpdateCheckRun    = failure.EndpointUpdateCheckRun
	EndpointFindScaleSet      = failure.EndpointFindScaleSet
	EndpointGetScaleSet       = failure.EndpointGetScaleSet
	EndpointCreateScaleSet    = failure.EndpointCreateScaleSet
	EndpointUpdateScaleSet    = failure.EndpointUpdateScaleSet
	EndpointDeleteScaleSet    = failure.EndpointDeleteScaleSet
	EndpointFindRunnerGroup   = failure.EndpointFindRunnerGroup
	EndpointGenerateJITConfig = failure.EndpointGenerateJITConfig
	EndpointGetAcquirableJobs = failure.EndpointGetAcquirableJobs
	EndpointAcquireJobs       = failure.EndpointAcquireJobs
	EndpointCreateSession     = failure.EndpointCreateSession
	EndpointRefreshSession    = failure.EndpointRefreshSession
	EndpointDeleteSession     = failure.EndpointDeleteSession
	EndpointGetRunner         = failure.EndpointGetRunner
	EndpointFindRunner        = failure.EndpointFindRunner
	EndpointRemoveRunner      = failure.EndpointRemoveRunner
	EndpointGetMessage        = failure.EndpointGetMessage
	EndpointDeleteMessage     = failure.EndpointDeleteMessage
)

// The classes of refusals.
const (
	RefusedCredential   = failure.RefusedCredential
	RefusedExpired      = failure.RefusedExpired
	RefusedSuspension   = failure.RefusedSuspension
	RefusedAddress      = failure.RefusedAddress
	RefusedSingleSignOn = failure.RefusedSingleSignOn
	RefusedPermission   = failure.RefusedPermission
	RefusedTokenPolicy  = failure.RefusedTokenPolicy
	RefusedClock        = failure.RefusedClock
	RefusedApp          = failure.RefusedApp
	RefusedRunners      = failure.RefusedRunners
	RefusedRepository   = failure.RefusedRepository
	RefusedAccount      = failure.RefusedAccount
	RefusedHidden       = failure.RefusedHidden
	RefusedLogins       = failure.RefusedLogins
)

// ParseConfigURL parses https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or
// https://HOST/enterprises/ENTERPRISE. It fails with *InvalidConfigURLError, which has the address to use instead, if
// that is known.
func ParseConfigURL(in string) (*ConfigURL, error) { return configurl.Parse(in) }

// NewTransport returns a transport with Proxy, RootCAs, Addresses and Resolver of the options. Programs can use it for
// requests of their own that have to follow the same rules.
func NewTransport(options Options) *Transport { return exchange.NewTransport(options) }

// NewBudget returns a budget of which one client gets at most perClient bytes. That is also the size of the largest
// answer that a client accepts.
func NewBudget(total, perClient int64) *Budget { return exchange.NewBudget(total, perClient) }

// RetryAt returns the time from which a call that failed with err may be repeated: earliest, or a later one if GitHub
// named it, or a gateway that answered 503 in its place. A gateway is believed for at most a minute.
func RetryAt(err error, earliest time.Time) time.Time { return failure.RetryAt(err, earliest) }

// NamesException reports whether err is an answer that names an exception of the Actions service. Such an answer comes
// from the service itself, never from a proxy or gateway on the way.
func NamesException(err error) bool { return failure.NamesException(err) }

// IsRejected reports whether GitHub refused the call itself (4xx), so that repeating it is useless. 408 does not count,
// because proxies send it about a poll that is held; nor does ErrForeignAnswer.
func IsRejected(err error) bool { return failure.IsRejected(err) }

// LacksReadByID reports whether [Client.GetRunnerScaleSetByID] failed because the service does not have this call. ARC
// never makes it, so a server that stands in for GitHub may lack it. GitHub has it, and names an exception if it lacks
// the scale set.
func LacksReadByID(err error) bool { return failure.LacksReadByID(err) }

// RefusalClasses returns all classes.
func RefusalClasses() []RefusalClass { return failure.RefusalClasses() }

// RefusalOf returns the class and the advice for an error that matches ErrUnauthorized. Of a refusal that no rule knows
// the class is RefusedCredential; the error's own text quotes GitHub.
func RefusalOf(err error) (refusal Refusal, refused bool) { return failure.RefusalOf(err) }

// Quote returns a foreign text as errors show it: Printable, short, and without the secrets that were sent to whoever
// it is from, and what looks like others.
func Quote(text string, secrets ...string) string { return failure.Quote(text, secrets...) }

// Printable returns a text of GitHub, such as the name that somebody gave a job, with spaces instead of what a terminal
// or a log would not show as it is.
func Printable(text string) string { return failure.Printable(text) }
