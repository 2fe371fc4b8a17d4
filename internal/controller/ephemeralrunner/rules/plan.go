// Package rules decides what a runner needs next. It is pure: what was seen and is remembered comes in, a decision goes
// out. Plan decides about a runner that lives, PlanFinalization about one that is being deleted.
//
// A JIT config is good for one start of the runner container. If the container never started, the next pod reuses the
// config. If it did start and the pod is lost, a runner without a job gets a new registration; a runner with a job has
// failed.
//
// What ends a pod before it has a job is held against the runner unless the pod was taken away, with or without its
// node: end.go.
package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Step says what to do next for a runner.
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
	// Retry: the attempt failed before the runner started; record the failure and delete the pod.
	Retry
	// Deregister: the attempt failed after the start; ask GitHub to remove the registration.
	Deregister
	// Reregister: GitHub has removed the registration; record the failure, delete Pod and Secret, and register again.
	Reregister
	// Exited: the runner has exited. Delete its Secret, which nobody needs any more, and its pod, because the pod
	// occupies a machine. The status waits for the report of the job's end.
	Exited
	// Succeed: it has exited, and no report has come.
	Succeed
	// Fail: it has failed and is not tried again.
	Fail
	// FailBusy: it has failed and is not tried again, and GitHub says that it has a job, which nobody has reported.
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
	// Lost says by what the runner's job was lost, zero if it was not.
	Lost podstatus.Ending
	// Disruption is set if the end to record is not held against the runner. firstInRow is set if it starts a new row:
	// what was remembered before is dropped.
	Disruption, firstInRow bool
	RequeueAt              time.Time
}

// ExitCodeOutdated is the runner's exit code if GitHub refuses its version. The runner uses it only with
// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1.
const ExitCodeOutdated = 7

// Outcome is the state of a runner's pod. That its container exited with 0 means "finished or refused", not "the job
// succeeded".
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

// World is what a decision depends on.
type World struct {
	Runner      *v1alpha1.EphemeralRunner
	Pod         Outcome
	Bound       bool      // the pod has a node
	StartableAt time.Time // when the pod could first start: when it was created or, if later, bound to a node
	Now         time.Time

	Attempt
	// HadPod is set if a pod of the present attempt has been seen.
	HadPod bool
	// FailureRecorded is set if the pod's failure is in the status; the pod is deleted next.
	FailureRecorded bool
	// PodDueAt is the time by which the pod must be gone after it has ended, zero if it is not being deleted.
	PodDueAt time.Time
	// By DeletionDueAt the pod should be gone by the API server's clock, and it waits for Finalizers. Both serve only
	// the message.
	DeletionDueAt time.Time
	Finalizers    []string
	// PodEnding says what ended the pod while its job ran, as first seen.
	PodEnding podstatus.Ending
	// RunnerID is the runner's id on GitHub, 0 if not known.
	RunnerID int
	// Provisioning is the state of the last registration in this process.
	Provisioning Progress
	// Removal is the state of the last call to remove the registration.
	Removal Progress
	// EndDueAt is the time until which the pod of a completed job is expected to end.
	EndDueAt time.Time
	// Writes that only report something must wait until DeferredUntil, zero if they need not.
	DeferredUntil time.Time
	// Guarded is set if keepAfter decides who gets the runner's claims next, and Used if a container of one of its pods
	// has started with them, or nobody can tell.
	Guarded, Used bool
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

// deregistered reports whether GitHub has agreed to remove the registration, which proves that the runner gets no job
// from now on. Whether it had one that nobody has reported, nobody knows.
func (w *World) deregistered() bool {
	return !w.Runner.Status.HadJob() && w.Removal.Succeeded()
}

// Attempt is what was seen of the present attempt to run the runner. All of it is forgotten when the attempt has
// failed: the rest would be attributed to the next attempt, and a used JIT config could be used again.
type Attempt struct {
	StartedAt time.Time // when the runner container was first seen running
	// when it was first seen to have ended, or to have lost its pod after it had started or got a job
	EndedAt           time.Time
	blockedAt         time.Time       // when its kubelet was first seen to be unable to start it
	ExitedAt          time.Time       // when it was first seen to have exited with 0
	PendingReportedAt time.Time       // when the status was last given the reason why the runner does not run
	SidecarReported   bool            // an Event says that a sidecar has died
	Ending            podstatus.Phase // how the container was seen to have ended, Missing if it was not
}

// SeeStart remembers what the pod of the present attempt says about its start.
func (a *Attempt) SeeStart(pod *corev1.Pod, now time.Time) {
	if podstatus.Runs(pod, v1alpha1.RunnerContainerName) {
		kube.SetIfZero(&a.StartedAt, now)
		return
	}
	// A container that is blocked later gets the full time to recover.
	a.blockedAt = since(a.blockedAt, podstatus.IsBlocked(pod, v1alpha1.RunnerContainerName), now)
}

// since returns the time at which a condition that holds began: now if it is new, zero if it does not hold.
func since(began time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case began.IsZero():
		return now
	default:
		return began
	}
}

// SeeEnd remembers how and when the present attempt ended. That the runner exited with 0 is never overwritten.
func (a *Attempt) SeeEnd(status *v1alpha1.EphemeralRunnerStatus, pod Outcome, now time.Time) {
	if pod.Over() && a.Ending != podstatus.Succeeded {
		a.Ending = pod.Phase
	}
	switch {
	case pod.Phase == podstatus.Running:
		a.EndedAt = time.Time{} // the report of its job was seen before its pod
	case pod.Over() || (pod.Phase == podstatus.Missing && (!a.StartedAt.IsZero() || status.HadJob())):
		kube.SetIfZero(&a.EndedAt, now)
	}
}

// rule is a situation of a runner that lives, and the decision in it.
type rule = reconcile.Rule[*World, func(*World) Decision]

// living are the situations of a runner that is neither done nor being deleted; the first that applies decides. Those
// of its pod follow those of the runner.
var living = []rule{
	// The client may repeat its request for the pod although the first one was carried out. If the pod were deleted in
	// between, it would be created again, with a used JIT config. The runner is requeued when the call ends.
	reconcile.When("its registration is under way", (*World).provisions, wait),
	reconcile.When("its job has ended, and its pod with it", (*World).hasFinished, planFinished),
	reconcile.When("its failure is recorded, and the pod is to go", (*World).failureRecorded, planDeleteFailedPod),
	reconcile.When("GitHub refuses its version", (*World).outdated, planOutdated),

	reconcile.When("it exited, and GitHub gives it no job any more", (*World).exitedDeregistered, planStartedLate),
	// By a drain of its node, for example: neither image nor command is to blame.
	reconcile.When("it was made to exit before it had a job", (*World).madeToExit, planFailed),
	reconcile.When("it exited", (*World).exited, planExited),
	// As for a pod that was blocked before: only GitHub's answer tells whether the JIT config was used.
	reconcile.When("its pod ended, and its JIT config may be used up", (*World).endedAfterStart, planFailed),
	reconcile.When("its pod ended before it started", in(podstatus.NeverStarted),
		func(w *World) Decision { return planRetry(w, Retry) }),
	reconcile.When("it failed", in(podstatus.Failed), planFailed),
	reconcile.When("it runs", in(podstatus.Running), planRunning),
	reconcile.When("its pod can't start", in(podstatus.Blocked), planBlocked),
	reconcile.When("its pod waits", in(podstatus.Pending), planPending),

	reconcile.When("it has lost its pod", (*World).hadPod, planLost),
	reconcile.When("it has run, and its pod is not seen", (*World).ran, planUnseen),
	reconcile.Otherwise[*World]("it has no pod yet", planProvision),
}

// Plan picks the next step of a runner that is neither done nor being deleted.
func Plan(w *World) Decision { return reconcile.First(living, w).Do(w) }

func wait(*World) Decision { return Decision{} }

// in recognizes a pod by its phase.
func in(phase podstatus.Phase) func(*World) bool {
	return func(w *World) bool { return w.Pod.Phase == phase }
}

func (w *World) provisions() bool      { return w.Provisioning.Running }
func (w *World) failureRecorded() bool { return w.FailureRecorded }
func (w *World) outdated() bool        { return w.Pod.Outdated() }
func (w *World) hadPod() bool          { return w.HadPod }

// podGone reports whether there is no pod: none yet, the one that there was is lost, or the next attempt hasn't created
// one.
func (w *World) podGone() bool { return w.Pod.Phase == podstatus.Missing }

// hasFinished reports whether the runner's object is no longer needed: the end of its job is reported, and its pod runs
// no more.
func (w *World) hasFinished() bool {
	return w.Runner.Status.JobCompleted() && (w.Pod.Over() || w.podGone())
}

func planFinished(w *World) Decision { return w.withLoss(Decision{Step: DeleteRunner}) }

func planOutdated(w *World) Decision { return w.withLoss(VersionRefused(&w.Runner.Spec, "", true)) }

// exitedDeregistered reports whether the container exited with 0, by itself as far as the pod tells, and GitHub has
// removed the registration.
func (w *World) exitedDeregistered() bool {
	exited := w.Pod.Phase == podstatus.Succeeded && !w.Pod.Outside || w.podGone() && !w.ExitedAt.IsZero()
	return exited && w.deregistered()
}

// madeToExit reports whether the container was made to exit with 0 and no job is known: it counts as a lost pod.
func (w *World) madeToExit() bool {
	return w.Pod.Phase == podstatus.Succeeded && w.Pod.Outside && !w.Runner.Status.HadJob()
}

// exited reports whether the container has exited with 0, even if its pod is gone since.
func (w *World) exited() bool {
	seen := !w.ExitedAt.IsZero() || w.Ending == podstatus.Succeeded && w.Runner.Status.HadJob()
	return w.Pod.Phase == podstatus.Succeeded || w.podGone() && seen
}

// endedAfterStart reports whether the pod says that its runner container never started, and yet that was seen to run,
// or GitHub was asked to remove the registration.
func (w *World) endedAfterStart() bool {
	return w.Pod.Phase == podstatus.NeverStarted && (w.ran() || w.Removal.Known)
}

// planProvision starts an attempt when the back-off after the last one is over.
func planProvision(w *World) Decision {
	switch {
	case kube.Container(&w.Runner.Spec.PodSpec, v1alpha1.RunnerContainerName) == nil:
		return Decision{Step: Fail, Reason: v1alpha1.ReasonInvalidPod, Message: kube.NoRunnerContainer}
	case w.Guarded && w.spent(): // its last pod has started after all, while it was being deleted
		return giveWay(Decision{Disruption: true, Reason: v1alpha1.ReasonVolumeClaimUnusable,
			Message: "an earlier pod of the runner has started"})
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
		return w.lostBusy(Decision{
			Step:    FailBusy,
			Reason:  v1alpha1.ReasonPodLost,
			Message: "the runner has a job on GitHub, and its pod is gone",
		})
	case refusal.Kind == Closed:
		return Decision{} // its deletion comes next
	case w.Now.Before(w.Provisioning.RetryAt):
		return PlanReport(w, refusal, w.Provisioning.RetryAt)
	default:
		return Decision{Step: Launch}
	}
}

// nextAttemptAt returns the end of the pause after the last attempt. It returns now if the end of that is dated in
// the future: the clock was set back since, perhaps by hours, and the pause must not become that long.
func nextAttemptAt(w *World) time.Time {
	last := LastRecorded(&w.Runner.Status)
	if last.After(w.Now) {
		return w.Now
	}
	return last.Add(BackoffAfter(AttemptsRecorded(&w.Runner.Status)))
}

// rewordInterval is the shortest time between two reports of the same reason with different messages. GitHub's messages
// contain the id of the request and the scheduler's the number of nodes, and a thousand runners may wait for the same
// thing.
const rewordInterval = 5 * time.Minute

// PlanReport has the status state the cause, unless it already does, and requeues the runner at requeueAt.
func PlanReport(w *World, cause *Failure, requeueAt time.Time) Decision {
	status := &w.Runner.Status
	if status.Reason == cause.Reason && (status.Message == cause.Message ||
		w.Now.Before(w.PendingReportedAt.Add(rewordInterval))) {
		return Decision{RequeueAt: requeueAt}
	}
	return Decision{Step: ReportPending, Reason: cause.Reason, Message: cause.Message, RequeueAt: requeueAt}
}

// RetryBackoff holds the pauses after the first to fifth attempts that ended; after the sixth failure the runner has
// failed, and after further disruptions the pause is the last of these.
var RetryBackoff = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
	80 * time.Second}

// BackoffAfter returns the wait after the n-th attempt.
func BackoffAfter(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return RetryBackoff[min(n, len(RetryBackoff))-1]
}

// AttemptsRecorded returns the number of attempts in the status.
func AttemptsRecorded(status *v1alpha1.EphemeralRunnerStatus) int {
	return len(status.Failures) + len(status.Disruptions)
}

// LastRecorded returns the time at which the end of the last attempt was recorded, zero if there is none.
func LastRecorded(status *v1alpha1.EphemeralRunnerStatus) (last time.Time) {
	for _, recorded := range []map[string]metav1.Time{status.Failures, status.Disruptions} {
		for _, at := range recorded {
			if at.After(last) {
				last = at.Time
			}
		}
	}
	return last
}
