package actions

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Options configure a [Client]. The zero value works.
type Options struct {
	// UserAgent identifies the calling program in every request.
	UserAgent UserAgent
	// RootCAs are all certificate authorities to trust; [CertPool] adds some to the system's. nil means the system's.
	RootCAs *x509.CertPool
	// Proxy returns the proxy for a request, or nil if it needs none. A nil function means HTTP_PROXY, HTTPS_PROXY and NO_PROXY, which
	// NewClient reads once.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses decides which addresses the client uses. The zero value allows all.
	Addresses AddressCheck
	// Resolver finds the addresses of names; nil means the system's.
	Resolver *net.Resolver
	// Budget limits the memory for answers, together with other clients; nil means that only each answer is limited.
	Budget *Budget
	// Logger receives renewals at info, and answers and repetitions at V(1). The latter go to the logger in the call's context
	// if there is one. No credential is ever logged.
	Logger logr.Logger
	// Clock tells the time for expiry and pauses; nil means the real clock. Deadlines always run in real time, as contexts do.
	Clock clock.WithTicker
	// OnRequest is called after every attempt unless it is nil. Calls may be concurrent, and it must not block.
	OnRequest func(RequestInfo)
}

// ErrNoCertificate means that a text has no certificate in PEM form.
var ErrNoCertificate = errors.New("no certificate in PEM form")

// CertPool returns a pool of the system's certificates and those in pem, for [Options]. If pem is empty, it returns nil: the
// system's certificates only. It fails with ErrNoCertificate if pem is not empty and has no certificate that can be parsed.
func CertPool(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system whose certificates can't be read still has those in pem
	}
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, ErrNoCertificate
	}
	return pool, nil
}

// RequestInfo describes one attempt of a call, for metrics.
type RequestInfo struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	// StatusCode is the answer's HTTP status, or 0 if no complete answer came.
	StatusCode int
	// Duration is how long the attempt took, reading the answer included.
	Duration time.Duration
	// Err says why no complete answer came; nil if one did, whatever its status.
	Err error
	// RateLimit is the credential's limit according to the answer. It is nil if the answer has none, as those of the Actions service.
	RateLimit *RateLimit
	// TokenExpires is when the request's personal access token expires (header GitHub-Authentication-Token-Expiration); zero if
	// the answer does not say.
	TokenExpires time.Time
}

// Status returns the HTTP status as a metric's label: "none" if no complete answer came, "other" if HTTP has no such status. Each one
// creates series, and the server may be anybody's.
func (i RequestInfo) Status() string {
	switch {
	case i.StatusCode == 0:
		return "none"
	case http.StatusText(i.StatusCode) == "":
		return "other"
	}
	return strconv.Itoa(i.StatusCode)
}

// ShowsExpiry reports whether the attempt obtained a registration token, about once an hour: only this call carries the personal
// access token. A zero TokenExpires then means that the token does not expire, or that GitHub does not say when.
func (i RequestInfo) ShowsExpiry() bool {
	return i.Endpoint == EndpointRegistrationToken && i.StatusCode >= 200 && i.StatusCode < 300
}

// RateLimit is how many requests for a resource of the REST API are left (headers X-RateLimit-…).
type RateLimit struct {
	// Resource is GitHub's name for what is limited, such as "core"; "other" if GitHub's documentation does not have the name.
	Resource string
	// Remaining is how many requests GitHub accepts until Reset.
	Remaining int
	// Reset is when the limit starts over, on GitHub's clock; zero if the answer does not say.
	Reset time.Time
}

// Client talks to GitHub about one config URL, with one set of credentials. It is safe for concurrent use.
type Client struct {
	config     *ConfigURL
	source     credentialSource
	userAgent  UserAgent
	transport  *Transport
	addresses  AddressCheck
	budget     *Budget
	log        logr.Logger
	clock      clock.WithTicker
	observe    func(RequestInfo)
	deadlines  deadlines
	connection *shared[connection]
	// offline is the last list of runners that are not connected.
	offline *shared[OfflineRunners]
	// renewFrom is the earliest time, in Unix nanoseconds, to renew a connection that is still good. It is set when a renewal has
	// failed; zero sets no limit.
	renewFrom atomic.Int64
	// reconnectFrom is the earliest time to replace a connection that is only suspected to be outdated, in the same unit. It is
	// set when a registration has failed.
	reconnectFrom atomic.Int64
}

// deadlines are a field of Client because tests shorten them.
type deadlines struct {
	call, attempt, poll time.Duration
}

// NewClient returns a client for the organization, repository or enterprise at configURL. It checks its arguments and does not
// talk to GitHub yet. It fails with *InvalidConfigURLError or ErrInvalidCredentials.
func NewClient(configURL string, credentials Credentials, options Options) (*Client, error) {
	config, err := ParseConfigURL(configURL)
	if err != nil {
		return nil, err
	}
	source, err := credentials.source()
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", config, err)
	}
	client := &Client{
		config:    config,
		source:    source,
		userAgent: options.UserAgent,
		transport: NewTransport(options),
		addresses: options.Addresses,
		budget:    options.Budget,
		log:       options.Logger,
		clock:     options.Clock,
		observe:   options.OnRequest,
		deadlines: deadlines{call: CallTimeout, attempt: AttemptTimeout, poll: PollTimeout},
	}
	if client.clock == nil {
		client.clock = clock.RealClock{}
	}
	client.connection = &shared[connection]{fetch: client.connectUnlessLimited(), limit: client.deadlines.call}
	client.offline = &shared[OfflineRunners]{fetch: client.listOfflineRunners, limit: runnersTimeout}
	return client, nil
}

// CloseIdleConnections closes the connections that no call is using. Call it when the client is replaced.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }
