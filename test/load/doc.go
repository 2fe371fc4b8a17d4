// Package load measures the product under load. It runs on package rig: charts, manager, listener and API server are
// real, GitHub and the node are simulated.
//
//	make load SCENARIO=burst N=1000
//
// In the same run, before and after a burst, a plain client is measured that creates the same objects without deciding
// anything. The time of the burst is reported as a ratio to this floor, because absolute times depend on the machine.
// Requests are counted from the API server's audit log, calls to GitHub by the simulated one, and CPU and memory are
// read from /proc. The result is a table and, with -json, a file.
//
// Without flags, as in CI, a small burst is checked against the budgets that hold on every machine (see budgets.go).
// docs/measuring.md has the method, and how to measure another controller; docs/performance.md has the figures.
package load
