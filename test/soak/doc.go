// Package soak lets the controllers of runners work for some simulated time, half an hour with `make soak`, and looks at what stays in memory. They are
// the real ones, on controller-runtime's fake API server and in a testing/synctest bubble; the test plays the listener, the
// kubelet and GitHub. The listener's own simulated hour is among its tests, the real programs' is `make load SCENARIO=soak`.
package soak
