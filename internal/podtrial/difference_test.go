package podtrial_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/podtrial"
)

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// asked returns a pod with everything that can be lost.
func asked() *corev1.Pod {
	pod := runner(volumeHooks, mounted("/t", ""))
	pod.Spec.ServiceAccountName = "runners"
	pod.Spec.NodeSelector = map[string]string{"pool": "builds"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "builds", Operator: corev1.TolerationOpExists}}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
	pod.Spec.RuntimeClassName = new("gvisor")
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "work"})
	pod.Spec.Containers[0].Command = []string{"run.sh"}
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "work", MountPath: "/work"}, corev1.VolumeMount{Name: "token", MountPath: tokenPath})
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
	return pod
}

// What the API server and honest webhooks do to every pod is not a loss.
func TestWhatPoliciesTakeAndWhatTheyAdd(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(*corev1.Pod, *corev1.Container)
		lost, added string
	}{
		"nothing": {change: func(*corev1.Pod, *corev1.Container) {}},
		"what the API server adds": {change: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.DeprecatedServiceAccount, p.Spec.SchedulerName = "runners", "default-scheduler"
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/not-ready"})
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x7k2p"})
			p.Spec.Volumes[1].EmptyDir = &corev1.EmptyDirVolumeSource{}
			p.Spec.Volumes[0].ConfigMap.DefaultMode = new(int32(420))
			c.TerminationMessagePath = "/dev/termination-log"
		}},
		"a mirror": {change: func(_ *corev1.Pod, c *corev1.Container) { c.Image = "mirror/runner:1" },
			added: "image of container runner: mirror/runner:1"},
		"a mesh": {change: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "certificates"})
		}, added: "container proxy (proxy:1); volume certificates"},
		"the account": {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.ServiceAccountName = "default" },
			lost: `account runners (it gets "default")`},
		"the token": {change: func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts = c.VolumeMounts[:2] },
			lost: "the token of its account in container runner"},
		"a volume": {change: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.Volumes, c.VolumeMounts = p.Spec.Volumes[:1], append(c.VolumeMounts[:1:1], c.VolumeMounts[2])
		}, lost: "the mount of volume work in container runner; volume work"},
		"a volume from elsewhere": {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Volumes[0].ConfigMap.Name = "mine" },
			lost: "volume t"},
		"the nodes": {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.NodeSelector["pool"] = "spot" },
			lost: "nodeSelector pool=builds"},
		"a toleration":  {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Tolerations = nil }, lost: "one of its tolerations"},
		"a pull secret": {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.ImagePullSecrets = nil }, lost: "one of its imagePullSecrets"},
		"the affinity":  {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.Affinity = nil }, lost: "its affinity"},
		"the runtime":   {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.RuntimeClassName = nil }, lost: "runtimeClassName gvisor"},
		"a label":       {change: func(p *corev1.Pod, _ *corev1.Container) { delete(p.Labels, "actions.github.com/scale-set-name") }, lost: "label actions.github.com/scale-set-name"},
		"the command":   {change: func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"sh"} }, lost: "command of container runner"},
		"a variable":    {change: func(_ *corev1.Pod, c *corev1.Container) { c.Env = c.Env[1:] }, lost: "variable ACTIONS_RUNNER_CONTAINER_HOOKS of container runner"},
		"a container":   {change: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.InitContainers = nil }, lost: "container init"},
	} {
		got := asked()
		test.change(got, &got.Spec.Containers[0])
		difference, err := podtrial.Compare(asked(), got, true)
		if err != nil {
			t.Fatal(err)
		}
		if lost, added := strings.Join(difference.Lost, "; "), strings.Join(difference.Added, "; "); lost != test.lost ||
			added != test.added {
			t.Errorf("%s: lost %q, added %q, want %q and %q", name, lost, added, test.lost, test.added)
		}
	}
}

// A pod that says nothing of its token, and whose program needs one, gets it from the API server unless something is in
// the way.
func TestATokenThatNobodyMountsIsLost(t *testing.T) {
	before, after := runner(volumeHooks), runner(volumeHooks)
	for needed, want := range map[bool]string{true: "the token of its account", false: ""} {
		if d, _ := podtrial.Compare(before, after, needed); strings.Join(d.Lost, "") != want {
			t.Errorf("needed %t: %+v", needed, d)
		}
	}
	after.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: tokenPath}}
	if d, _ := podtrial.Compare(before, after, true); len(d.Lost)+len(d.Added) > 0 {
		t.Errorf("%+v", d)
	}
}

// Who reads a condition isn't shown hundreds of names.
func TestADifferenceIsShort(t *testing.T) {
	before := runner(volumeHooks)
	for range 30 {
		env(strings.Repeat("A", len(before.Spec.Containers[0].Env)), "x")(nil, &before.Spec.Containers[0])
	}
	d, _ := podtrial.Compare(before, runner(volumeHooks), false)
	if len(d.Lost) != 11 || d.Lost[10] != "20 more" {
		t.Errorf("%d: %q", len(d.Lost), d.Lost)
	}
}
