package ephemeralrunner

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// settle is how long the report of a job's end may come after the runner has exited before the runner's own status
	// says that it ended. Reports come within a second; waiting for them saves a write for every runner.
	settle = 3 * time.Second
	// defaultPendingTimeout is how long a pod may take to run.
	defaultPendingTimeout = 10 * time.Minute
	// unseenAtMost is how long a pod that was created may be missing from the cache.
	unseenAtMost = time.Minute
	// reportPause is how long the cache may take to show a status that was written.
	reportPause = 2 * time.Second
	// busyRetry is the pause after GitHub has refused to remove a runner because it has a job.
	busyRetry = 30 * time.Second
)

// retryPauses are the waits after the first to the fifth failed attempt; after the sixth the runner has failed.
var retryPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}

// step is what to do next for a runner.
type step int

const (
	// wait: nothing to do until something changes or the time has come.
	wait step = iota
	// provision: register, then create Secret and Pod.
	provision
	// provisionAgain: create the Pod with the JIT config that is there already and unused.
	provisionAgain
	// reportRunning: the status says that the runner runs.
	reportRunning
	// reportPending: the status says why it does not run yet.
	reportPending
	// retry: the attempt failed before the runner started; note it and remove the pod.
	retry
	// deregister: the attempt failed after the start; GitHub is asked to remove the registration.
	deregister
	// retryAnew: GitHub has removed the registration; note the failure, remove Pod and Secret.
	retryAnew
	// clear: the runner has exited; Pod and Secret go, the status waits for the report of the job's end.
	clear
	// succeed: it has exited, and no report has come.
	succeed
	// fail: it has failed for good.
	fail
	// outdate: GitHub refuses its version.
	outdate
	// remove: the runner object has done its work.
	remove
	// replace: it cannot get its name on GitHub; another runner takes its place.
	replace
)

// decision is the next step, why, and when to look again.
type decision struct {
	step
	reason, message string
	again           time.Time
}

// situation is all that a decision depends on.
type situation struct {
	runner  *v1alpha1.EphemeralRunner
	pod     outcome
	bound   bool // the pod has a node
	created time.Time
	now     time.Time

	// hadPod: a pod of the present attempt was there.
	hadPod bool
	// counted: the pod's failure is noted already; it is on its way out.
	counted bool
	// provisioning is what became of the last registration in this process.
	provisioning progress
	// removal is what GitHub last said to the request to remove the registration.
	removal progress
	// exited is when the runner was first seen to have exited.
	exited time.Time
	// reported is when the status was last said to be Running, and with what readiness.
	reported      time.Time
	reportedReady bool
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
	// temporary: try again later.
	temporary failureKind = iota
	// invalid: the pod can't be created as it is written.
	invalid
	// nameTaken: another scale set has a runner of this name.
	nameTaken
	// busy: GitHub says that the runner has a job.
	busy
)

// plan names the next step of a runner that is neither done nor being deleted.
func plan(s *situation) decision {
	if s.counted {
		return decision{}
	}
	switch s.pod.state {
	case podSucceeded:
		return planExited(s)
	case podOutdated:
		return decision{step: outdate, reason: s.pod.reason, message: s.pod.message}
	case podNeverStarted:
		return planRetry(s, retry)
	case podFailed:
		return planFailed(s)
	case podRunning:
		return planRunning(s)
	case podPending:
		return planPending(s)
	default:
		return planMissing(s)
	}
}

// planMissing: no pod yet, none any more, or none again.
func planMissing(s *situation) decision {
	status := &s.runner.Status
	switch {
	case status.JobCompleted() || !s.exited.IsZero():
		return planExited(s)
	case s.provisioning.running:
		return decision{}
	case status.Phase == v1alpha1.EphemeralRunnerPhaseRunning:
		s.pod = outcome{state: podFailed, reason: "PodLost", message: "the pod is gone though the runner had not finished"}
		return planFailed(s)
	case s.hadPod:
		s.pod = outcome{state: podNeverStarted, reason: "PodLost", message: "the pod is gone before the runner started"}
		return planRetry(s, retry)
	default:
		return planProvision(s)
	}
}

// planProvision starts an attempt when the last one's pause is over.
func planProvision(s *situation) decision {
	if due := lastFailure(s.runner).Add(pauseAfter(len(s.runner.Status.Failures))); s.now.Before(due) {
		return decision{again: due}
	}
	failure := s.provisioning.failure
	switch {
	case failure == nil:
		return planFirstTry(s)
	case failure.kind == invalid:
		return decision{step: fail, reason: failure.reason, message: failure.message}
	case failure.kind == nameTaken:
		return decision{step: replace, reason: failure.reason, message: failure.message}
	case s.now.Before(s.provisioning.due):
		return planBlocked(s, failure)
	default:
		return decision{step: attempt(s)}
	}
}

// planFirstTry: no call of this attempt has failed. Where one has ended well the pod exists, and the cache will show it.
func planFirstTry(s *situation) decision {
	if due := s.provisioning.finished.Add(unseenAtMost); s.provisioning.known && s.now.Before(due) {
		return decision{again: due}
	}
	return decision{step: attempt(s)}
}

// attempt is how the next pod is made: after a failure the JIT config may be there and unused.
func attempt(s *situation) step {
	if len(s.runner.Status.Failures) > 0 {
		return provisionAgain
	}
	return provision
}

// planBlocked tells why the runner has no pod yet, and comes back when the call may be repeated.
func planBlocked(s *situation, failure *failure) decision {
	if s.runner.Status.Reason == failure.reason && s.runner.Status.Message == failure.message {
		return decision{again: s.provisioning.due}
	}
	return decision{step: reportPending, reason: failure.reason, message: failure.message, again: s.provisioning.due}
}

// planPending waits for the pod to start, for so long.
func planPending(s *situation) decision {
	timeout := defaultPendingTimeout
	if s.runner.Spec.PendingTimeout != nil {
		timeout = s.runner.Spec.PendingTimeout.Duration
	}
	due := s.created.Add(timeout)
	switch {
	case s.now.Before(due):
		return decision{again: due}
	case s.bound:
		// An unschedulable pod stays: node autoscalers would start over with a new one.
		return planRetry(s, retry)
	case s.runner.Status.Reason == s.pod.reason && s.runner.Status.Message == s.pod.message:
		return decision{}
	default:
		return decision{step: reportPending, reason: s.pod.reason, message: s.pod.message}
	}
}

func planRunning(s *situation) decision {
	status := &s.runner.Status
	if status.Phase == v1alpha1.EphemeralRunnerPhaseRunning && status.Ready == s.pod.ready && status.RunnerID != 0 {
		return decision{}
	}
	if due := s.reported.Add(reportPause); s.reportedReady == s.pod.ready && s.now.Before(due) {
		return decision{again: due}
	}
	return decision{step: reportRunning}
}

// planExited: the runner container exited with 0. Pod and Secret go at once; the object goes when the end of its job is
// reported, and says that it succeeded where no report comes.
func planExited(s *situation) decision {
	switch {
	case s.runner.Status.JobCompleted():
		return decision{step: remove}
	case s.exited.IsZero():
		return decision{step: clear, again: s.now.Add(settle)}
	case s.now.Before(s.exited.Add(settle)):
		return decision{again: s.exited.Add(settle)}
	default:
		return decision{step: succeed}
	}
}

// planFailed: the runner container had started, so the registration may have been used. With a job there is nothing to
// try again; without one GitHub's agreement to remove the registration proves that there was none.
func planFailed(s *situation) decision {
	switch {
	case s.runner.Status.JobCompleted():
		return decision{step: remove}
	case s.runner.Status.HasJob():
		return decision{step: fail, reason: s.pod.reason, message: s.pod.message}
	case s.removal.running:
		return decision{}
	case s.removal.known && s.removal.failure == nil:
		return planRetry(s, retryAnew)
	case s.now.Before(s.removal.due):
		return decision{again: s.removal.due}
	default:
		return decision{step: deregister}
	}
}

// planRetry tries again, or gives up after the last pause.
func planRetry(s *situation, how step) decision {
	if len(s.runner.Status.Failures) >= len(retryPauses) {
		return decision{step: fail, reason: s.pod.reason, message: s.pod.message}
	}
	return decision{step: how, reason: s.pod.reason, message: s.pod.message}
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
