// Package ephemeralrunnerset keeps as many runners as the listener asks for: replicas in, EphemeralRunners out.
//
// Start with the rules in controller.go: a set's situations, and what is done in each. observe takes the set's runners
// from the roster, which the watch keeps up to date, and adds to the set's history whatever is seen for the first time:
// when things happened, and what GitHub answered. scaling decides from runners and history. apply carries its plan out
// in parallel, and report writes the status, a single time per pass.
//
// The rooms below know one thing each:
//   - roster: every runner that the watch has shown, by set, and what decisions need to know of it.
//   - scaling: the rule for the number of runners missing or surplus (slots.go), and all else that a pass decides. It
//     was chosen by simulation; change it only with another one. Its idea: replicas counts the jobs that GitHub has
//     assigned, so a slot belongs to a job, not to a pod. While the listener's last figure may still count a job that
//     has ended, its slot is held and not refilled.
//   - figures: the number of jobs counted by GitHub that is believed.
//   - creations: runners that were requested. One counts immediately, before the watch shows it and even if the request
//     got no answer. If the watch doesn't show it in time, the API server is asked (unseen.go).
//   - departures: nodes that are about to go away. Runners without a job leave them.
//   - jobpods: the pods of jobs that can't run.
//   - leases: who uses the claims of the scale set. Which claim a new runner gets is decided in internal/volumeclaims
//     (claims.go).
//
// GitHub is asked in the background, by package registrations. That also finds and removes registrations that have no
// runner, which a restore of the cluster from a backup leaves.
//
// Runners beside the set that have its labels count, too, until they are removed; a set that nobody owns is
// (origin.go).
//
// A restart loses the history. That is safe: all waits start over, so they get longer, and nothing happens twice.
package ephemeralrunnerset
