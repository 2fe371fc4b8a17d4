// Package chaos tests that no sequence of faults loses a job or leaves anything behind. Each run has a cluster of its
// own with the real programs (package rig), and 64 jobs that are queued over about a minute. Meanwhile eight faults
// strike at times that follow from a seed. They hit the programs, the pods, their nodes, GitHub, the API server and,
// below it, etcd, which is frozen or killed for a while. Besides, operators delete runner objects and change the scale
// set while reports of jobs are lost, so that the product has to ask GitHub which runners have a job. For some seconds
// the set takes no jobs, because its maximum is 0, or can't run any, while more are queued: in half of the runs GitHub
// never offers a set again what was queued while its session announced 0. The runners have claims that outlive them, in
// two zones, one of which is full for a while, or no volume can be mounted. GitHub may count jobs that don't exist, and
// lose the registrations of idle runners. Its clock may be an hour off, and so may those of the programs:
//
//	seed ─▶ schedule (pure) ─▶ world: queue jobs, strike, observe ─▶ verdict: what every run must come to
//	                                                                 hindsight: what must hold at every moment (package history)
//
// The API server's log of every run is read afterwards, and the summary says how many of the runs were judged by it, and
// of how much: a campaign in which one was not fails.
//
// `make chaos SEED=7` repeats a run, and `make chaos SEEDS=20` makes the first twenty. `make chaos HOURS=8` begins runs
// with new seeds for 8 hours, or until Ctrl-C, and finishes those that it has begun. The order of events within a run
// still depends on the machine, so a seed that failed may pass when it is repeated.
//
// One fault has a test of its own, because its consequences take a quarter of an hour to pass: `make restore` takes the
// cluster back to a backup (TestRestore). Without that target the test only waits until new jobs have run.
package chaos
