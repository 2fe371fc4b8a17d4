// Package chaos tests that no order of faults loses a job or leaves anything behind. Each run has a cluster of its own
// with the real programs (package rig), 60 jobs that come over a minute, and eight faults at times that follow from a seed:
// of the programs, the pods, their nodes, GitHub, the API server and, below it, etcd, which is frozen or killed for a while.
// Beside them operators delete runner objects and change the scale set while reports of jobs are lost, so that GitHub has
// to be asked about runners that have a job:
//
//	seed ─▶ schedule (pure) ─▶ world: queue jobs, strike, observe ─▶ verdict: what every run must come to
//
// `make chaos SEED=7` repeats a run, `make chaos SEEDS=20` makes the first twenty, `make chaos HOURS=8` goes on with new
// ones until its time is over or somebody presses Ctrl-C, and finishes those that it has begun. The order of events within
// a run still depends on the machine, so a seed that failed may pass.
package chaos
