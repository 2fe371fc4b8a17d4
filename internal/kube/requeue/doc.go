// Package requeue decides when an object is reconciled again: the options and the queue of a controller, the Waker that requeues
// objects from outside a pass, the result of a pass, and pauses that grow with failures.
package requeue
