// Package autoscalingrunnerset turns what a user asks for into a scale set on GitHub, an EphemeralRunnerSet and an
// AutoscalingListener, and removes all three again.
//
//	AutoscalingRunnerSet ─▶ scale set on GitHub ─▶ EphemeralRunnerSet + AutoscalingListener
//	                     ─▶ status of the AutoscalingRunnerSet
//
// Everything is level-based: each pass observes the existing objects and does what is missing. Calls to GitHub run in
// the pool, never in a reconcile worker; the next pass reads the answer. The scale set on GitHub is checked if the spec
// or the credentials have changed, if the listener reports that the scale set is gone, and every few minutes.
//
// If a set's chart may be ARC's, ARC's cleanup-protection is removed from the chart's objects immediately: see package
// cleanupprotection.
//
// # Rooms
//
// The controller is a list of rules, in controller.go: in which situation of a set what is done. What a pass sees, and
// what is remembered of a set, is in world.go, which needs no other file. The rest is in packages below it, each of
// which can be read alone:
//
//   - journal: what a set says of its scale sets (those it has, may have, and has left), and which addresses are one
//   - holders: which of several sets holds a scale set
//   - scaleset: the requests to GitHub about a scale set, and what their failures mean
//   - children: the EphemeralRunnerSet and the AutoscalingListener, made from the spec, kept so and deleted
//   - podtemplate: whether the API server would admit the runners' pods
//   - disruptionbudgets: whether the runners are protected from evictions
//   - cleanupprotection: ARC's finalizer on the objects of its chart
//   - conditions: status, Events and metrics, from what a pass has found out
//
// # Deletion
//
// An uninstall deletes Secrets and Roles before the AutoscalingRunnerSet, so the credentials that can delete the scale
// set may be left only in the listener's Secrets. Two controllers take turns, and each reads the other's progress from
// the objects:
//
//  1. here: the AutoscalingListener is deleted
//  2. autoscalinglistener: its pod is deleted, and condition Ready becomes False with reason Stopped; Secrets and
//     finalizer stay while the AutoscalingRunnerSet, itself in deletion, still has status.registration or ARC's
//     annotation with the id
//  3. here: the EphemeralRunnerSets are deleted; they are gone when the last busy runner has finished
//  4. here: if the journal says that a scale set may have been created, GitHub is asked for it by name. The scale set is
//     deleted on GitHub, then status.registration, the journal and the annotations are cleared. After
//     DeregisterTimeout they are cleared in any case, with an Event that says what was left
//  5. autoscalinglistener: Secrets and finalizer are removed
//  6. here: ARC's cleanup-protection is removed from the chart's objects, and the finalizer from the set
//
// Either side can be restarted at any point and continues where it left off.
package autoscalingrunnerset
