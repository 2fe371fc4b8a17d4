package ephemeralrunner_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// An image without sh fails every job under feedback.jobLog: that is told after the first, and of no other job.
func TestAnImageWithoutAShellIsNamed(t *testing.T) {
	const usage = `{"usage":1,"peakMemoryBytes":1048576}`
	for title, test := range map[string]struct {
		script, message, result string
		events                  int
	}{
		"no sh":               {"/opt/job-hooks/started.sh", "", "failed", 1},
		"the job failed":      {"/opt/job-hooks/started.sh", usage, "failed", 0},
		"the job succeeded":   {"/opt/job-hooks/started.sh", "", "succeeded", 0},
		"no jobLog":           {"", "", "failed", 0},
		"a script of his own": {"/home/runner/mine.sh", "", "failed", 0},
	} {
		t.Run(title, func(t *testing.T) {
			runner := newRunner(func(r *v1alpha1.EphemeralRunner) {
				r.Spec.PodSpec.Containers[0].Env = []corev1.EnvVar{{Name: "ACTIONS_RUNNER_HOOK_JOB_STARTED", Value: test.script}}
			})
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(runs)
				f.settle()
				f.setStatus(hasReportedJob)
				f.settle()
				f.setPod(func(p *corev1.Pod) {
					exits(0)(p)
					p.Status.ContainerStatuses[0].State.Terminated.Message = test.message
				})
				f.settle()
				f.setStatus(func(r *v1alpha1.EphemeralRunner) {
					jobDone(r)
					r.Status.JobResult = test.result
				})
				f.settle()
				if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonJobHooksFailed); told != test.events {
					t.Errorf("%d Events, want %d", told, test.events)
				}
			}, runner)
		})
	}
}
