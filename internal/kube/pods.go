package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Container returns a container of a pod by its name, nil when there is none.
func Container(spec *corev1.PodSpec, name string) *corev1.Container {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Containers[i]
}

// Image returns the image of a container for a message, also when there is no such container.
func Image(spec *corev1.PodSpec, name string) string {
	if container := Container(spec, name); container != nil {
		return container.Image
	}
	return "(none)"
}

// ContainerStatus returns what the kubelet says of a container, nil when it has said nothing yet. Pods are looked at
// with every event, so nothing is copied.
func ContainerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// PodCondition returns a pod's condition, nil when it has none of the type.
func PodCondition(pod *corev1.Pod, about corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == about {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
