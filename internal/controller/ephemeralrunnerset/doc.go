// Package ephemeralrunnerset decides how many runners a scale set has, and keeps so many: assigned jobs in,
// EphemeralRunners out. The number is published as status.desired; nobody else works it out. What the listener asks for,
// spec.replicas, is heard only in a set that none of our listeners serves.
//
// Start with the rules in controller.go: a set's situations, and what is done in each. What a pass sees and what is
// remembered of a set is in world.go, which needs no other file. observe takes the set's runners
// from the roster, which the watch keeps up to date, and adds to the set's history whatever is seen for the first time:
// when things happened, and what GitHub answered. scaling decides from runners and history. apply carries its plan out
// in parallel, and report writes the status, a single time per pass, in the parts that descriptions lists (status.go).
//
// Each other verb of a set has a room of its own, with its own memory, which sees of a pass what package pass shows:
//   - losses counts lost jobs; authors tells their authors on GitHub, and has them run again.
//   - claims leases volume claims to new runners; what becomes of them is decided in internal/volumeclaims.
//   - placing decides for how many jobs GitHub is told that there is room.
//   - departures moves runners without a job from nodes that are about to go away.
//   - strays removes what a restore from a backup leaves on GitHub.
//   - proxy keeps the Secret with the runners' proxy.
//
// A new one is a line in rooms and a step in rules (controller.go).
//
// The rest know one thing each:
//   - roster: every runner that the watch has shown, by set, and what decisions need to know of it.
//   - scaling: the rule for the number of runners missing or surplus (slots.go), and all else that a pass decides. It
//     was chosen by simulation; change it only with another one. Its idea: the number wanted counts the jobs that GitHub has
//     assigned, so a slot belongs to a job, not to a pod. While the listener's last figure may still count a job that
//     has ended, its slot is held and not refilled.
//   - figures: the number of jobs counted by GitHub that is believed.
//   - creations: runners that were requested. One counts immediately, before the watch shows it and even if the request
//     got no answer. If the watch doesn't show it in time, the API server is asked (unseen.go).
//   - jobpods: the pods of jobs that can't run.
//   - leases: who uses the claims of the scale set.
//
// GitHub is asked in the background, by package registrations. A runner's own controller asks whether the set counts the
// runner (gate.go).
//
// Runners beside the set that have its labels count, too, until they are removed; a set that nobody owns is
// (origin.go).
//
// A restart loses the history. That is safe: all waits start over, so they get longer, and nothing happens twice.
package ephemeralrunnerset
