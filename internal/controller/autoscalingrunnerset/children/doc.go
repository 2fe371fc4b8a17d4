// Package children keeps the two objects that a registered scale set needs in the cluster, one EphemeralRunnerSet
// beside the AutoscalingRunnerSet and one AutoscalingListener in the manager's namespace, as the spec wants them; and
// it deletes them.
//
//	AutoscalingRunnerSet + registration ─▶ Wanted ─▶ EphemeralRunnerSet, AutoscalingListener
//
// What has become of them is read by the controller, from the same Found.
package children
