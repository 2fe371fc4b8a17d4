package kube_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/kube"
)

func TestPartsOfPods(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "runner", Image: "image:1"}}},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "runner", RestartCount: 3}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Reason: "Fine"}},
		},
	}
	if got := kube.Container(&pod.Spec, "runner"); got != &pod.Spec.Containers[1] {
		t.Errorf("Container() = %v, want the pod's own", got)
	}
	if got := kube.ContainerStatus(pod, "runner"); got == nil || got.RestartCount != 3 {
		t.Errorf("ContainerStatus() = %v", got)
	}
	if got := kube.PodCondition(pod, corev1.PodReady); got == nil || got.Reason != "Fine" {
		t.Errorf("PodCondition() = %v", got)
	}
	if image, none := kube.Image(&pod.Spec, "runner"), kube.Image(&pod.Spec, "another"); image != "image:1" ||
		none != "(none)" {
		t.Errorf("Image() = %q and %q", image, none)
	}
	if kube.Container(&pod.Spec, "another") != nil || kube.ContainerStatus(pod, "sidecar") != nil ||
		kube.PodCondition(pod, corev1.PodScheduled) != nil {
		t.Error("what is not there was found")
	}
}

func TestGracePeriod(t *testing.T) {
	given := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: new(int64(90))}}
	if got := kube.GracePeriod(given); got != 90*time.Second {
		t.Errorf("GracePeriod() = %s, want 90s", got)
	}
	if got := kube.GracePeriod(&corev1.Pod{}); got != 0 {
		t.Errorf("GracePeriod() = %s where none was given", got)
	}
}

// The work folder of mode kubernetes is on a claim, whose volume may belong to root.
func TestUnwritableWork(t *testing.T) {
	claim, host := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}
	existing := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}
	as := func(user int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &user} }
	group := &corev1.PodSecurityContext{FSGroup: new(int64(1001))}
	for title, test := range map[string]struct {
		source corev1.VolumeSource
		path   string
		pod    *corev1.PodSecurityContext
		own    *corev1.SecurityContext
		want   string
	}{
		"claim":          {source: claim, path: "/home/runner/_work", want: "fsGroup, to 1001"},
		"existing claim": {source: existing, path: "/actions/_work/", own: as(1001), want: "fsGroup, to 1001"},
		"hostPath":       {source: host, path: "/home/runner/_work", pod: group, want: "in an init container"},
		"with a group":   {source: claim, path: "/home/runner/_work", pod: group},
		"as root":        {source: claim, path: "/home/runner/_work", own: as(0)},
		"emptyDir": {
			source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			path:   "/home/runner/_work",
		},
		"not the work": {source: claim, path: "/cache"},
		"root only the pod": {
			source: claim,
			path:   "/home/runner/_work",
			pod:    &corev1.PodSecurityContext{RunAsUser: new(int64(0))},
		},
	} {
		spec := &corev1.PodSpec{SecurityContext: test.pod, Volumes: []corev1.Volume{
			{Name: "work", VolumeSource: test.source},
		},
			Containers: []corev1.Container{
				{
					Name:            "runner",
					SecurityContext: test.own,
					VolumeMounts:    []corev1.VolumeMount{{Name: "work", MountPath: test.path}},
				},
			}}
		got := kube.UnwritableWork(spec, "runner")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q in it", title, got, test.want)
		}
	}
	if got := kube.UnwritableWork(&corev1.PodSpec{}, "runner"); got != "" {
		t.Errorf("without a runner: %q", got)
	}
}
