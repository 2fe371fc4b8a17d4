// Package listener is the process that stands between GitHub's message queue and one EphemeralRunnerSet. There is one per
// scale set. It takes messages about jobs, tells the set how many runners there should be, and tells runners about their
// jobs:
//
//	poll ─▶ message ─┬▶ acquire offered jobs ─▶┐
//	                 ├▶ scaler ────────────────┴▶ publish {replicas, patchID, assignedJobs}
//	                 └▶ reports to runners ─▶ delete the message
//
// One goroutine, the loop, owns all state. Whatever takes time runs beside it and hands its result back as a function
// that the loop calls. After each of these the loop looks at what is there and starts what is due, so a failed step is
// not a special case: it is due again after a pause. No failed call ends the process.
package listener
