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
// +kubebuilder:object:generate=true
// +groupName=actions.github.com
package v1alpha1
