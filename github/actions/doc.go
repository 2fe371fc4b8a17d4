// Package actions is a client of the GitHub Actions service for runner scale sets: it manages scale sets, receives their
// messages about jobs, and registers and removes runners.
//
// Everything in this module that talks to GitHub uses it, in the manager's controllers and in the listener. It knows nothing of
// Kubernetes and can be used on its own:
//
//	NewClient ─▶ scale set (find, create, update, delete)
//	          ─▶ JIT config for a runner, look-up and removal of runners
//	          ─▶ CreateSession ─▶ GetMessage / AcquireJobs / DeleteMessage … ─▶ Close
//
// # Credentials
//
// Calls need a chain of tokens: a personal access token or a GitHub App yields a registration token, that one an admin token for
// the Actions service, and a session a queue token. The client obtains and renews them as needed. Calls may run concurrently: no
// lock is held during a request, and callers that need the same renewal share it.
//
// # Deadlines
//
// Every call ends within [CallTimeout], repetitions included. Only [Session.GetMessage] may take longer: each attempt of it ends
// within [PollTimeout]. A context that ends earlier ends the call earlier.
//
// # Errors
//
// Failures are typed. [*Error] is an unsuccessful answer from GitHub; errors.Is matches it with the Err… sentinels.
// [*RateLimitedError] says when to try again. [*NetworkError] means that no complete answer came. [*UnexpectedResponseError] is a
// success that breaks the protocol, and [*MalformedMessageError] a message that does: it carries what could be read. No error, log
// line or printed value holds a credential or a JIT config.
//
// # Sources
//
// GitHub documents its REST API, but not the Actions service. What this package knows about the service was read from the code of
// GitHub's own clients: github.com/actions/scaleset v0.4.0, and the client that actions-runner-controller (ARC) had until 0.13.1.
// Where a comment says "observed", the source is what users of these clients have reported in public.
package actions
