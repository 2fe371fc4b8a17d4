package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestGracePeriod(t *testing.T) {
	given := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: new(int64(90))}}
	if got := GracePeriod(given); got != 90*time.Second {
		t.Errorf("GracePeriod() = %s, want 90s", got)
	}
	if got := GracePeriod(&corev1.Pod{}); got != 0 {
		t.Errorf("GracePeriod() = %s where none was given", got)
	}
}
