package ephemeralrunner

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/calls"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// reportGracePeriod is how long after the runner's exit the report of its job's end may come; after that the runner's own
	// status says that it has ended. Reports come within a second; waiting for them saves one write per runner.
	reportGracePeriod = 3 * time.Second
	// unseenTimeout is how long a pod that was created may be missing from the cache.
	unseenTimeout = time.Minute
	// readyTimeout is how long a pod whose runner container runs may be unready before the status says so. With sidecars that
	// start a second later, this saves one write per runner.
	readyTimeout = 2 * time.Second
	// rewordPeriod is the shortest time between two reports of the same reason with different messages. GitHub's messages
	// contain the id of the request and the scheduler's the number of nodes, and a thousand runners may wait for the same
	// thing.
	rewordPeriod = 5 * time.Minute
)

// step is what to do next for a runner.
type step int

const (
	// stepWait: do nothing until something changes or requeueAt has come.
	stepWait step = iota
	// stepProvision: register, unless there is an unused JIT config, then create Secret and Pod.
	stepProvision
	// stepReportRunning: write to the status that the runner runs.
	stepReportRunning
	// stepReportPending: write to the status why it does not run yet.
	stepReportPending
	// stepReportSidecar: record an Event that another container has died.
	stepReportSidecar
	// stepDeleteFailedPod: the pod's failure is in the status; delete the pod.
	stepDeleteFailedPod
	// stepRetry: the attempt failed before the runner started; note the failure and delete the pod.
	stepRetry
	// stepDeregister: the attempt failed after the start; ask GitHub to remove the registration.
	stepDeregister
	// stepReregister: GitHub has removed the registration; note the failure, delete Pod and Secret, and register again.
	stepReregister
	// stepExited: the runner has exited. Delete its pod, because the pod occupies a machine. The status waits for the report
	// of the job's end; the Secret, which nobody needs any more, is deleted in the step after that.
	stepExited
	// stepSucceed: it has exited, and no report has come.
	stepSucceed
	// stepFail: it has failed for good.
	stepFail
	// stepFailBusy: it has failed for good, and GitHub says that it has a job, which nobody has reported.
	stepFailBusy
	// stepOutdate: GitHub refuses its version.
	stepOutdate
	// stepDeleteRunner: the object is no longer needed; delete it.
	stepDeleteRunner
	// stepReplace: it can't get its name on GitHub; delete it, so that another runner takes its place.
	stepReplace
)

// decision is the next step, why, and when to reconcile again.
type decision struct {
	step
	reason, message string
	// lost is what the runner's job was lost to, zero if it was not.
	lost podstatus.Ending
	// disruption is set if the end to note is not held against the runner. firstInRow is set if it starts a new row: what was noted
	// before is dropped.
	disruption, firstInRow bool
	requeueAt              time.Time
}

// exitCodeOutdated is the runner's exit code if GitHub refuses its version. The runner uses it only with
// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1.
const exitCodeOutdated = 7

// outcome is the state of a runner's pod. That its container exited with 0 means "finished or refused", not "the job succeeded".
type outcome struct {
	podstatus.State
	// outside is set if the end came from outside the runner, and fault says whose fault it is: see podstatus.Ending.
	outside bool
	fault   podstatus.Fault
}

// outcomeOf reads a runner's pod, which may be nil.
func outcomeOf(pod *corev1.Pod, now time.Time) outcome {
	o := outcome{State: podstatus.Of(pod, v1alpha1.RunnerContainerName, now)}
	if o.outdated() {
		o.Reason = "Outdated"
		o.Message = fmt.Sprintf("GitHub refuses the runner version in image %s", kube.Image(&pod.Spec, v1alpha1.RunnerContainerName))
	}
	return o
}

func (o outcome) outdated() bool {
	return o.Phase == podstatus.Failed && o.ExitCode == exitCodeOutdated
}

// decide returns the decision to take step s for the reason that the pod gives.
func (o outcome) decide(s step) decision {
	return decision{step: s, reason: o.Reason, message: o.Message}
}

// observation is all that a decision depends on.
type observation struct {
	runner      *v1alpha1.EphemeralRunner
	pod         outcome
	bound       bool      // the pod has a node
	startableAt time.Time // when the pod could first start: when it was created or, if later, bound to a node
	now         time.Time

	attempt
	// hadPod is set if a pod of the present attempt has been seen.
	hadPod bool
	// failureNoted is set if the pod's failure is in the status; the pod is deleted next.
	failureNoted bool
	// podDueAt is when the pod must be gone once it has ended, zero if it is not being deleted.
	podDueAt time.Time
	// deletionDueAt is when the pod should be gone by the API server's clock, and finalizers are what it waits for. Both
	// serve only the message.
	deletionDueAt time.Time
	finalizers    []string
	// podEnding is what ended the pod while its job ran, as first seen.
	podEnding podstatus.Ending
	// runnerID is the runner's id on GitHub, 0 if not known.
	runnerID int
	// provisioning is the state of the last registration in this process.
	provisioning calls.Progress
	// removal is the state of the last call to remove the registration.
	removal calls.Progress
	// endDueAt is until when the pod of a completed job is expected to end.
	endDueAt time.Time
	// deferredUntil is until when writes that only report something must wait, zero if they need not.
	deferredUntil time.Time
}

// ran reports whether the runner container of this attempt has started, which uses up its JIT config.
func (o *observation) ran() bool {
	status := &o.runner.Status
	return status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() || !o.startedAt.IsZero()
}

// withPod returns a copy of the observation in which the pod has another outcome.
func (o *observation) withPod(pod outcome) *observation {
	other := *o
	other.pod = pod
	return &other
}

// deregistered reports whether GitHub has removed the registration at our request, which proves that the runner has no job.
func (o *observation) deregistered() bool {
	return !o.runner.Status.HadJob() && o.removal.Succeeded()
}

// plan picks the next step of a runner that is neither done nor being deleted.
func plan(o *observation) decision {
	switch {
	case o.provisioning.Running:
		// The client may repeat its request for the pod although the first one was carried out. If the pod were deleted in
		// between, it would be created again, with a used JIT config. The runner is requeued when the call ends.
		return decision{}
	case o.runner.Status.JobCompleted() && (o.pod.Over() || o.pod.Phase == podstatus.Missing):
		return o.withLoss(decision{step: stepDeleteRunner})
	case o.failureNoted:
		return planDeleteFailedPod(o)
	case o.pod.outdated():
		return o.withLoss(o.pod.decide(stepOutdate))
	}
	switch o.pod.Phase {
	case podstatus.Succeeded:
		return planSucceeded(o)
	case podstatus.NeverStarted:
		return planEnded(o)
	case podstatus.Failed:
		return planFailed(o)
	case podstatus.Running:
		return planRunning(o)
	case podstatus.Blocked:
		return planBlocked(o)
	case podstatus.Pending:
		return planPending(o)
	default:
		return planMissing(o)
	}
}

// planMissing handles a runner without a pod: it has none yet, it lost the one it had, or the next attempt hasn't created
// one.
func planMissing(o *observation) decision {
	switch {
	case !o.exitedAt.IsZero() && o.deregistered():
		return planStartedLate(o)
	case !o.exitedAt.IsZero(), o.ending == podstatus.Succeeded && o.runner.Status.HadJob():
		return planExited(o)
	case o.hadPod:
		return planLost(o)
	case o.ran():
		return planUnseen(o)
	default:
		return planProvision(o)
	}
}

// planLost handles a pod that was there and is gone, or that has never shown. Nobody can tell whether its container had started: it may
// have started just before the end, or while a watch was interrupted. Somebody took it, unless its last state says otherwise; one that
// never shows may lack our labels, as every other would.
func planLost(o *observation) decision {
	lost := outcome{
		State:   podstatus.State{Reason: v1alpha1.ReasonPodLost, Message: "the pod is gone though the runner had not finished"},
		outside: true, fault: podstatus.FaultDisruption,
	}
	switch ending := &o.podEnding; {
	case !o.hadPod && o.provisioning.Known:
		lost.fault = podstatus.FaultCluster
	case o.hadPod && (ending.Outside || o.ending != podstatus.Missing):
		lost.outside, lost.fault, lost.Message = ending.Outside, ending.Fault, cmp.Or(ending.Message, lost.Message)
		if ending.Cause != v1alpha1.LostCauseUnknown && ending.Cause != v1alpha1.LostCausePodDeleted {
			lost.Reason = cmp.Or(string(ending.Cause), lost.Reason)
		}
	}
	return planFailed(o.withPod(lost))
}

// planUnseen waits for a pod that the cache has never shown although it was created or a job was reported. Runners and pods
// arrive on separate watches, and the pod watch may lag; treating the pod as lost would cost its job.
func planUnseen(o *observation) decision {
	if due := o.provisioning.FinishedAt.Add(unseenTimeout); o.provisioning.Known && o.now.Before(due) {
		return decision{requeueAt: due}
	}
	return planLost(o)
}

// planEnded handles a pod that ended before its runner container started. The JIT config is reused, unless the container was
// seen running or GitHub was asked to remove the registration, as for a pod that was blocked before: then only GitHub's
// answer tells whether the config was used.
func planEnded(o *observation) decision {
	if o.ran() || o.removal.Known {
		return planFailed(o)
	}
	return planRetry(o, stepRetry)
}

// planProvision starts an attempt once the pause after the last one is over.
func planProvision(o *observation) decision {
	if kube.Container(&o.runner.Spec.PodSpec, v1alpha1.RunnerContainerName) == nil {
		return decision{step: stepFail, reason: v1alpha1.ReasonInvalidPod, message: kube.NoRunnerContainer}
	}
	if due := nextAttemptAt(o); o.now.Before(due) {
		return decision{requeueAt: due}
	}
	refusal := o.provisioning.Failure
	switch {
	case refusal == nil:
		return planFirstTry(o)
	case refusal.Kind == calls.Invalid:
		return decision{step: stepFail, reason: refusal.Reason, message: refusal.Message}
	case refusal.Kind == calls.NameTaken:
		return decision{step: stepReplace, reason: refusal.Reason, message: refusal.Message}
	case refusal.Kind == calls.Busy:
		return o.lostBusy(decision{step: stepFailBusy, reason: v1alpha1.ReasonPodLost, message: "the runner has a job on GitHub, and its pod is gone"})
	case refusal.Kind == calls.Closed:
		return decision{} // its deletion comes next
	case o.now.Before(o.provisioning.RetryAt):
		return planReport(o, refusal, o.provisioning.RetryAt)
	default:
		return decision{step: stepProvision}
	}
}

// planFirstTry handles an attempt in which no call has failed. If one has succeeded, the pod exists or existed.
func planFirstTry(o *observation) decision {
	if o.provisioning.Known {
		return planUnseen(o)
	}
	return decision{step: stepProvision}
}

// planReport has the status state the cause, unless it already does, and requeues the runner at requeueAt.
func planReport(o *observation, cause *calls.Failure, requeueAt time.Time) decision {
	status := &o.runner.Status
	if status.Reason == cause.Reason && (status.Message == cause.Message || o.now.Before(o.pendingReportedAt.Add(rewordPeriod))) {
		return decision{requeueAt: requeueAt}
	}
	return decision{step: stepReportPending, reason: cause.Reason, message: cause.Message, requeueAt: requeueAt}
}

// planStartedLate handles a runner container that started just after its registration was removed: it will not get a job.
func planStartedLate(o *observation) decision {
	late := o.pod
	late.Reason, late.Message = "StartedLate", "the runner container started after its registration had been removed"
	return planRetry(o.withPod(late), stepReregister)
}

func planRunning(o *observation) decision {
	if o.deregistered() {
		return planStartedLate(o)
	}
	status := &o.runner.Status
	reported := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
	due := o.startedAt.Add(readyTimeout)
	switch {
	case o.pod.Sidecar != "" && !o.sidecarReported:
		return decision{step: stepReportSidecar, reason: "SidecarFailed", message: o.pod.Sidecar}
	case reported && status.Ready == o.pod.Ready && status.RunnerID == o.runnerID:
		return decision{}
	case !reported && !o.pod.Ready && o.now.Before(due):
		return decision{requeueAt: due}
	case !reported && status.JobCompleted() && o.now.Before(o.endDueAt):
		return decision{requeueAt: o.endDueAt}
	case !reported && !o.deferredUntil.IsZero():
		return decision{requeueAt: o.deferredUntil}
	default:
		return decision{step: stepReportRunning}
	}
}

// planSucceeded handles a runner container that exited with 0. If it was made to, for example by a node drain, and no job is
// known, it counts as a lost pod: neither image nor command is to blame.
func planSucceeded(o *observation) decision {
	switch {
	case o.deregistered() && !o.pod.outside:
		return planStartedLate(o)
	case o.pod.outside && !o.runner.Status.HadJob():
		return planFailed(o)
	default:
		return planExited(o)
	}
}

// planExited deletes the pod at once, and the runner when the end of its job is reported. If no report comes, the status says
// that the runner succeeded, but not while GitHub still has to answer a removal: the runner may have exited because of it.
func planExited(o *observation) decision {
	switch {
	case o.exitedAt.IsZero():
		return decision{step: stepExited, requeueAt: o.now.Add(reportGracePeriod)}
	case o.removal.Running:
		return decision{}
	case o.now.Before(o.exitedAt.Add(reportGracePeriod)):
		return decision{requeueAt: o.exitedAt.Add(reportGracePeriod)}
	default:
		return o.withLoss(decision{step: stepSucceed})
	}
}

// planFailed handles a runner container that had started, so its registration may have been used. With a job there is nothing
// to retry. Without one, GitHub's consent to remove the registration proves that there was no job.
func planFailed(o *observation) decision {
	switch {
	case o.runner.Status.HadJob():
		return o.withLoss(o.pod.decide(stepFail))
	case o.removal.Busy():
		return o.lostBusy(o.pod.decide(stepFailBusy))
	default:
		return planDeregistered(o)
	}
}

// planDeregistered asks GitHub to remove the registration, and registers the runner again after that.
func planDeregistered(o *observation) decision {
	switch {
	case o.removal.Running:
		return decision{}
	case o.deregistered():
		return planRetry(o, stepReregister)
	case o.now.Before(o.removal.RetryAt):
		return planReport(o, o.removal.Failure, o.removal.RetryAt)
	default:
		return decision{step: stepDeregister}
	}
}
