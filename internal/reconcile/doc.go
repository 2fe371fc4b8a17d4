// Package reconcile is one pass of one object, the same for every controller: get it, remember, observe, let the first
// rule that applies decide, do what it says, and requeue.
package reconcile
