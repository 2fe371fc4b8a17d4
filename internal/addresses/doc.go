// Package addresses decides which addresses manager and listener connect to on behalf of a scale set. Whoever writes an
// AutoscalingRunnerSet chooses githubConfigUrl, proxies and a vault, and with them what programs request that run where
// its author may not: beside cloud metadata, node-local agents and the programs' own ports.
//
//	flags.allowedGitHubURLs ─▶ Policy ─▶ a check of the fields ─▶ a check of each connection
//
// Fields are checked before any request. But a name shows where it leads only when it is resolved, so connections are
// checked, too.
package addresses
