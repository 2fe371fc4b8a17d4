// Package listener is the process between GitHub's message queue and an EphemeralRunnerSet; each scale set has one. It
// receives messages about jobs, writes into the set how many runners there should be, and reports the start and end of a job in
// the status of its runner:
//
//	poll ─▶ message ─┬▶ acquire offered jobs ─▶┐
//	                 ├▶ scaler ────────────────┴▶ publish {replicas, patchID, assignedJobs}
//	                 └▶ reports to runners ─▶ delete the message
//
// One goroutine, the loop, owns all state. Whatever takes time runs in a goroutine of its own and returns its result as a
// function that the loop calls. After each result the loop starts whatever is due. A failed step is not a special case:
// it is due again after a pause. No failed call ends the process.
package listener
