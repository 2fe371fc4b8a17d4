// Package autoscalinglistener runs the listener pod of one scale set, and what it needs: a ServiceAccount, its rights in
// the scale set's namespace, and Secrets with its configuration and proxy.
//
//	AutoscalingListener ─▶ ServiceAccount, Role, RoleBinding ─▶ config and proxy Secrets ─▶ pod ─▶ status
//
// The pod is replaced only where a running listener could not take a change over: image, template, proxy, address,
// group, scale set. Everything else reaches it through the mounted config Secret. The old pod is gone before a new one
// starts, because GitHub grants a scale set a single session.
//
// In finalization the pod goes first and the Secrets last: they may hold the only credentials left that delete the
// scale set on GitHub; see package autoscalingrunnerset.
package autoscalinglistener
