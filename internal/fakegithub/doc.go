// Package fakegithub is an in-memory GitHub for tests, demos and measurements:
// the REST calls by which a client registers, the Actions service with scale
// sets and JIT configs, the message queue, and a simulated runner that takes a
// JIT config and runs jobs. It is written from the description of the wire
// protocol alone and shares no code with the client it tests, so that a mistake
// on one side does not hide the same mistake on the other.
//
// What GitHub knows lives in package state, a pure state machine. This package
// adds the clock, one lock, HTTP and faults: any call can be delayed, refused,
// cut short, or lost after it was carried out. Everything under /_runner/ and
// /_control/ is private to this project.
//
// Product code never imports it.
package fakegithub
