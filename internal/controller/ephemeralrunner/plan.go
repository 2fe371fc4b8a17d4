package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// settle is how long the report of a job's end may come after the runner has exited before the runner's own status
	// says that it ended. Reports come within a second; waiting for them saves a write for every runner.
	settle = 3 * time.Second
	// unseenAtMost is how long a pod that was created may be missing from the cache.
	unseenAtMost = time.Minute
	// readyPatience is how long a pod whose runner container runs may lack readiness before that is written down. Where
	// sidecars start a second later this saves a write for every runner.
	readyPatience = 2 * time.Second
	// crowdPatience is how long it may go unsaid that a runner runs while others wait to be created or deleted, which goes first;
	// crowdPause is the time between two looks.
	crowdPatience = 10 * time.Second
	crowdPause    = 500 * time.Millisecond
	// rewordPause is the shortest time between two reports of the same reason in other words: GitHub's messages carry the
	// id of the request and the scheduler's the number of nodes, and a thousand runners may wait for the same thing.
	rewordPause = 5 * time.Minute
	// busyRetry is the pause after GitHub has refused to remove a runner because it has a job.
	busyRetry = 30 * time.Second
)

// retryPauses are the waits after the first to the fifth failed attempt; after the sixth the runner has failed.
var retryPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// step is what to do next for a runner.
type step int

const (
	// stepWait: nothing to do until something changes or the time has come.
	stepWait step = iota
	// stepProvision: register, then create Secret and Pod.
	stepProvision
	// stepProvisionAgain: create the Pod with the JIT config that is there already and unused.
	stepProvisionAgain
	// stepReportRunning: the status says that the runner runs.
	stepReportRunning
	// stepReportPending: the status says why it does not run yet.
	stepReportPending
	// stepReportSidecar: an Event says that another container has died.
	stepReportSidecar
	// stepDiscard: the pod's failure is noted; the pod is to go.
	stepDiscard
	// stepRetry: the attempt failed before the runner started; note it and remove the pod.
	stepRetry
	// stepDeregister: the attempt failed after the start; GitHub is asked to remove the registration.
	stepDeregister
	// stepRetryAnew: GitHub has removed the registration; note the failure, remove Pod and Secret.
	stepRetryAnew
	// stepClear: the runner has exited. Its pod goes, because that is what occupies a machine; the status waits for the report
	// of the job's end, and the Secret, of no use to anybody now, goes with what follows.
	stepClear
	// stepSucceed: it has exited, and no report has come.
	stepSucceed
	// stepFail: it has failed for good.
	stepFail
	// stepFailBusy: it has failed for good, and GitHub says that it has a job, which nobody has reported.
	stepFailBusy
	// stepOutdate: GitHub refuses its version.
	stepOutdate
	// stepRemove: the runner object has done its work.
	stepRemove
	// stepReplace: it cannot get its name on GitHub; another runner takes its place.
	stepReplace
)

// decision is the next step, why, and when to look again.
type decision struct {
	step
	reason, message string
	again           time.Time
}

// progress is how far a call has got.
type progress struct {
	known, running bool
	failure        *failure  // nil: it went well
	finished       time.Time // when it ended
	due            time.Time // when it may be repeated after a failure
}

// failure says why a call did not do what it should. It is an error.
type failure struct {
	kind            failureKind
	reason, message string
	// until is when GitHub or the API server will hear it again, zero where it did not say.
	until time.Time
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
	// failureClosed: the namespace is being deleted, so nothing can be made in it any more.
	failureClosed
	// failureBusy: GitHub says that the runner has a job.
	failureBusy
)

// plan names the next step of a runner that is neither done nor being deleted.
func plan(s *situation) decision {
	switch {
	case s.provisioning.running:
		// Its request for the pod may have been carried out and be made once more, by the client itself: a pod that was
		// deleted in between would come again, with a JIT config that is used. The end of the call brings the runner back.
		return decision{}
	case s.runner.Status.JobCompleted() && (s.pod.over() || s.pod.state == podMissing):
		return decision{step: stepRemove}
	case s.counted:
		return planDiscard(s)
	}
	switch s.pod.state {
	case podSucceeded:
		return planSucceeded(s)
	case podOutdated:
		return decision{step: stepOutdate, reason: s.pod.reason, message: s.pod.message}
	case podNeverStarted:
		return planEnded(s)
	case podFailed:
		return planFailed(s)
	case podRunning:
		return planRunning(s)
	case podBlocked:
		return planBlocked(s)
	case podPending:
		return planPending(s)
	default:
		return planMissing(s)
	}
}

// planMissing: no pod yet, none any more, or none again.
func planMissing(s *situation) decision {
	switch {
	case !s.exited.IsZero() && s.deregistered():
		return planStartedLate(s)
	case !s.exited.IsZero():
		return planExited(s)
	case s.hadPod:
		return planLost(s)
	case s.ran():
		return planUnseen(s)
	default:
		return planProvision(s)
	}
}

// planLost: the pod was there and is gone. Whether its container had started nobody can tell: that may have been the last
// thing before the end, or a watch was away meanwhile.
func planLost(s *situation) decision {
	return planFailed(s.withPod(outcome{reason: v1alpha1.ReasonPodLost, message: "the pod is gone though the runner had not finished"}))
}

// planUnseen: the pod was made, or a job was reported, so there is or was a pod, but none was seen. Runners and pods come
// by two watches, of which the pods' may be the later one; whoever takes the pod for lost then, kills its job.
func planUnseen(s *situation) decision {
	if due := s.provisioning.finished.Add(unseenAtMost); s.provisioning.known && s.now.Before(due) {
		return decision{again: due}
	}
	return planLost(s)
}

// planEnded: the pod ended and says that the runner container had not started, unless that was seen before. Its JIT config
// is used again unless GitHub was asked to remove the registration, as it is for a pod that was blocked before: what GitHub
// says decides then, and where its answer was lost nobody knows but GitHub.
func planEnded(s *situation) decision {
	if s.ran() || s.removal.known {
		return planFailed(s)
	}
	return planRetry(s, stepRetry)
}

// planProvision starts an attempt when the last one's pause is over.
func planProvision(s *situation) decision {
	if kube.Container(&s.runner.Spec.PodSpec, v1alpha1.RunnerContainerName) == nil {
		return decision{step: stepFail, reason: v1alpha1.ReasonInvalidPod, message: noRunnerContainer}
	}
	if due := pauseOver(s); s.now.Before(due) {
		return decision{again: due}
	}
	refusal := s.provisioning.failure
	switch {
	case refusal == nil:
		return planFirstTry(s)
	case refusal.kind == failureInvalid:
		return decision{step: stepFail, reason: refusal.reason, message: refusal.message}
	case refusal.kind == failureNameTaken:
		return decision{step: stepReplace, reason: refusal.reason, message: refusal.message}
	case refusal.kind == failureBusy:
		return decision{step: stepFailBusy, reason: v1alpha1.ReasonPodLost, message: "the runner has a job on GitHub, and its pod is gone"}
	case refusal.kind == failureClosed:
		return decision{} // its deletion is what comes next
	case s.now.Before(s.provisioning.due):
		return planReport(s, refusal, s.provisioning.due)
	default:
		return decision{step: attempt(s)}
	}
}

// planFirstTry: no call of this attempt has failed. Where one has ended well the pod exists, or did.
func planFirstTry(s *situation) decision {
	if s.provisioning.known {
		return planUnseen(s)
	}
	return decision{step: attempt(s)}
}

// attempt is how the next pod is made: the JIT config is there and unused only if this manager has registered the runner.
// Of what another has left nobody knows whether a container has started with it.
func attempt(s *situation) step {
	if s.registration != 0 {
		return stepProvisionAgain
	}
	return stepProvision
}

// planReport tells what the runner waits for, unless that was told, and comes back at the given time.
func planReport(s *situation, cause *failure, again time.Time) decision {
	status := &s.runner.Status
	if status.Reason == cause.reason && (status.Message == cause.message || s.now.Before(s.told.Add(rewordPause))) {
		return decision{again: again}
	}
	return decision{step: stepReportPending, reason: cause.reason, message: cause.message, again: again}
}

// planStartedLate: the runner container started after all, when its registration had just been removed: there is no job
// for it.
func planStartedLate(s *situation) decision {
	late := s.pod
	late.reason, late.message = "StartedLate", "the runner container started after its registration had been removed"
	return planRetry(s.withPod(late), stepRetryAnew)
}

func planRunning(s *situation) decision {
	if s.deregistered() {
		return planStartedLate(s)
	}
	status := &s.runner.Status
	said := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning
	due := s.up.Add(readyPatience)
	switch {
	case s.pod.sidecar != "" && !s.sidecarTold:
		return decision{step: stepReportSidecar, reason: "SidecarFailed", message: s.pod.sidecar}
	case said && status.Ready == s.pod.ready && status.RunnerID == s.registration:
		return decision{}
	case !said && !s.pod.ready && s.now.Before(due):
		return decision{again: due}
	case !said && s.crowded && s.now.Before(s.up.Add(crowdPatience)):
		return decision{again: s.now.Add(crowdPause)}
	default:
		return decision{step: stepReportRunning}
	}
}

// planSucceeded: the runner container exited with 0. Where that was not of its own accord and no job is known, it is no
// other end than that of a pod that was lost: the node was drained, and neither image nor command are to blame.
func planSucceeded(s *situation) decision {
	switch {
	case s.deregistered() && !s.pod.disrupted:
		return planStartedLate(s)
	case s.pod.disrupted && !s.runner.Status.HasJob():
		return planFailed(s)
	default:
		return planExited(s)
	}
}

// planExited: the runner container exited with 0. The pod goes at once; the object goes when the end of its job is reported,
// and says that it succeeded where no report comes. Where GitHub has still to say whether it has removed the registration
// it may have exited because of that.
func planExited(s *situation) decision {
	switch {
	case s.exited.IsZero():
		return decision{step: stepClear, again: s.now.Add(settle)}
	case s.removal.running:
		return decision{}
	case s.now.Before(s.exited.Add(settle)):
		return decision{again: s.exited.Add(settle)}
	default:
		return decision{step: stepSucceed}
	}
}

// planFailed: the runner container had started, so the registration may have been used. With a job there is nothing to
// try again; without one GitHub's agreement to remove the registration proves that there was none.
func planFailed(s *situation) decision {
	switch {
	case s.runner.Status.HasJob():
		return decision{step: stepFail, reason: s.pod.reason, message: s.pod.message}
	case s.removal.failure != nil && s.removal.failure.kind == failureBusy:
		return decision{step: stepFailBusy, reason: s.pod.reason, message: s.pod.message}
	default:
		return planDeregistered(s)
	}
}

// planDeregistered asks GitHub to remove the registration and starts anew when it has.
func planDeregistered(s *situation) decision {
	switch {
	case s.removal.running:
		return decision{}
	case s.deregistered():
		return planRetry(s, stepRetryAnew)
	case s.now.Before(s.removal.due):
		return planReport(s, s.removal.failure, s.removal.due)
	default:
		return decision{step: stepDeregister}
	}
}

// planRetry tries again, or gives up after the last pause.
func planRetry(s *situation, how step) decision {
	if len(s.runner.Status.Failures) >= len(retryPauses) {
		return decision{step: stepFail, reason: s.pod.reason, message: s.pod.message}
	}
	return decision{step: how, reason: s.pod.reason, message: s.pod.message}
}

// pauseOver is when the pause after the last failure is over: now where that failure is dated later than now. A clock was
// set back then, perhaps by hours, and a pause must not become as long.
func pauseOver(s *situation) time.Time {
	last := lastFailure(s.runner)
	if last.After(s.now) {
		return s.now
	}
	return last.Add(pauseAfter(len(s.runner.Status.Failures)))
}

// pauseAfter is how long to wait after the n-th failure.
func pauseAfter(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return retryPauses[min(n, len(retryPauses))-1]
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
