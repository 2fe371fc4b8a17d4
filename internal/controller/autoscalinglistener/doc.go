// Package autoscalinglistener runs the listener pod of a scale set and keeps what it needs: a ServiceAccount, its rights in the
// scale set's namespace, and Secrets with its configuration and proxy.
//
//	AutoscalingListener ─▶ ServiceAccount, Role, RoleBinding ─▶ config and proxy Secrets ─▶ pod ─▶ status
//
// The pod is replaced only for a change that a running listener can't adopt: of image, template, proxy, address, group,
// scale set, metrics port or ServiceAccount. All others reach it through the mounted config Secret. The old pod is gone before a
// new one starts, because GitHub grants a scale set a single session.
//
// Finalization deletes the pod first and the Secrets last: they may have the only credentials left with which the scale set
// can be deleted on GitHub; see package autoscalingrunnerset.
package autoscalinglistener
