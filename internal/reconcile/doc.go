// Package reconcile is one pass of one object, the same for every controller: get it, remember, observe, let the first
// rule that applies decide, carry the decision out, and requeue.
package reconcile
