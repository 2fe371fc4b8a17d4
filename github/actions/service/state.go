package service

import (
	"net/url"
	"sync/atomic"
	"time"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
)

// Service is the Actions service, and GitHub's REST API, for one config URL and one set of credentials. It is safe for
// concurrent use.
type Service struct {
	*exchange.Caller

	source     *credential.Source
	connection *Shared[connection]
	// installation takes the place of a personal access token for an App; nobody asks for it if there is no App.
	installation *Shared[installationToken]
	// renewFrom is the earliest time, in Unix nanoseconds, to renew a connection that is still good. It is set when a
	// renewal has failed; zero sets no limit.
	renewFrom atomic.Int64
	// reconnectFrom is the earliest time to replace a connection that is only suspected to be outdated, in the same
	// unit. It is set when a registration has failed.
	reconnectFrom atomic.Int64
	// proven is set when GitHub has accepted the credential.
	proven atomic.Bool
}

// A connection is trusted for connectionTrust after GitHub has given it. In that time, a service that is down, a
// missing permission, or things that don't exist, such as runners that GitHub itself has removed, cause at most one
// registration.
const connectionTrust = 5 * time.Minute

// connection is the address of the Actions service and the admin token for it. A renewal may change both.
type connection struct {
	serviceURL *url.URL
	token      string
	lifetime
}

// An installationToken is for a GitHub App's calls of GitHub's REST API. GitHub lets it live for an hour.
type installationToken struct {
	token string
	lifetime
}
