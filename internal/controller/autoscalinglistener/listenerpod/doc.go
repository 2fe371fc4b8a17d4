// Package listenerpod knows the pod of a listener: what it should be, and what becomes of one that exists.
//
//	Builder ─▶ Pod, Hash
//	a pod and what is demanded of it ─▶ Assess ─▶ State: what its listener's status says, and what to do
//
// It is pure: package autoscalinglistener reads and writes.
package listenerpod
