// Package actions is a client of the GitHub Actions service as runner scale sets use it.
//
// It stands between everything in this module that talks to GitHub (the manager's controllers and
// the listener) and the network, knows nothing of Kubernetes, and can be used on its own:
//
//	NewClient ─▶ scale set (find, create, update, delete)
//	          ─▶ JIT config for a runner, look-up and removal of runners
//	          ─▶ CreateSession ─▶ GetMessage / AcquireJobs / DeleteMessage … ─▶ Close
//
// The chain of credentials (personal access token or GitHub App, registration token, admin token,
// queue token) is walked and renewed behind these calls. Calls may run concurrently: no lock is
// held across a request, and callers that need a renewal at the same time share one.
//
// Every call ends within CallTimeout including its repetitions, GetMessage within PollTimeout per
// attempt. A context that ends earlier ends the call earlier. Failures are typed: *Error is an
// answer of GitHub and matches the Err… sentinels, *RateLimitedError says until when to keep away,
// *NetworkError means that no complete answer came, *MalformedMessageError carries what could be
// read of a message. No error, log line or printed value holds a credential or a JIT config.
package actions
