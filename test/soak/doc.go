// Package soak lets the controllers of runners work for some simulated time, half an hour with `make soak`, and checks
// that they leave nothing in memory. The controllers are the real ones, on controller-runtime's fake client and in a
// testing/synctest bubble; the test plays the listener, the kubelet and GitHub. The listener has its own soak test of a
// simulated hour, and `make load SCENARIO=soak` runs the real programs in real time.
package soak
