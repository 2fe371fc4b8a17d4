// Package watchednamespace keeps the rights of a manager that watches a single namespace while that namespace is being deleted.
//
//	scale sets, runner sets or runners in the namespace ─▶ finalizer on the RoleBinding of the manager there
//
// The manager's Role in the namespace is deleted with it, in the second in which the deletion begins. The chart therefore grants
// the same by a ClusterRole, which isn't deleted with a namespace, and binds it by a RoleBinding in the namespace. The RoleBinding
// has a finalizer while there is anything whose deletion the manager has to finish, so that it is deleted last. Without scale sets
// there is no finalizer, and nothing that a deletion could wait for.
//
// Everything is level-based: a manager that is restarted in between continues. Its last patch, which removes the finalizer, ends
// its right to make that patch.
package watchednamespace
