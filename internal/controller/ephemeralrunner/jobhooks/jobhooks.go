// Package jobhooks finds out whether the scripts of the chart's feedback.jobLog ran for a runner's job. In an image
// without a shell they can't, and every job fails.
package jobhooks

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// The chart has the runner call a script in directory at the start of a job, by envJobStarted, and another at its
	// end, which leaves what the job has used.
	envJobStarted = "ACTIONS_RUNNER_HOOK_JOB_STARTED"
	directory     = "/opt/job-hooks/"
)

// Memory is what is remembered of one runner's scripts. The zero value is that of a new runner.
type Memory struct {
	// silent is set when the runner has exited as after a job and the scripts have left nothing of it. They leave a line
	// whatever the job was.
	silent bool
}

// See remembers what a runner's pod, nil if there is none, shows.
func (m *Memory) See(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) {
	script, _ := kube.RunnerEnv(&runner.Spec.PodSpec, envJobStarted)
	if pod == nil || !strings.HasPrefix(script, directory) {
		return
	}
	status := kube.ContainerStatus(pod, v1alpha1.RunnerContainerName)
	if status == nil || status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
		return
	}
	usage, _ := podstatus.UsageIn(status.State.Terminated.Message)
	m.silent = m.silent || usage == nil
}

// TakeFailure returns what there is to tell of a runner whose job is known to have failed without its scripts, a single
// time; empty if there is nothing.
func (m *Memory) TakeFailure(runner *v1alpha1.EphemeralRunner) string {
	failed := slices.Contains([]string{"failed", "failure"}, strings.ToLower(runner.Status.JobResult))
	if !m.silent || !failed {
		return ""
	}
	m.silent = false
	return "a job failed, and the scripts of feedback.jobLog left nothing of it: the image " +
		kube.Image(&runner.Spec.PodSpec, v1alpha1.RunnerContainerName) + " seems to have no sh, without which every job " +
		"fails; use an image with a POSIX shell, or set feedback.jobLog to false"
}
