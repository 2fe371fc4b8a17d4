// Package ephemeralrunnerset keeps as many runners as the listener asks for: replicas in, EphemeralRunners out.
//
// Reconcile observes, plans, applies and reports. observe takes the set's runners from the roster, which the watch keeps up
// to date, and adds to the set's history whatever is seen for the first time: when things happened, and what GitHub answered.
// plan decides from runners and history; it is pure. apply carries the plan out in parallel, and report writes the status once.
//
// slots.go has the rule for how many runners are missing or surplus. It was chosen by simulation; change it only with
// another one. Its idea: replicas counts the jobs that GitHub has assigned, so a slot belongs to a job, not to a pod. While the
// listener's last figure may still count a job that has ended, its slot is held and not refilled.
//
// A runner counts as soon as its creation is requested, before the watch shows it and even if the request got no answer
// (creations.go). If the watch doesn't show it in time, the API server is asked (overdue.go).
//
// Runners without a job leave nodes that are about to go away (departures.go).
//
// Registrations on GitHub that have no runner, which a restore of the cluster from a backup leaves, are found and removed beside all
// that (strays.go).
//
// Runners beside the set that have its labels count, too, until they are removed; a set that nobody owns is (ownerless.go).
//
// A restart loses the history. That is safe: all waits start over, so they get longer, and nothing happens twice.
package ephemeralrunnerset
