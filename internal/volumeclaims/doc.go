// Package volumeclaims decides which claim a runner gets, and which claims go.
//
// The claims of one runner, one for each template of its set, are a bundle: their names end with the same suffix, and
// they are leased, discarded and placed as one, because volumes of two zones would never fit one pod. A bundle is
// leased exactly while a runner that may still run names it, or a pod that has not ended mounts it. So a lease costs no
// request and needs no lock: it is created with its runner, and ends with it.
//
// The controller of runner sets observes a World, asks for a plan, and carries the decision out:
//
//	pool := memory.Observe(world)    what was seen of claims and runners
//	decision := pool.Plan(wanted)    lists of named rules
//	memory.Follow(decision)          what was asked for, before it is sent
//	lease → EphemeralRunner.spec.volumeClaims, memory.Promise(runner, lease) before the runner is created
//
// The runner's own controller creates the claims that don't exist (Missing), mounts all of them (Mount), and deletes
// those that its job has spoiled (Returns) before it lets the runner go.
//
// Memory only saves requests and makes waits exact. What must survive a restart is in the specs of runners and in
// annotations of claims. A process that has just started asks the API server a single time which runners and claims
// there are (World.Listed), and neither leases nor deletes anything before.
package volumeclaims
