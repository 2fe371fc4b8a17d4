// Package actions is a client of the GitHub Actions service for runner scale sets: it manages scale sets, receives
// their messages about jobs, and registers and removes runners.
//
// Everything in this module that talks to GitHub uses it, in the manager's controllers and in the listener. It knows
// nothing of Kubernetes and can be used on its own:
//
//	NewClient ─▶ scale set (find, create, update, delete)
//	          ─▶ JIT config for a runner, look-up and removal of runners
//	          ─▶ CreateSession ─▶ GetMessage / AcquireJobs / DeleteMessage … ─▶ Close
//
// It knows what can be asked and what the answers mean to a user. The packages below it carry out calls. Each of them
// knows only those after it in this list: service has the chain of tokens, exchange sends one request, failure explains
// a failed one, credential and configurl read the user's input. Users of a client need only this package: it also has
// the names from the others that they meet.
//
// # Credentials
//
// Calls need a chain of tokens: a personal access token or a GitHub App yields a registration token, that one an admin
// token for the Actions service, and a session a queue token. The client obtains and renews them as needed. Calls may
// run concurrently: no lock is held during a request, and callers that need the same renewal share it.
//
// # Deadlines
//
// Every call ends within [CallTimeout], repetitions included. Only [Session.GetMessage] may take longer: each attempt
// of it ends within [PollTimeout]. A context that ends earlier ends the call earlier.
//
// # Errors
//
// Failures are typed. [*Error] is an unsuccessful answer from GitHub; errors.Is matches it with the Err… sentinels.
// [*RateLimitedError] has the time to try again. [*NetworkError] means that no complete answer came.
// [*UnexpectedResponseError] is a success that breaks the protocol, and [*MalformedMessageError] a message that does:
// it carries what could be read. No error, log line or printed value holds a credential or a JIT config.
//
// # Compatibility
//
// The module has the version of Harrier, and follows semantic versioning for the names of this package; the packages
// below it are for this one, and promise nothing. Errors are told apart by errors.Is and errors.As alone: their texts
// change. Before 1.0, a change that the compiler finds may come with a minor version, and stands in docs/changelog.md.
//
// # Sources
//
// GitHub documents its REST API, but not the Actions service. What this package knows about the service was read from
// the code of GitHub's own clients: github.com/actions/scaleset v0.4.0, and the client that actions-runner-controller
// (ARC) had until 0.13.1. Where a comment says "observed", users of these clients have reported it in public.
package actions

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
)

// Client talks to GitHub about one config URL, with one set of credentials. It is safe for concurrent use.
type Client struct {
	service *service.Service
	// offline is the last list of runners that are not connected.
	offline *service.Shared[OfflineRunners]
}

// NewClient returns a client for the organization, repository or enterprise at configURL. It checks its arguments and
// does not talk to GitHub yet. It fails with *InvalidConfigURLError or ErrInvalidCredentials.
func NewClient(configURL string, credentials Credentials, options Options) (*Client, error) {
	config, err := configurl.Parse(configURL)
	if err != nil {
		return nil, err
	}
	source, err := credential.NewSource(credentials)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", config, err)
	}
	client := &Client{service: service.New(config, source, options)}
	client.offline = &service.Shared[OfflineRunners]{
		Fetch: func(ctx context.Context, _ *OfflineRunners) (*OfflineRunners, error) {
			return listOfflineRunners(ctx, client.service)
		},
		Limit: runnersTimeout,
	}
	return client, nil
}

// CloseIdleConnections closes the connections that no call is using. Call it when the client is replaced.
func (c *Client) CloseIdleConnections() { c.service.CloseIdleConnections() }

// Close ends the calls that are under way, and all later ones. Call it when nobody is to use the client any more.
func (c *Client) Close() { c.service.Close() }

// RESTRequest is a call to GitHub's REST API.
type RESTRequest struct {
	// Endpoint is one of the Endpoint… constants.
	Endpoint string
	Method   string
	// Path has the parts of the address below the API's own; each is escaped.
	Path  []string
	Query url.Values
	// Body is sent as JSON unless it is nil.
	Body any
	// Once is set if the call must not be carried out twice. If its answer is lost, it fails and may have been carried
	// out.
	Once bool
}

// CallREST calls GitHub's REST API with the client's personal access token, or the installation token that its calls
// share, and decodes the answer into result unless that is nil. It is for package rest, which knows the calls. It fails
// with the errors that the package comment lists.
func (c *Client) CallREST(ctx context.Context, r RESTRequest, result any) error {
	ctx, cancel := failure.WithTimeout(ctx, c.service.Deadlines.Call)
	defer cancel()
	address := c.service.Config.RESTURL(r.Path...)
	address.RawQuery = r.Query.Encode()
	answer, err := c.service.CallREST(ctx, exchange.Request{
		Endpoint: r.Endpoint, Method: r.Method, URL: address, Body: r.Body, Once: r.Once,
		Header: http.Header{"Accept": {"application/vnd.github+json"}, "Content-Type": {"application/json"}},
	})
	if err != nil {
		return err
	}
	defer answer.Free()
	if result == nil {
		return answer.Acknowledge()
	}
	return answer.Decode(result)
}

// ConfigURL returns the address at which the client registers runners.
func (c *Client) ConfigURL() *ConfigURL { return c.service.Config }

// Account is whose limits at GitHub calls use.
type Account struct {
	// Name is what people know of it: the App and its id, or that it is a token's.
	Name string
	// Key distinguishes it from others, also of the same name, and Owner is who brings the credential; both are those of
	// the client's [Options].
	Key, Owner string
	// Proven is set if GitHub has accepted the credential for a call of its REST API.
	Proven bool
}

// Account returns the account whose limits at GitHub the client uses.
func (c *Client) Account() Account {
	return Account{
		Name: c.service.Account(), Key: c.service.Caller.Account, Owner: c.service.Owner,
		Proven: c.service.IsProven(),
	}
}

// Now returns the time on the client's clock.
func (c *Client) Now() time.Time { return c.service.Clock.Now() }
