// Package rules decides what a runner needs next. It is pure: what was seen and is remembered comes in, a decision goes out. Plan decides
// about a runner that lives, PlanFinalization about one that is being deleted.
//
// A JIT config is good for one start of the runner container. If the container never started, the next pod reuses the config.
// If it did start and the pod is lost, a runner without a job gets a new registration; a runner with a job has failed.
//
// What ends a pod before it has a job is held against the runner unless the pod was taken away, with or without its node: attempts.go.
package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// Step is what to do next for a runner.
type Step int

const (
	// Wait: do nothing until something changes or RequeueAt has come.
	Wait Step = iota
	// Launch: register, unless there is an unused JIT config, then create Secret and Pod.
	Launch
	// ReportRunning: write to the status that the runner runs.
	ReportRunning
	// ReportPending: write to the status why it does not run yet.
	ReportPending
	// ReportSidecar: record an Event that another container has died.
	ReportSidecar
	// DeleteFailedPod: the pod's failure is in the status; delete the pod.
	DeleteFailedPod
	// Retry: the attempt failed before the runner started; note the failure and delete the pod.
	Retry
	// Deregister: the attempt failed after the start; ask GitHub to remove the registration.
	Deregister
	// Reregister: GitHub has removed the registration; note the failure, delete Pod and Secret, and register again.
	Reregister
	// Exited: the runner has exited. Delete its pod, because the pod occupies a machine. The status waits for the report
	// of the job's end; the Secret, which nobody needs any more, is deleted in the step after that.
	Exited
	// Succeed: it has exited, and no report has come.
	Succeed
	// Fail: it has failed for good.
	Fail
	// FailBusy: it has failed for good, and GitHub says that it has a job, which nobody has reported.
	FailBusy
	// Outdate: GitHub refuses its version.
	Outdate
	// DeleteRunner: the object is no longer needed; delete it.
	DeleteRunner
	// Replace: it can't get its name on GitHub; delete it, so that another runner takes its place.
	Replace
)

// Decision is the next step, why, and when to reconcile again.
type Decision struct {
	Step
	Reason, Message string
	// Lost is what the runner's job was lost to, zero if it was not.
	Lost podstatus.Ending
	// Disruption is set if the end to note is not held against the runner. firstInRow is set if it starts a new row: what was noted
	// before is dropped.
	Disruption, firstInRow bool
	RequeueAt              time.Time
}

// ExitCodeOutdated is the runner's exit code if GitHub refuses its version. The runner uses it only with
// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1.
const ExitCodeOutdated = 7

// Outcome is the state of a runner's pod. That its container exited with 0 means "finished or refused", not "the job succeeded".
type Outcome struct {
	podstatus.State
	// Outside is set if the end came from outside the runner, and Fault says whose fault it is: see podstatus.Ending.
	Outside bool
	Fault   podstatus.Fault
}

// OutcomeOf reads a runner's pod, which may be nil.
func OutcomeOf(pod *corev1.Pod, now time.Time) Outcome {
	o := Outcome{State: podstatus.Of(pod, v1alpha1.RunnerContainerName, now)}
	if o.Outdated() {
		o.Reason = "Outdated"
		o.Message = fmt.Sprintf("GitHub refuses the runner version in image %s", kube.Image(&pod.Spec, v1alpha1.RunnerContainerName))
	}
	return o
}

// Outdated reports whether GitHub has refused the runner's version.
func (o Outcome) Outdated() bool {
	return o.Phase == podstatus.Failed && o.ExitCode == ExitCodeOutdated
}

// decide returns the decision to take step s for the reason that the pod gives.
func (o Outcome) decide(s Step) Decision {
	return Decision{Step: s, Reason: o.Reason, Message: o.Message}
}

// World is all that a decision depends on.
type World struct {
	Runner      *v1alpha1.EphemeralRunner
	Pod         Outcome
	Bound       bool      // the pod has a node
	StartableAt time.Time // when the pod could first start: when it was created or, if later, bound to a node
	Now         time.Time

	Attempt
	// HadPod is set if a pod of the present attempt has been seen.
	HadPod bool
	// FailureNoted is set if the pod's failure is in the status; the pod is deleted next.
	FailureNoted bool
	// PodDueAt is when the pod must be gone once it has ended, zero if it is not being deleted.
	PodDueAt time.Time
	// DeletionDueAt is when the pod should be gone by the API server's clock, and Finalizers are what it waits for. Both
	// serve only the message.
	DeletionDueAt time.Time
	Finalizers    []string
	// PodEnding is what ended the pod while its job ran, as first seen.
	PodEnding podstatus.Ending
	// RunnerID is the runner's id on GitHub, 0 if not known.
	RunnerID int
	// Provisioning is the state of the last registration in this process.
	Provisioning Progress
	// Removal is the state of the last call to remove the registration.
	Removal Progress
	// EndDueAt is until when the pod of a completed job is expected to end.
	EndDueAt time.Time
	// DeferredUntil is until when writes that only report something must wait, zero if they need not.
	DeferredUntil time.Time
}

// ran reports whether the runner container of this attempt has started, which uses up its JIT config.
func (w *World) ran() bool {
	status := &w.Runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() || !w.StartedAt.IsZero()
}

// withPod returns a copy of the world in which the pod has another outcome.
func (w *World) withPod(pod Outcome) *World {
	other := *w
	other.Pod = pod
	return &other
}

// deregistered reports whether GitHub has removed the registration at our request, which proves that the runner has no job.
func (w *World) deregistered() bool {
	return !w.Runner.Status.HadJob() && w.Removal.Succeeded()
}

// ExitedIdle returns why a runner has failed that exited with code 0 without a job; certain is set if GitHub could tell. The usual image also
// ends so if it can't write its work folder. What its container runs may be left to the image, which may be right for an image of one's own.
func ExitedIdle(spec *corev1.PodSpec, certain bool) Decision {
	what, advice := "the runner container exited with code 0, and neither a report nor GitHub says that it had a job", "check the image and its command"
	if certain {
		what = "the runner container exited with code 0 before it got a job"
	}
	runner := kube.Container(spec, v1alpha1.RunnerContainerName)
	if runner != nil && len(runner.Command) == 0 && len(runner.Args) == 0 {
		advice = `it has no command, and the usual image does not start the runner by itself: add command: ["/home/runner/run.sh"] to the template`
	} else if unwritable := kube.UnwritableWork(spec, v1alpha1.RunnerContainerName); unwritable != "" {
		advice += "; " + unwritable
	}
	return Decision{Step: Fail, Reason: v1alpha1.ReasonRunnerExitedWithoutJob, Message: what + ": " + advice}
}
