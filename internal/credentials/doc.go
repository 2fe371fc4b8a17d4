// Package credentials turns what an object says about GitHub (config URL, credential Secret or vault, proxy,
// certificate authorities) into a client of the Actions service. Objects that say the same share a client.
//
//	Reference ─▶ Resolve: Secret or vault, ConfigMap, proxy Secrets ─▶ Resolved ─▶ Client
//
// The manager does not watch Secrets. What a Reference names is read again when it is older than RereadInterval, and
// immediately after GitHub answered 401 or somebody calls Reread. Clients are keyed by values, not by names, so a
// rotated token, a new CA or a changed proxy password leads to a new client, and the old one is dropped when it has not
// been used for a while.
//
// No lock is held during a call to the API server, a vault or GitHub: a slow namespace delays only its own callers. No
// error text contains a value that was read.
package credentials
