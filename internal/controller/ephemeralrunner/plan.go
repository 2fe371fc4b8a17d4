package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// reportGracePeriod is how long after the runner's exit the report of its job's end may come; after that the
	// runner's own status says that it has ended. Reports come within a second; waiting for them saves a write for
	// every runner.
	reportGracePeriod = 3 * time.Second
	// unseenTimeout is how long a pod that was created may be missing from the cache.
	unseenTimeout = time.Minute
	// readyTimeout is how long a pod whose runner container runs may lack readiness before the status says so. Where
	// sidecars start a second later this saves a write for every runner.
	readyTimeout = 2 * time.Second
	// upAfter is how long a runner container runs before what ends its pod from outside says nothing about image or template. A
	// runner that can't start or register ends within seconds.
	upAfter = time.Minute
	// rewordPeriod is the shortest time between two reports of the same reason with different messages: GitHub's
	// messages carry the id of the request and the scheduler's the number of nodes, and a thousand runners may wait
	// for the same thing.
	rewordPeriod = 5 * time.Minute
	// busyRetryAfter is the pause after GitHub has refused to remove a runner because it has a job.
	busyRetryAfter = 30 * time.Second
)

// retryBackoff are the pauses after the first to the fifth failed attempt; after the sixth the runner has failed.
var retryBackoff = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// step is what to do next for a runner.
type step int

const (
	// stepWait: nothing to do until something changes or the time has come.
	stepWait step = iota
	// stepProvision: register, unless a JIT config is there already and unused, then create Secret and Pod.
	stepProvision
	// stepReportRunning: the status has to say that the runner runs.
	stepReportRunning
	// stepReportPending: the status has to say why it does not run yet.
	stepReportPending
	// stepReportSidecar: an Event has to say that another container has died.
	stepReportSidecar
	// stepDeleteFailedPod: the pod's failure is in the status; delete the pod.
	stepDeleteFailedPod
	// stepRetry: the attempt failed before the runner started; note it and remove the pod.
	stepRetry
	// stepDeregister: the attempt failed after the start; GitHub is asked to remove the registration.
	stepDeregister
	// stepRetryAnew: GitHub has removed the registration; note the failure, remove Pod and Secret.
	stepRetryAnew
	// stepExited: the runner has exited. Its pod is deleted, because that is what occupies a machine; the status waits
	// for the report of the job's end, and the Secret, which nobody needs now, goes with what follows.
	stepExited
	// stepSucceed: it has exited, and no report has come.
	stepSucceed
	// stepFail: it has failed for good.
	stepFail
	// stepFailBusy: it has failed for good, and GitHub says that it has a job, which nobody has reported.
	stepFailBusy
	// stepOutdate: GitHub refuses its version.
	stepOutdate
	// stepDeleteRunner: the runner object has done its work.
	stepDeleteRunner
	// stepReplace: it cannot get its name on GitHub; another runner takes its place.
	stepReplace
)

// decision is the next step, why, and when to reconcile again.
type decision struct {
	step
	reason, message string
	// firstInRow is set where a failure that is to be noted follows on none of those noted before.
	firstInRow bool
	requeueAt  time.Time
}

// decide returns the decision to take a step because of what became of the pod.
func (o outcome) decide(s step) decision {
	return decision{step: s, reason: o.reason, message: o.message}
}

// progress is how far a call has got.
type progress struct {
	known, running bool
	failure        *failure  // nil: it succeeded, or has not ended
	finishedAt     time.Time // when it ended
	retryAt        time.Time // when it may be repeated after a failure
}

// busy reports whether GitHub refused because the runner has a job.
func (p progress) busy() bool { return p.failure != nil && p.failure.kind == failureBusy }

// succeeded reports whether the call has ended well.
func (p progress) succeeded() bool { return p.known && !p.running && p.failure == nil }

// askAgain reports whether the call is to be made now, and otherwise when: zero where it is under way or has succeeded.
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
	// allowedAt is when GitHub or the API server allows the next request, zero where it did not say.
	allowedAt time.Time
}

func (f *failure) Error() string { return f.message }

type failureKind int

const (
	// failureTemporary: try again later.
	failureTemporary failureKind = iota
	// failureInvalid: the pod can't be created as it is written.
	failureInvalid
	// failureNameTaken: another scale set has a runner of this name, or somebody else a pod.
	failureNameTaken
	// failureClosed: the namespace, or the runner, is being deleted, so nothing can be made for it any more.
	failureClosed
	// failureBusy: GitHub says that the runner has a job.
	failureBusy
	// failureNotFound: the answer was that there is no such registration, which GitHub need not have said itself.
	failureNotFound
)

// plan names the next step of a runner that is neither done nor being deleted.
func plan(o *observation) decision {
	switch {
	case o.provisioning.running:
		// Its request for the pod may have been carried out and be sent once more by the client itself: a pod that was
		// deleted in between would come again, with a JIT config that is used. The end of the call requeues the runner.
		return decision{}
	case o.runner.Status.JobCompleted() && (o.pod.over() || o.pod.state == podMissing):
		return decision{step: stepDeleteRunner}
	case o.failureNoted:
		return planDeleteFailedPod(o)
	}
	switch o.pod.state {
	case podSucceeded:
		return planSucceeded(o)
	case podOutdated:
		return o.pod.decide(stepOutdate)
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

// planMissing: no pod yet, none any more, or none again.
func planMissing(o *observation) decision {
	switch {
	case !o.exitedAt.IsZero() && o.deregistered():
		return planStartedLate(o)
	case !o.exitedAt.IsZero():
		return planExited(o)
	case o.hadPod:
		return planLost(o)
	case o.ran():
		return planUnseen(o)
	default:
		return planProvision(o)
	}
}

// planLost: the pod was there and is gone. Nobody can tell whether its container had started: it may have done so just
// before the end, or while a watch was interrupted.
func planLost(o *observation) decision {
	return planFailed(o.withPod(outcome{
		reason: v1alpha1.ReasonPodLost, message: "the pod is gone though the runner had not finished", disrupted: true,
	}))
}

// planUnseen: the pod was made, or a job was reported, so there is or was a pod, but none was seen. Runners and pods
// come by two watches, of which that of the pods may be the later one: a pod taken for lost then would cost its job.
func planUnseen(o *observation) decision {
	if due := o.provisioning.finishedAt.Add(unseenTimeout); o.provisioning.known && o.now.Before(due) {
		return decision{requeueAt: due}
	}
	return planLost(o)
}

// planEnded: the pod has ended, and says that the runner container never started. Its JIT config is used again unless the container
// was seen to run. If removal was requested, as it is for a pod that was blocked before, only GitHub's answer tells whether the
// config is used.
func planEnded(o *observation) decision {
	if o.ran() || o.removal.known {
		return planFailed(o)
	}
	return planRetry(o, stepRetry)
}

// planProvision starts an attempt once the pause after the last one is over.
func planProvision(o *observation) decision {
	if kube.Container(&o.runner.Spec.PodSpec, v1alpha1.RunnerContainerName) == nil {
		return decision{step: stepFail, reason: v1alpha1.ReasonInvalidPod, message: noRunnerContainer}
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
		return decision{step: stepFailBusy, reason: v1alpha1.ReasonPodLost, message: "the runner has a job on GitHub, and its pod is gone"}
	case refusal.kind == failureClosed:
		return decision{} // its deletion is what comes next
	case o.now.Before(o.provisioning.retryAt):
		return planReport(o, refusal, o.provisioning.retryAt)
	default:
		return decision{step: stepProvision}
	}
}

// planFirstTry: no call of this attempt has failed. Where one has ended well the pod exists, or did.
func planFirstTry(o *observation) decision {
	if o.provisioning.known {
		return planUnseen(o)
	}
	return decision{step: stepProvision}
}

// planReport has the status say what the runner waits for, unless it does already, and the runner reconciled again at
// the given time.
func planReport(o *observation, cause *failure, requeueAt time.Time) decision {
	status := &o.runner.Status
	if status.Reason == cause.reason && (status.Message == cause.message || o.now.Before(o.pendingReportedAt.Add(rewordPeriod))) {
		return decision{requeueAt: requeueAt}
	}
	return decision{step: stepReportPending, reason: cause.reason, message: cause.message, requeueAt: requeueAt}
}

// planStartedLate: the runner container has started after all, just after its registration was removed: it will get no
// job.
func planStartedLate(o *observation) decision {
	late := o.pod
	late.reason, late.message = "StartedLate", "the runner container started after its registration had been removed"
	return planRetry(o.withPod(late), stepRetryAnew)
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
	case !reported && o.deferStatus && o.now.Before(o.startedAt.Add(maxStatusDelay)):
		return decision{requeueAt: o.now.Add(statusRecheckPeriod)}
	default:
		return decision{step: stepReportRunning}
	}
}

// planSucceeded: the runner container exited with 0. Where that was not of its own accord and no job is known, it
// counts as a pod that was lost: the node was drained, and neither image nor command are to blame.
func planSucceeded(o *observation) decision {
	switch {
	case o.deregistered() && !o.pod.disrupted:
		return planStartedLate(o)
	case o.pod.disrupted && !o.runner.Status.HadJob():
		return planFailed(o)
	default:
		return planExited(o)
	}
}

// planExited: the runner container exited with 0. The pod is deleted at once. The object is deleted when the end of
// its job is reported. Where no report comes its status says that it succeeded, but not while GitHub has still to
// answer whether it has removed the registration: the runner may have exited because of that.
func planExited(o *observation) decision {
	switch {
	case o.exitedAt.IsZero():
		return decision{step: stepExited, requeueAt: o.now.Add(reportGracePeriod)}
	case o.removal.running:
		return decision{}
	case o.now.Before(o.exitedAt.Add(reportGracePeriod)):
		return decision{requeueAt: o.exitedAt.Add(reportGracePeriod)}
	default:
		return decision{step: stepSucceed}
	}
}

// planFailed: the runner container had started, so the registration may have been used. With a job there is nothing to
// try again; without one GitHub's consent to remove the registration proves that there was none.
func planFailed(o *observation) decision {
	switch {
	case o.runner.Status.HadJob():
		return o.pod.decide(stepFail)
	case o.removal.busy():
		return o.pod.decide(stepFailBusy)
	default:
		return planDeregistered(o)
	}
}

// planDeregistered asks GitHub to remove the registration, and starts anew once that is done.
func planDeregistered(o *observation) decision {
	switch {
	case o.removal.running:
		return decision{}
	case o.deregistered():
		return planRetry(o, stepRetryAnew)
	case o.now.Before(o.removal.retryAt):
		return planReport(o, o.removal.failure, o.removal.retryAt)
	default:
		return decision{step: stepDeregister}
	}
}

// planRetry tries again, or gives up after the sixth attempt in a row.
func planRetry(o *observation, how step) decision {
	firstInRow := o.wasUp() && o.pod.disrupted
	if !firstInRow && len(o.runner.Status.Failures) >= len(retryBackoff) {
		return o.pod.decide(stepFail)
	}
	d := o.pod.decide(how)
	d.firstInRow = firstInRow
	return d
}

// wasUp reports whether the present attempt has shown that the runner works as it is written. Idle runners may live for weeks,
// and be evicted or reach their pods' deadline many times.
func (o *observation) wasUp() bool {
	return !o.startedAt.IsZero() && !o.endedAt.Before(o.startedAt.Add(upAfter))
}

// nextAttemptAt returns when the pause after the last failure is over: now where that failure is dated later than now.
// A clock was set back then, perhaps by hours, and a pause must not become as long.
func nextAttemptAt(o *observation) time.Time {
	last := lastFailure(o.runner)
	if last.After(o.now) {
		return o.now
	}
	return last.Add(backoffAfter(len(o.runner.Status.Failures)))
}

// backoffAfter returns how long to wait after the n-th failure.
func backoffAfter(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return retryBackoff[min(n, len(retryBackoff))-1]
}

func lastFailure(runner *v1alpha1.EphemeralRunner) time.Time {
	var last time.Time
	for _, at := range runner.Status.Failures {
		if at.After(last) {
			last = at.Time
		}
	}
	return last
}
