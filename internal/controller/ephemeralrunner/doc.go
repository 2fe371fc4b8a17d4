// Package ephemeralrunner leads one runner through its life: JIT config, Secret, Pod, outcome, cleanup.
//
// Reconcile observes, plans and applies. observe gathers the runner, the state of its pod, and the results of earlier calls;
// plan, a pure function, picks the next step; apply takes it. A runner that is being deleted has its own three:
// observeFinalizing, PlanFinalization, finalize. Calls to GitHub, and the creation of Secret and Pod that follows a
// registration, run in the pool, so no worker waits for GitHub.
//
// A JIT config is good for one start of the runner container. If the container never started, the next pod reuses the config.
// If it did start and the pod is lost, a runner without a job gets a new registration; a runner with a job has failed.
//
// What ends a pod before it has a job is held against the runner unless the pod was taken away, with or without its node: attempts.go.
//
// A runner without a set that lives is removed before it gets anything; ownership.go says what that concerns.
//
// A restart loses what the controller remembers. The pod's annotation and GitHub then tell what was done. A Secret alone does
// not tell whether its JIT config was used, so a runner without a pod is registered again.
package ephemeralrunner
