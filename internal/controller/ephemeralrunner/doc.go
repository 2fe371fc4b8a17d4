// Package ephemeralrunner leads one runner through its life: JIT config, Secret, Pod, outcome, cleanup.
//
// Reconcile observes, plans and applies: world.go gathers the runner, the state of its pod, what is remembered, and the results of
// earlier calls; rules, a room without effects, picks the next step; act.go takes it. A runner that is being deleted has a plan of its own,
// carried out in finalize.go.
//
// The rooms below are used by this package only. launch gets the JIT config and creates Secret and pod, deregister has GitHub remove the
// registration: both in the pool, so no worker waits for GitHub, and both say in terms of calls how far they are. mark writes the job on
// the pod and holds back what only reports. remains removes what no owner collects. memory is what is remembered between passes.
//
// A runner without a set that lives is removed before it gets anything: removeAbandoned.
//
// A restart loses what the controller remembers. The pod's annotation and GitHub then tell what was done. A Secret alone does
// not tell whether its JIT config was used, so a runner without a pod is registered again.
package ephemeralrunner
