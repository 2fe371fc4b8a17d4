// Package manager makes a running manager out of flags and environment:
//
//	ParseOptions ─▶ Run: health server ─▶ CRDs have our fields? ─▶ cache, client, metrics ─▶ controllers
//
// It decides nothing about runners. What it does decide: what is cached and what never is, how many requests the API
// server gets, who leads, and what "healthy" and "ready" mean.
package manager
