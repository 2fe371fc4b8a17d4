package rules

import (
	"cmp"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// ReportGracePeriod is how long after the runner's exit the report of its job's end may come; after that the runner's own
	// status says that it has ended. Reports come within a second; waiting for them saves one write per runner.
	ReportGracePeriod = 3 * time.Second
	// UnseenTimeout is how long a pod that was created may be missing from the cache.
	UnseenTimeout = time.Minute
	// readyTimeout is how long a pod whose runner container runs may be unready before the status says so. With sidecars that
	// start a second later, this saves one write per runner.
	readyTimeout = 2 * time.Second
	// rewordPeriod is the shortest time between two reports of the same reason with different messages. GitHub's messages
	// contain the id of the request and the scheduler's the number of nodes, and a thousand runners may wait for the same
	// thing.
	rewordPeriod = 5 * time.Minute
)

// Plan picks the next step of a runner that is neither done nor being deleted.
func Plan(w *World) Decision {
	switch {
	case w.Provisioning.Running:
		// The client may repeat its request for the pod although the first one was carried out. If the pod were deleted in
		// between, it would be created again, with a used JIT config. The runner is requeued when the call ends.
		return Decision{}
	case w.Runner.Status.JobCompleted() && (w.Pod.Over() || w.Pod.Phase == podstatus.Missing):
		return w.withLoss(Decision{Step: DeleteRunner})
	case w.FailureNoted:
		return planDeleteFailedPod(w)
	case w.Pod.Outdated():
		return w.withLoss(w.Pod.decide(Outdate))
	}
	switch w.Pod.Phase {
	case podstatus.Succeeded:
		return planSucceeded(w)
	case podstatus.NeverStarted:
		return planEnded(w)
	case podstatus.Failed:
		return planFailed(w)
	case podstatus.Running:
		return planRunning(w)
	case podstatus.Blocked:
		return planBlocked(w)
	case podstatus.Pending:
		return planPending(w)
	default:
		return planMissing(w)
	}
}

// planMissing handles a runner without a pod: it has none yet, it lost the one it had, or the next attempt hasn't created
// one.
func planMissing(w *World) Decision {
	switch {
	case !w.ExitedAt.IsZero() && w.deregistered():
		return planStartedLate(w)
	case !w.ExitedAt.IsZero(), w.Ending == podstatus.Succeeded && w.Runner.Status.HadJob():
		return planExited(w)
	case w.HadPod:
		return planLost(w)
	case w.ran():
		return planUnseen(w)
	default:
		return planProvision(w)
	}
}

// planLost handles a pod that was there and is gone, or that has never shown. Nobody can tell whether its container had started: it may
// have started just before the end, or while a watch was interrupted. Somebody took it, unless its last state says otherwise; one that
// never shows may lack our labels, as every other would.
func planLost(w *World) Decision {
	lost := Outcome{
		State:   podstatus.State{Reason: v1alpha1.ReasonPodLost, Message: "the pod is gone though the runner had not finished"},
		Outside: true, Fault: podstatus.FaultDisruption,
	}
	switch ending := &w.PodEnding; {
	case !w.HadPod && w.Provisioning.Known:
		lost.Fault = podstatus.FaultCluster
	case w.HadPod && (ending.Outside || w.Ending != podstatus.Missing):
		lost.Outside, lost.Fault, lost.Message = ending.Outside, ending.Fault, cmp.Or(ending.Message, lost.Message)
		if ending.Cause != v1alpha1.LostCauseUnknown && ending.Cause != v1alpha1.LostCausePodDeleted {
			lost.Reason = cmp.Or(string(ending.Cause), lost.Reason)
		}
	}
	return planFailed(w.withPod(lost))
}

// planUnseen waits for a pod that the cache has never shown although it was created or a job was reported. Runners and pods
// arrive on separate watches, and the pod watch may lag; treating the pod as lost would cost its job.
func planUnseen(w *World) Decision {
	if due := w.Provisioning.FinishedAt.Add(UnseenTimeout); w.Provisioning.Known && w.Now.Before(due) {
		return Decision{RequeueAt: due}
	}
	return planLost(w)
}

// planEnded handles a pod that ended before its runner container started. The JIT config is reused, unless the container was
// seen running or GitHub was asked to remove the registration, as for a pod that was blocked before: then only GitHub's
// answer tells whether the config was used.
func planEnded(w *World) Decision {
	if w.ran() || w.Removal.Known {
		return planFailed(w)
	}
	return planRetry(w, Retry)
}

// planProvision starts an attempt once the pause after the last one is over.
func planProvision(w *World) Decision {
	if kube.Container(&w.Runner.Spec.PodSpec, v1alpha1.RunnerContainerName) == nil {
		return Decision{Step: Fail, Reason: v1alpha1.ReasonInvalidPod, Message: kube.NoRunnerContainer}
	}
	if due := nextAttemptAt(w); w.Now.Before(due) {
		return Decision{RequeueAt: due}
	}
	refusal := w.Provisioning.Failure
	switch {
	case refusal == nil && w.Provisioning.Known:
		return planUnseen(w) // the call has succeeded: the pod exists or existed
	case refusal == nil:
		return Decision{Step: Launch}
	case refusal.Kind == Invalid:
		return Decision{Step: Fail, Reason: refusal.Reason, Message: refusal.Message}
	case refusal.Kind == NameTaken:
		return Decision{Step: Replace, Reason: refusal.Reason, Message: refusal.Message}
	case refusal.Kind == Busy:
		return w.lostBusy(Decision{Step: FailBusy, Reason: v1alpha1.ReasonPodLost, Message: "the runner has a job on GitHub, and its pod is gone"})
	case refusal.Kind == Closed:
		return Decision{} // its deletion comes next
	case w.Now.Before(w.Provisioning.RetryAt):
		return PlanReport(w, refusal, w.Provisioning.RetryAt)
	default:
		return Decision{Step: Launch}
	}
}

// nextAttemptAt returns when the pause after the last attempt is over. It returns now if the end of that is dated in the future:
// the clock was set back since, perhaps by hours, and the pause must not become that long.
func nextAttemptAt(w *World) time.Time {
	last := LastNoted(&w.Runner.Status)
	if last.After(w.Now) {
		return w.Now
	}
	return last.Add(BackoffAfter(AttemptsNoted(&w.Runner.Status)))
}

// PlanReport has the status state the cause, unless it already does, and requeues the runner at requeueAt.
func PlanReport(w *World, cause *Failure, requeueAt time.Time) Decision {
	status := &w.Runner.Status
	if status.Reason == cause.Reason && (status.Message == cause.Message || w.Now.Before(w.PendingReportedAt.Add(rewordPeriod))) {
		return Decision{RequeueAt: requeueAt}
	}
	return Decision{Step: ReportPending, Reason: cause.Reason, Message: cause.Message, RequeueAt: requeueAt}
}

// planStartedLate handles a runner container that started just after its registration was removed: it will not get a job.
func planStartedLate(w *World) Decision {
	late := w.Pod
	late.Reason, late.Message = "StartedLate", "the runner container started after its registration had been removed"
	return planRetry(w.withPod(late), Reregister)
}

func planRunning(w *World) Decision {
	if w.deregistered() {
		return planStartedLate(w)
	}
	status := &w.Runner.Status
	reported := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
	due := w.StartedAt.Add(readyTimeout)
	switch {
	case w.Pod.Sidecar != "" && !w.SidecarReported:
		return Decision{Step: ReportSidecar, Reason: "SidecarFailed", Message: w.Pod.Sidecar}
	case reported && status.Ready == w.Pod.Ready && status.RunnerID == w.RunnerID:
		return Decision{}
	case !reported && !w.Pod.Ready && w.Now.Before(due):
		return Decision{RequeueAt: due}
	case !reported && status.JobCompleted() && w.Now.Before(w.EndDueAt):
		return Decision{RequeueAt: w.EndDueAt}
	case !reported && !w.DeferredUntil.IsZero():
		return Decision{RequeueAt: w.DeferredUntil}
	default:
		return Decision{Step: ReportRunning}
	}
}

// planSucceeded handles a runner container that exited with 0. If it was made to, for example by a node drain, and no job is
// known, it counts as a lost pod: neither image nor command is to blame.
func planSucceeded(w *World) Decision {
	switch {
	case w.deregistered() && !w.Pod.Outside:
		return planStartedLate(w)
	case w.Pod.Outside && !w.Runner.Status.HadJob():
		return planFailed(w)
	default:
		return planExited(w)
	}
}

// planExited deletes the pod at once, and the runner when the end of its job is reported. If no report comes, the status says
// that the runner succeeded, but not while GitHub still has to answer a removal: the runner may have exited because of it.
func planExited(w *World) Decision {
	switch {
	case w.ExitedAt.IsZero():
		return Decision{Step: Exited, RequeueAt: w.Now.Add(ReportGracePeriod)}
	case w.Removal.Running:
		return Decision{}
	case w.Now.Before(w.ExitedAt.Add(ReportGracePeriod)):
		return Decision{RequeueAt: w.ExitedAt.Add(ReportGracePeriod)}
	default:
		return w.withLoss(Decision{Step: Succeed})
	}
}

// planFailed handles a runner container that had started, so its registration may have been used. With a job there is nothing
// to retry. Without one, GitHub's consent to remove the registration proves that there was no job.
func planFailed(w *World) Decision {
	switch {
	case w.Runner.Status.HadJob():
		return w.withLoss(w.Pod.decide(Fail))
	case w.Removal.Busy():
		return w.lostBusy(w.Pod.decide(FailBusy))
	default:
		return planDeregistered(w)
	}
}

// planDeregistered asks GitHub to remove the registration, and registers the runner again after that.
func planDeregistered(w *World) Decision {
	switch {
	case w.Removal.Running:
		return Decision{}
	case w.deregistered():
		return planRetry(w, Reregister)
	case w.Now.Before(w.Removal.RetryAt):
		return PlanReport(w, w.Removal.Failure, w.Removal.RetryAt)
	default:
		return Decision{Step: Deregister}
	}
}
