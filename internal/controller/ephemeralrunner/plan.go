package ephemeralrunner

import (
	"cmp"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
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
	// busyRetryAfter is the pause after GitHub has refused to remove a runner because it has a job.
	busyRetryAfter = 30 * time.Second
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

// decide returns the decision to take step s for the reason that the pod gives.
func (o outcome) decide(s step) decision {
	return decision{step: s, reason: o.reason, message: o.message}
}

// progress is the state of a call.
type progress struct {
	known, running bool
	failure        *failure  // nil if it succeeded or has not ended
	finishedAt     time.Time // when it ended
	retryAt        time.Time // when it may be repeated after a failure
}

// busy reports whether GitHub refused because the runner has a job.
func (p progress) busy() bool { return p.failure != nil && p.failure.kind == failureBusy }

// succeeded reports whether the call has ended without a failure.
func (p progress) succeeded() bool { return p.known && !p.running && p.failure == nil }

// askAgain reports whether to make the call now, and if not, when: zero if it is under way or has succeeded.
func (p progress) askAgain(now time.Time) (ask bool, at time.Time) {
	switch {
	case p.running || p.succeeded():
		return false, time.Time{}
	case now.Before(p.retryAt):
		return false, p.retryAt
	default:
		return true, time.Time{}
	}
}

// failure says why a call did not do what it should. It is an error.
type failure struct {
	kind            failureKind
	reason, message string
	// allowedAt is when GitHub allows the next request, zero if it did not say.
	allowedAt time.Time
}

func (f *failure) Error() string { return f.message }

type failureKind int

const (
	// failureTemporary: try again later.
	failureTemporary failureKind = iota
	// failureAway: the same, because the API server is away.
	failureAway
	// failureInvalid: the pod or Secret can't be created as the template has it.
	failureInvalid
	// failureNameTaken: a runner of another scale set, or somebody else's pod or Secret, has the name.
	failureNameTaken
	// failureClosed: the namespace or the runner is being deleted, so nothing can be created for it any more.
	failureClosed
	// failureBusy: GitHub says that the runner has a job.
	failureBusy
	// failureNotFound: the answer was that there is no such registration, but it may not have come from GitHub itself.
	failureNotFound
)

// plan picks the next step of a runner that is neither done nor being deleted.
func plan(o *observation) decision {
	switch {
	case o.provisioning.running:
		// The client may repeat its request for the pod although the first one was carried out. If the pod were deleted in
		// between, it would be created again, with a used JIT config. The runner is requeued when the call ends.
		return decision{}
	case o.runner.Status.JobCompleted() && (o.pod.over() || o.pod.state == podMissing):
		return o.withLoss(decision{step: stepDeleteRunner})
	case o.failureNoted:
		return planDeleteFailedPod(o)
	}
	switch o.pod.state {
	case podSucceeded:
		return planSucceeded(o)
	case podOutdated:
		return o.withLoss(o.pod.decide(stepOutdate))
	case podNeverStarted:
		return planEnded(o)
	case podFailed:
		return planFailed(o)
	case podRunning:
		return planRunning(o)
	case podBlocked:
		return planBlocked(o)
	case podPending:
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
	case !o.exitedAt.IsZero(), o.ending == podSucceeded && o.runner.Status.HadJob():
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
		reason: v1alpha1.ReasonPodLost, message: "the pod is gone though the runner had not finished",
		outside: true, fault: podstatus.FaultDisruption,
	}
	switch ending := &o.podEnding; {
	case !o.hadPod && o.provisioning.known:
		lost.fault = podstatus.FaultCluster
	case o.hadPod && (ending.Outside || o.ending != podMissing):
		lost.outside, lost.fault, lost.message = ending.Outside, ending.Fault, cmp.Or(ending.Message, lost.message)
		if ending.Cause != v1alpha1.LostCauseUnknown && ending.Cause != v1alpha1.LostCausePodDeleted {
			lost.reason = cmp.Or(string(ending.Cause), lost.reason)
		}
	}
	return planFailed(o.withPod(lost))
}

// planUnseen waits for a pod that the cache has never shown although it was created or a job was reported. Runners and pods
// arrive on separate watches, and the pod watch may lag; treating the pod as lost would cost its job.
func planUnseen(o *observation) decision {
	if due := o.provisioning.finishedAt.Add(unseenTimeout); o.provisioning.known && o.now.Before(due) {
		return decision{requeueAt: due}
	}
	return planLost(o)
}

// planEnded handles a pod that ended before its runner container started. The JIT config is reused, unless the container was
// seen running or GitHub was asked to remove the registration, as for a pod that was blocked before: then only GitHub's
// answer tells whether the config was used.
func planEnded(o *observation) decision {
	if o.ran() || o.removal.known {
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
	refusal := o.provisioning.failure
	switch {
	case refusal == nil:
		return planFirstTry(o)
	case refusal.kind == failureInvalid:
		return decision{step: stepFail, reason: refusal.reason, message: refusal.message}
	case refusal.kind == failureNameTaken:
		return decision{step: stepReplace, reason: refusal.reason, message: refusal.message}
	case refusal.kind == failureBusy:
		return o.lostBusy(decision{step: stepFailBusy, reason: v1alpha1.ReasonPodLost, message: "the runner has a job on GitHub, and its pod is gone"})
	case refusal.kind == failureClosed:
		return decision{} // its deletion comes next
	case o.now.Before(o.provisioning.retryAt):
		return planReport(o, refusal, o.provisioning.retryAt)
	default:
		return decision{step: stepProvision}
	}
}

// planFirstTry handles an attempt in which no call has failed. If one has succeeded, the pod exists or existed.
func planFirstTry(o *observation) decision {
	if o.provisioning.known {
		return planUnseen(o)
	}
	return decision{step: stepProvision}
}

// planReport has the status state the cause, unless it already does, and requeues the runner at requeueAt.
func planReport(o *observation, cause *failure, requeueAt time.Time) decision {
	status := &o.runner.Status
	if status.Reason == cause.reason && (status.Message == cause.message || o.now.Before(o.pendingReportedAt.Add(rewordPeriod))) {
		return decision{requeueAt: requeueAt}
	}
	return decision{step: stepReportPending, reason: cause.reason, message: cause.message, requeueAt: requeueAt}
}

// planStartedLate handles a runner container that started just after its registration was removed: it will not get a job.
func planStartedLate(o *observation) decision {
	late := o.pod
	late.reason, late.message = "StartedLate", "the runner container started after its registration had been removed"
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
	case o.pod.sidecar != "" && !o.sidecarReported:
		return decision{step: stepReportSidecar, reason: "SidecarFailed", message: o.pod.sidecar}
	case reported && status.Ready == o.pod.ready && status.RunnerID == o.runnerID:
		return decision{}
	case !reported && !o.pod.ready && o.now.Before(due):
		return decision{requeueAt: due}
	case !reported && status.JobCompleted() && o.now.Before(podDueToEnd(status)):
		return decision{requeueAt: podDueToEnd(status)}
	case !reported && o.deferStatus:
		return decision{requeueAt: statusRecheckAt(o.runner, o.now)}
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
	case o.removal.running:
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
	case o.removal.busy():
		return o.lostBusy(o.pod.decide(stepFailBusy))
	default:
		return planDeregistered(o)
	}
}

// planDeregistered asks GitHub to remove the registration, and registers the runner again after that.
func planDeregistered(o *observation) decision {
	switch {
	case o.removal.running:
		return decision{}
	case o.deregistered():
		return planRetry(o, stepReregister)
	case o.now.Before(o.removal.retryAt):
		return planReport(o, o.removal.failure, o.removal.retryAt)
	default:
		return decision{step: stepDeregister}
	}
}
