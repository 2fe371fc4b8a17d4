// Package ephemeralrunnerset keeps as many runners as the listener asks for: replicas in, EphemeralRunners out.
//
// One pass is observe, note, plan, apply, report. The roster, which the events of a watch keep up to date, holds a view of
// each runner, and the pass takes those of its set; note adds to the set's history what was seen for the first time (clocks,
// answers of GitHub); plan decides from both, asks nobody and changes nothing; apply acts, in parallel; one status patch
// ends the pass.
//
// The rule in slots.go decides how many runners are missing and which are too many. It was chosen by simulation against
// simpler ones and is to be changed only with one. Its idea: replicas counts the jobs that GitHub still has assigned to the
// set, so a slot follows the job, not the pod, and a slot whose job may still be in the listener's last figure is held and
// not refilled.
//
// A runner counts from the moment at which it is asked for, before the watch has shown it and even where the request had no
// answer: creations.go has the rules. Where the watch does not show it in time the API server is asked: overdue.go.
//
// The history is lost in a restart. That is safe: every clock starts anew, so waits get longer and nothing happens twice.
package ephemeralrunnerset
