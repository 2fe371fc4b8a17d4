package kube

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// jobFarewell is the time that a runner has after the job's grace period: to cancel the job, and to tell GitHub.
const jobFarewell = 10 * time.Second

// awaitJob waits for the end of a job in the container of its runner, for as many seconds as $1 says. The kubelet runs it
// before it sends SIGTERM, at which run.sh has GitHub's runner cancel its job. While a job runs there is a process
// Runner.Worker; the runner ends a few seconds after it, and the container with it, which ends the wait. A runner that
// has shown no such process for three seconds has no job: GitHub's runner starts it as soon as it has one.
// $2 is where processes are listed, for tests.
const awaitJob = `end=$(($(date +%s) + $1)) idle=0 seen=
while [ "$(date +%s)" -lt "$end" ]; do
  idle=$((idle + 1))
  for file in "${2:-/proc}"/[0-9]*/comm; do
    { read -r name <"$file"; } 2>/dev/null || continue
    if [ "$name" = Runner.Worker ]; then
      idle=0 seen=1
      break
    fi
  done
  if [ -z "$seen" ] && [ "$idle" -gt 3 ]; then
    exit 0
  fi
  sleep 1
done`

// GraceSeconds returns the grace period of a pod whose job may go on for that long, in seconds.
func GraceSeconds(job time.Duration) int64 { return int64((job + jobFarewell) / time.Second) }

// GiveJobGrace has the job of a runner's pod go on for that long after somebody has asked for the pod's end. Sidecars
// among the init containers end after the runner by themselves. Of other containers the daemons that the job uses wait as
// long; once the runner has ended, the pod is deleted with the grace period for its sidecars.
func GiveJobGrace(spec *corev1.PodSpec, job time.Duration, isDaemon func(*corev1.Container) bool) {
	if job < time.Second || WhyNoJobGrace(spec) != "" {
		return
	}
	seconds := GraceSeconds(job)
	spec.TerminationGracePeriodSeconds = new(max(seconds, ptr.Deref(spec.TerminationGracePeriodSeconds, 0)))
	wait := strconv.FormatInt(int64(job/time.Second), 10)
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if container.Lifecycle != nil && container.Lifecycle.PreStop != nil {
			continue
		}
		var handler corev1.LifecycleHandler
		switch {
		case container.Name == v1alpha1.RunnerContainerName:
			handler.Exec = &corev1.ExecAction{Command: []string{"/bin/sh", "-c", awaitJob, "await-job", wait}}
		case isDaemon(container):
			handler.Sleep = &corev1.SleepAction{Seconds: int64(job / time.Second)}
		default:
			continue
		}
		lifecycle := corev1.Lifecycle{}
		if container.Lifecycle != nil {
			lifecycle = *container.Lifecycle
		}
		lifecycle.PreStop = &handler
		container.Lifecycle = &lifecycle
	}
}

// WhyNoJobGrace says why the jobs of a template can't be given a grace period, as the rest of a sentence that begins with
// its name; empty if they can.
func WhyNoJobGrace(spec *corev1.PodSpec) string {
	runner := Container(spec, v1alpha1.RunnerContainerName)
	switch {
	case RunsWindows(spec):
		return "needs a POSIX shell, which runners on Windows don't have"
	case runner != nil && runner.Lifecycle != nil && runner.Lifecycle.PreStop != nil:
		return "needs the preStop hook of the container runner, which the template has for itself: remove that, or wait " +
			"for the job there"
	}
	return ""
}

// RunsWindows reports whether a pod says that it is one for nodes with Windows.
func RunsWindows(spec *corev1.PodSpec) bool {
	if spec.OS != nil {
		return spec.OS.Name == corev1.Windows
	}
	return slices.Contains([]string{spec.NodeSelector[corev1.LabelOSStable], spec.NodeSelector["beta.kubernetes.io/os"]},
		string(corev1.Windows))
}
