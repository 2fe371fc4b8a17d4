// Package ephemeralrunner leads one runner through its life: JIT config, Secret, Pod, outcome, cleanup.
//
// controller.go has the situations that a runner may be in, and what is done in each. world.go gathers what a pass
// sees and what is remembered: the runner, the state of its pod, and the results of earlier calls. rules, a room
// without effects, picks the next step of a runner that lives; act.go takes it, and status.go says so. A runner that is
// being deleted has a plan of its own, carried out in finalize.go. What both delete is in effects.go. Before a runner
// gets a pod, its set is asked: Gate.
//
// The rooms below are used by this package only. launch asks GitHub about the runner, and creates Secret and pod: in
// the pool, so no worker waits. rules has the terms in which launch reports its progress. mark writes the job on the
// pod and holds back what only reports. remains removes what no owner collects.
// hooktemplate has job pods of container hooks protected like their runner.
//
// A runner without a living set is removed before it gets anything: removeAbandoned.
//
// A restart loses what the controller remembers. The pod's annotation and GitHub then tell what was done. A Secret
// alone does not tell whether its JIT config was used, so a runner without a pod is registered again.
package ephemeralrunner
