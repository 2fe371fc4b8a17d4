// Package autoscalinglistener runs the listener pod of a scale set and maintains what the pod needs: a ServiceAccount,
// its rights in the scale set's namespace, and Secrets with its configuration and proxy.
//
//	AutoscalingListener ─▶ ServiceAccount, Role, RoleBinding ─▶ config and proxy Secrets ─▶ pod ─▶ status
//
// The pod is replaced only if something changes that a running listener can't adopt: image, template, its policy,
// proxy, address, group, scale set, metrics port or ServiceAccount. All other changes reach it through the mounted
// config Secret. The old pod is gone before a new one starts, because GitHub grants a scale set a single session.
//
// Package listenerpod says what the pod should be, and what becomes of one that exists. Package ownership says which
// objects are the listener's. Package ignored tells of listeners that are nobody's.
//
// Everything is written with the manager's rights, also in the scale set's namespace, so nothing follows from what
// others write: a listener counts only in the manager's namespace and if it is its set's own (kube.SortListeners). An
// object with the name of one of the listener's is changed or deleted only if it is known to be the listener's. The
// rest is reported.
//
// Finalization deletes the pod first and the Secrets last, because they may hold the only credentials left that can
// delete the scale set on GitHub; see package autoscalingrunnerset.
package autoscalinglistener
