// Package ephemeralrunnerset keeps as many runners as the listener asks for: replicas in, EphemeralRunners out.
//
// One pass is observe, note, plan, apply, report. observe sorts the runners the cache shows into views; note adds to the
// set's memory what was seen for the first time (clocks, answers of GitHub); plan decides from both, and asks nobody: all
// that it changes are the memory's clocks of the runners that are too many (windSurplus); apply acts, in parallel; one
// status patch ends the pass.
//
// The rule in slots.go decides how many runners are missing and which are too many. It was chosen by simulation against
// simpler ones and is to be changed only with one. Its idea: replicas counts the jobs GitHub still has assigned to us, so
// a slot follows the job, not the pod, and everything that happens between a job's end and the listener's next figure is
// held and not refilled.
//
// Memory is lost in a restart. That is safe: every clock starts anew, so waits get longer and nothing happens twice.
package ephemeralrunnerset
