// Package v1alpha1 is the API users and controllers share: the four kinds of group actions.github.com, the labels,
// annotations and finalizers that mark what is ours, and the condition types and reasons operators read.
//
// An AutoscalingRunnerSet is what a user writes. From it the manager makes one EphemeralRunnerSet in the same namespace
// and one AutoscalingListener in its own; the listener writes the desired replicas into the EphemeralRunnerSet, which
// makes EphemeralRunners. JSON names and meanings are those of actions-runner-controller (ARC) 0.14, so that its objects
// can be read, patched and finalised as they are; fields that ARC does not have are marked as such.
//
// The package imports Kubernetes API types only, so that any client can use it.
//
// +kubebuilder:object:generate=true
// +groupName=actions.github.com
package v1alpha1
