package why

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/finding"
)

// story is what is asked of one job: the objects that there are, and what has to be said of them. Exit code 1 is for those in
// which somebody has to act.
type story struct {
	objects []client.Object
	state   State
	acts    bool
	says    []string
}

func (s *story) check(t *testing.T) {
	t.Helper()
	subject := runner
	if s.state == Waiting {
		subject = job
	}
	said, stories, err := asked(t, server(nil, s.objects...), subject)
	if errors.Is(err, finding.ErrProblems) != s.acts || err != nil && !s.acts {
		t.Errorf("fails with %v, want that somebody has to act: %t", err, s.acts)
	}
	if len(stories) != 1 || stories[0].State != s.state {
		t.Fatalf("stories are %+v, want one of state %s", stories, s.state)
	}
	for _, part := range s.says {
		if !strings.Contains(said, part) {
			t.Errorf("lacks %q:\n%s", part, said)
		}
	}
}

// The stories of jobs that a runner has begun: their state, the reason, what follows and whose step it is.
func TestStoriesOfJobsThatBegan(t *testing.T) {
	for name, test := range map[string]story{
		"it runs": {[]client.Object{runnerWith(nil), podWith(nil)}, Running, false, []string{
			`Job "build (linux)" of acme/app, run 1234567890: running`, "https://github.com/acme/app/actions/runs/1234567890",
			"node node-7, image ghcr.io/acme/runner:1", "placed  after 1m00s",
			"1m40s in all, the longest for placed: the cluster", "runners/" + runner + " of scale set linux", "started by push",
		}},
		"it has ended": {[]client.Object{runnerWith(func(r *v1alpha1.EphemeralRunner) {
			r.Status.JobResult, r.Status.FinishedAt = "failed", after(160)
		})}, Ended, false,
			[]string{"failed at ", "after 1m00s"}},
		"a node went": {[]client.Object{runnerWith(lost("NodeLost", "node node-7 is gone", nil))}, Lost, true, []string{
			"lost with its runner", "NodeLost: node node-7 is gone", "the job's author: run the job again",
			"the cluster's administrator: to lose no more jobs so, run long jobs on nodes that stay",
		}},
		"it runs again": {[]client.Object{runnerWith(lost("OOMKilled", "container runner",
			&v1alpha1.RerunStatus{State: "Done", Attempt: 2, Since: *after(200)}))}, Lost, true,
			[]string{"nobody: it runs again in attempt 2",
				"whoever installs the scale set: to lose no more jobs so, raise the memory limit"}},
		"it is not run again": {[]client.Object{runnerWith(lost("Evicted", "",
			&v1alpha1.RerunStatus{State: "GivenUp", Since: *after(200), Message: "somebody cancelled the run"}))}, Lost, true,
			[]string{"the job's author: run the job again from the page of the workflow run", "It is not run again by itself",
				"somebody cancelled the run)"}},
		"a newer run came": {[]client.Object{runnerWith(lost("Evicted", "",
			&v1alpha1.RerunStatus{State: "GivenUp", Reason: v1alpha1.RerunNewerRun, Since: *after(200)}))}, Lost, true,
			[]string{"It is not run again by itself: there is a newer run of the same workflow, branch and event"}},
		"nobody wanted reruns": {[]client.Object{runnerWith(lost("Evicted", "", nil))}, Lost, true,
			[]string{"Nobody has asked GitHub to run it again", "to have the next one run again by itself, set feedback.rerunLostJobs"}},
		"GitHub has named its log": {[]client.Object{runnerWith(func(r *v1alpha1.EphemeralRunner) { r.Status.JobNumber = 501 })}, Running, false,
			[]string{"https://github.com/acme/app/actions/runs/1234567890/job/501"}},
	} {
		t.Run(name, test.check)
	}
}

// The stories of jobs that wait, and of runners that have none.
func TestStoriesOfWhatWaits(t *testing.T) {
	waits := v1alpha1.WaitingJob{Repository: "acme/app", RunID: run, JobID: job, Name: "build (linux)",
		QueuedAt: &began, AssignedAt: *after(10)}
	for name, test := range map[string]story{
		"it waits for the maximum": {scaleSet(4, 4, waits), Waiting, false, []string{
			"waits for a runner", "MaxRunnersReached: maxRunners of 4 is reached",
			"whoever installs the scale set: raise maxRunners", "runners/linux",
		}},
		"the maximum is 0":              {scaleSet(4, 0, waits), Waiting, true, []string{"MaxRunnersZero: maxRunners is 0", "whoever installs the scale set: raise maxRunners"}},
		"it waits and nothing is wrong": {scaleSet(4, 40, waits), Waiting, false, []string{"nobody: wait"}},
		"no node has room": {append(scaleSet(4, 40), runnerWith(starting), podWith(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations, p.Status = "", nil,
				corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
		})), Starting, true, []string{"Unschedulable: 0/3 nodes are available",
			"the cluster's administrator: add nodes"}},
		"the image is not there": {append(scaleSet(4, 40), runnerWith(starting), podWith(func(p *corev1.Pod) {
			p.Annotations, p.Status.Phase = nil, corev1.PodPending
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}
		})), Starting, true, []string{"ImagePullBackOff: not found",
			"whoever installs the scale set: correct the image"}},
		"GitHub refuses": {append(scaleSet(4, 40), runnerWith(func(r *v1alpha1.EphemeralRunner) {
			starting(r)
			r.Status.Reason, r.Status.Message = "RateLimited", "until noon"
		})), Starting, false, []string{"RateLimited: until noon", "nobody: "}},
		"it failed before it had a job": {[]client.Object{runnerWith(func(r *v1alpha1.EphemeralRunner) {
			r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "StartError",
				Message: "no such file"}
		})}, Failed, true, []string{"A runner without a job: the runner failed", "StartError: no such file",
			"whoever installs the scale set: correct the image or command"}},
		"it is idle": {[]client.Object{runnerWith(func(r *v1alpha1.EphemeralRunner) {
			r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseRunning}
		})}, Idle, false, []string{"the runner is up and waits for a job"}},
	} {
		t.Run(name, test.check)
	}
}

func starting(r *v1alpha1.EphemeralRunner) {
	r.Status = v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhasePending}
}
