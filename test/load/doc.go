// Package load measures the product under load, on the rig: real charts, manager, listener and API server, a played
// GitHub and a played node.
//
//	make load SCENARIO=burst N=1000
//
// A plain client that creates the same objects without deciding anything is measured in the same run, before and after
// the load; what a burst takes is told as a ratio to this floor, because absolute times are the machine's. Requests are
// counted from the API server's audit log, calls to GitHub by the played one, CPU and memory from /proc. The result is a
// table and, with -json, a file.
//
// Without flags a small burst is checked against the budgets that no machine changes (see budgets.go), which is what
// CI does. docs/performance.md has the method, the figures, and how to measure another controller.
package load
