// Package listener is the process between GitHub's message queue and an EphemeralRunnerSet; each scale set has one. It
// receives messages about jobs, writes into the set the number of runners that there should be, and reports the start
// and end of a job in the status of its runner:
//
//	poll ─▶ take the message ─┬▶ acquire offered jobs ─▶┐
//	        apart             ├▶ scaler ────────────────┴▶ publish {replicas, patchID, assignedJobs}
//	                          └▶ reports to runners, after the count ─▶ delete the message
//
// One goroutine, the loop, owns all state. Whatever takes time runs in a goroutine of its own and returns its result as
// a function that the loop calls. After each result the loop starts whatever is due, in the order of step in loop.go. A
// failed step is not a special case: it is an errand, due again after a pause. No failed call ends the process.
//
// The rooms below decide and remember, and call nobody, except those that are the edge: cluster, github, reports and
// serving.
package listener
