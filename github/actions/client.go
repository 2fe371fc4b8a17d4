package actions

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Options of a Client. All may be left out.
type Options struct {
	UserAgent UserAgent
	// RootCAs are the certificate authorities to trust, system's and own together, as from CertPool; nil means the system's.
	RootCAs *x509.CertPool
	// Proxy chooses the proxy for a request; nil means HTTP_PROXY, HTTPS_PROXY and NO_PROXY as they are now.
	Proxy func(*http.Request) (*url.URL, error)
	// Logger gets renewals at info, answers and repetitions at V(1); a call whose context has a logger uses that one for the
	// latter. No credential is ever logged.
	Logger logr.Logger
	// Clock is for expiry and pauses; nil means the real one. Deadlines always run in real time, as contexts do.
	Clock clock.WithTicker
	// OnRequest is called after every attempt, concurrently, and must not block.
	OnRequest func(RequestInfo)
}

// ErrNoCertificate says that a text holds no certificate in PEM form.
var ErrNoCertificate = errors.New("no certificate in PEM form")

// CertPool returns the system's certificates with those in pem added; nil, which means the system's alone, for an empty pem. It
// fails with ErrNoCertificate.
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
	// StatusCode is 0 when no complete answer came; then Err says why.
	StatusCode int
	Duration   time.Duration
	Err        error
	// RateLimit is what the answer said of the credential's limit; nil where it said nothing, as the Actions service does.
	RateLimit *RateLimit
	// TokenExpires is when the personal access token of the request expires; zero where the answer did not say.
	TokenExpires time.Time
}

// Status is the HTTP status as a metric's label, "none" where no complete answer came.
func (i RequestInfo) Status() string {
	if i.StatusCode == 0 {
		return "none"
	}
	return strconv.Itoa(i.StatusCode)
}

// ShowsExpiry reports whether GitHub has accepted the credential itself, as it does once an hour: a zero TokenExpires then
// means that it does not expire, or that GitHub keeps that to itself.
func (i RequestInfo) ShowsExpiry() bool {
	return i.Endpoint == EndpointRegistrationToken && i.StatusCode >= 200 && i.StatusCode < 300
}

// RateLimit is how often a resource of the REST API may still be asked until Reset.
type RateLimit struct {
	Resource  string
	Remaining int
	Reset     time.Time
}

// Client talks to GitHub on behalf of one config URL with one set of credentials. It is safe for concurrent use.
type Client struct {
	config     *ConfigURL
	source     credentialSource
	userAgent  UserAgent
	transport  *http.Transport
	log        logr.Logger
	clock      clock.WithTicker
	observe    func(RequestInfo)
	deadlines  deadlines
	connection *shared[connection]
	// renewFrom is set when the renewal of a connection that is still good has failed: the next one is tried at this time at
	// the earliest, in Unix nanoseconds. Zero sets no limit.
	renewFrom atomic.Int64
	// reconnectFrom is set when a registration has failed: a connection that is only suspected to be outdated is replaced at
	// this time at the earliest. As renewFrom.
	reconnectFrom atomic.Int64
}

// deadlines are fields because tests shorten them.
type deadlines struct {
	call, attempt, poll time.Duration
}

// NewClient checks its arguments and makes a client; it doesn't talk to GitHub yet. It fails with
// *InvalidConfigURLError or ErrInvalidCredentials.
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
		transport: newTransport(options.RootCAs, options.Proxy),
		log:       options.Logger,
		clock:     options.Clock,
		observe:   options.OnRequest,
		deadlines: deadlines{call: CallTimeout, attempt: AttemptTimeout, poll: PollTimeout},
	}
	if client.clock == nil {
		client.clock = clock.RealClock{}
	}
	client.connection = &shared[connection]{fetch: client.connectUnlessLimited(), limit: client.deadlines.call}
	return client, nil
}

// CloseIdleConnections lets go of connections that carry no call. Use it when a client is replaced.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }
