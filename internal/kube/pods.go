package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LivePod returns a pod as the API server has it now, by way of its status, and nil where that pod is gone. It is for what
// can't be undone and would be wrong if the cache were late. Forbidden is what a Role without get on pods/status answers,
// and any Role that Helm has just taken away: then the cache's word, known, is all there is.
func LivePod(ctx context.Context, c client.SubResourceClientConstructor, known *corev1.Pod) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	switch err := c.SubResource("status").Get(ctx, known, live); {
	case apierrors.IsForbidden(err):
		return known, nil
	case apierrors.IsNotFound(err) || err == nil && live.UID != known.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the status of pod %s: %w", known.Name, err)
	default:
		return live, nil
	}
}

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

// GracePeriod returns how long a pod that is being deleted was given to end, zero where none was. It began at deletionTimestamp
// minus that.
func GracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
}

// WhyTerminating returns what keeps a pod that is being deleted and should have been gone at due, and what to do about it.
func WhyTerminating(pod string, due time.Time, finalizers []string) string {
	since := due.UTC().Format(time.RFC3339)
	if len(finalizers) == 0 {
		return fmt.Sprintf("the pod %s should have been gone at %s: delete it with --force if its node is gone", pod, since)
	}
	return fmt.Sprintf("the pod %s should have been gone at %s, but its finalizers %s keep it: "+
		"see why nobody removes them; where whoever added them is gone, remove them from the pod's metadata",
		pod, since, strings.Join(finalizers, ", "))
}
