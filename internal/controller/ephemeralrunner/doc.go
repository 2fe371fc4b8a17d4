// Package ephemeralrunner leads one runner through its life: JIT config, Secret, Pod, outcome, cleanup.
//
// One pass is observe, plan, apply. observe gathers the runner, its pod's outcome and what is remembered of calls; plan, a
// pure function of that, names the one next step; apply takes it. The finalization of a runner that is being deleted is
// made of the same three: observeFinalizing, planFinalization, finalize. Registering and removing runners at GitHub, and
// the creation of Secret and Pod that follows a registration, run in the pool: a pass never waits for GitHub.
//
// A JIT config serves one start of the runner container. A pod whose runner container never started is made again with
// the same one. Once it has started, a lost pod is followed by one with a new registration, or, if it had a job, by none.
//
// What is remembered is lost in a restart. Then the pod's annotation and GitHub's own answers say what had been done, and
// every step can be repeated: a Secret alone does not say whether a container has started with it, so a runner without a
// pod is registered anew.
package ephemeralrunner
