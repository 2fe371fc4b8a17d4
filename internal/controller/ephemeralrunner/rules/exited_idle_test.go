package rules_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// A runner that exits with 0 without a job usually lacks its command, or can't write its work folder. The message says
// how sure that is, and what to do.
func TestExitedIdleSaysWhatToDo(t *testing.T) {
	const (
		certain   = "the runner container exited with code 0 before it got a job: "
		uncertain = "the runner container exited with code 0, and neither a report nor GitHub says that it had a job: "
		check     = "check the image and its command"
		add       = "it has no command, and the usual image does not start the runner by itself: " +
			`add command: ["/home/runner/run.sh"] to the template`
		unwritable = "; if volume work belongs to root, the runner can't write its work folder: change its owner on " +
			"the node or in an init container, because Kubernetes sets no fsGroup on a hostPath"
	)
	command := corev1.Container{Name: v1alpha1.RunnerContainerName, Command: []string{"/home/runner/run.sh"}}
	arguments := corev1.Container{Name: v1alpha1.RunnerContainerName, Args: []string{"/home/runner/run.sh"}}
	both := corev1.Container{Name: v1alpha1.RunnerContainerName, Command: []string{"sh"}, Args: []string{"-c", "start"}}
	neither := corev1.Container{Name: v1alpha1.RunnerContainerName}
	sidecar := corev1.Container{Name: "dind"}
	onNode := func(c corev1.Container) corev1.Container {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/home/runner/_work"}}
		return c
	}
	for title, test := range map[string]struct {
		containers []corev1.Container
		certain    bool
		want       string
	}{
		"GitHub could not tell":            {[]corev1.Container{command}, false, uncertain + check},
		"GitHub could tell":                {[]corev1.Container{command}, true, certain + check},
		"it has arguments":                 {[]corev1.Container{arguments}, true, certain + check},
		"it has a command with arguments":  {[]corev1.Container{both}, true, certain + check},
		"it has neither":                   {[]corev1.Container{neither}, true, certain + add},
		"it has neither, GitHub unsure":    {[]corev1.Container{neither}, false, uncertain + add},
		"only a sidecar has neither":       {[]corev1.Container{sidecar, command}, true, certain + check},
		"no container is the runner":       {[]corev1.Container{sidecar}, true, certain + check},
		"its work folder is its node's":    {[]corev1.Container{onNode(command)}, true, certain + check + unwritable},
		"it has no command and the node's": {[]corev1.Container{onNode(neither)}, true, certain + add},
	} {
		t.Run(title, func(t *testing.T) {
			spec := &corev1.PodSpec{Containers: test.containers, Volumes: []corev1.Volume{{Name: "work",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/work"}}}}}
			want := rules.Decision{Step: rules.Fail, Reason: "RunnerExitedWithoutJob", Message: test.want}
			if got := rules.ExitedIdle(spec, test.certain); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
