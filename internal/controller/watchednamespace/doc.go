// Package watchednamespace makes sure that a manager limited to one namespace can still clean up when that namespace is
// deleted.
//
//	scale sets, runner sets or runners in the namespace ─▶ finalizer on the manager's RoleBinding there
//
// Deleting a namespace deletes the manager's Role in it within a second. So the chart also grants the same rights by a
// ClusterRole, which survives, bound by a RoleBinding in the namespace. This controller keeps a finalizer on that
// RoleBinding while anything is left that the manager must finalize, so the RoleBinding goes last. An empty namespace
// has no finalizer and is deleted without waiting.
//
// Everything is level-based: a manager that is restarted in between continues. Its last patch, which removes the
// finalizer, also ends its right to make that patch.
package watchednamespace
