// Package watchednamespace keeps the rights of a manager that watches a single namespace while that namespace is deleted.
//
//	scale sets, runner sets or runners in the namespace ─▶ finalizer on the RoleBinding of the manager there
//
// The manager's Role in the namespace goes with it, in the second in which the deletion begins. The chart therefore grants
// the same by a ClusterRole, which a namespace doesn't take along, and binds it by a RoleBinding in the namespace. The
// RoleBinding has a finalizer while there is anything whose deletion the manager has to finish, so that it goes last. Without
// scale sets there is no finalizer, and nothing that a deletion could wait for.
//
// Everything is level-based: a manager that is restarted in the middle goes on. Its last patch takes the right to make it.
package watchednamespace
