// Package v1alpha1 is the API that users and controllers share: the four kinds of group actions.github.com, the labels,
// annotations and finalizers that mark our objects, and the condition types and reasons that operators read.
//
// A user writes an AutoscalingRunnerSet. For it the manager creates one EphemeralRunnerSet in the same namespace and
// one AutoscalingListener in the manager's. The listener writes the desired replicas into the EphemeralRunnerSet, whose
// controller creates EphemeralRunners. JSON names and meanings are those of actions-runner-controller (ARC) 0.14, so
// its objects can be read, patched and finalized as they are; fields that ARC does not have are marked as such.
//
// The package imports Kubernetes API types only, so that any client can use it.
//
// # Compatibility
//
// The module has the version of Harrier, and follows semantic versioning. Within v1alpha1 no field, kind, condition or
// reason is removed or renamed, and none changes its type or meaning; there may be new ones, so that code has to
// tolerate reasons that it doesn't know. Before 1.0, a change of a name in Go that the compiler finds may come with a
// minor version, and stands in docs/changelog.md.
//
// +kubebuilder:object:generate=true
// +groupName=actions.github.com
package v1alpha1
