// Package journal reads and writes what an AutoscalingRunnerSet itself says of its scale sets on GitHub: the one that is
// registered, those that GitHub may have been asked to create, those that the set has left, and whether all of them are
// gone. It says which addresses are the same. Nothing here makes a request; the controller reads and patches the sets,
// and asks GitHub.
//
// A record in status.registrations goes from Wanted to Asked to Current to Leaving. Asked is written before GitHub is
// asked to create the scale set, and Leaving stays until it is deleted there. The present registration is in
// status.registration, too, and in the annotations that ARC knows.
package journal
