// Package state has what a GitHub knows about self-hosted runners: scale sets, sessions, messages, jobs and runner
// records, and the rules by which they change. It is a pure state machine: no HTTP, no goroutine, no lock and no clock.
// Every method takes the time at which it happens. Advance catches up with all that has become due since, in the order
// in which it fell due.
//
// Package fakegithub owns the lock and the clock and puts the wire protocol on
// top. State is not safe for concurrent use.
package state
