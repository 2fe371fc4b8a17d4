// Package manager turns flags and environment variables into a running manager:
//
//	ParseOptions ─▶ Run: health server ─▶ CRDs have our fields? ─▶ cache, client, metrics ─▶ controllers
//
// It decides nothing about runners. It does decide what is cached and what never is, how many requests the API server gets,
// which replica leads, and what "healthy" and "ready" mean.
package manager
