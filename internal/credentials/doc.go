// Package credentials turns what an object says about GitHub (config URL, credential Secret or vault, proxy, certificate
// authorities) into a client of the Actions service that is shared by everybody who says the same.
//
//	Reference ─▶ Resolve: Secret or vault, ConfigMap, proxy Secrets ─▶ Resolved ─▶ Client
//
// The manager has no watch on Secrets. What a Reference names is read again once it is older than RereadAfter, and at
// once after GitHub answered 401. Clients are keyed by the values and not by the names, so a rotated token, a new CA or a
// changed proxy password leads to a new client and the old one is dropped when nobody has used it for a while.
//
// No lock is held while the API server, a vault or GitHub is asked: a slow namespace delays only those who need it.
// No error text holds a value that was read.
package credentials
