// Package listener is the process between GitHub's message queue and one EphemeralRunnerSet; each scale set has one. It
// receives messages about jobs, writes into the set how many runners there should be, and reports to the runners what
// becomes of their jobs:
//
//	poll ─▶ message ─┬▶ acquire offered jobs ─▶┐
//	                 ├▶ scaler ────────────────┴▶ publish {replicas, patchID, assignedJobs}
//	                 └▶ reports to runners ─▶ delete the message
//
// One goroutine, the loop, owns all state. Whatever takes time runs in a goroutine of its own and hands its result back as
// a function that the loop calls. After each result the loop starts whatever is due, so a failed step is no special case:
// it is due again after a pause. No failed call ends the process.
package listener
