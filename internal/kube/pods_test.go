package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPartsOfPods(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "runner", Image: "image:1"}}},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "runner", RestartCount: 3}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Reason: "Fine"}},
		},
	}
	if got := Container(&pod.Spec, "runner"); got != &pod.Spec.Containers[1] {
		t.Errorf("Container() = %v, want the pod's own", got)
	}
	if got := ContainerStatus(pod, "runner"); got == nil || got.RestartCount != 3 {
		t.Errorf("ContainerStatus() = %v", got)
	}
	if got := PodCondition(pod, corev1.PodReady); got == nil || got.Reason != "Fine" {
		t.Errorf("PodCondition() = %v", got)
	}
	if image, none := Image(&pod.Spec, "runner"), Image(&pod.Spec, "another"); image != "image:1" || none != "(none)" {
		t.Errorf("Image() = %q and %q", image, none)
	}
	if Container(&pod.Spec, "another") != nil || ContainerStatus(pod, "sidecar") != nil || PodCondition(pod, corev1.PodScheduled) != nil {
		t.Error("what is not there was found")
	}
}
