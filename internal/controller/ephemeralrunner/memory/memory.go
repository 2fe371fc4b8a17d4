// Package memory holds what is remembered of one runner between passes, and what that proves. A restart loses it, which costs requests but
// no job: the pod's annotation and GitHub then tell what was done.
package memory

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/remains"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// Memory is what is remembered of one runner. Times are by the manager's own clock.
type Memory struct {
	UID       types.UID // of the runner: a later runner of the same name has its own memory
	Inherited bool      // the runner existed when this manager took over, so another manager may have registered it
	RunnerID  int       // id on GitHub, 0 if not known

	rules.Attempt
	rules.Deletion

	Pod                LastPod
	Failed             *FailedAttempt // attempt whose failure may have been written although no answer came, else nil
	UnansweredReported bool           // an Event says why GitHub has not removed the registration yet
	WrittenVersion     string         // resourceVersion of the last status written

	// What has been deleted, so that a stale cache doesn't have it deleted again.
	SecretDeleted     bool
	Hooked            remains.Hooked // what container hooks created
	RunnerDeleted     bool           // the EphemeralRunner object
	Abandoned         bool           // the same, because it has no set
	MayVanish         bool           // it had no finalizer of ours when it was last seen
	FinalizersRemoved bool           // of the EphemeralRunner object

	DeniedAt time.Time // when a policy or webhook last denied patching the pod
	Busy     bool      // GitHub has refused to remove the registration because of a job

	Launch launch.Memory // shared with the calls in the pool; all else belongs to the one worker that reconciles the runner at the time
}

// LastPod is what is remembered of the last pod seen. All of it is forgotten when another pod is seen.
type LastPod struct {
	UID        types.UID // empty if no pod has been seen
	DeletingAt time.Time // first seen with a deletionTimestamp
	Deleted    bool      // at the controller's request
	Removed    bool      // the same, without a grace period or finalizers: there is no pod, whatever the cache shows
	Left       bool      // the controller may not delete it: garbage collection does once the runner is gone
	// Ending is what ended the pod while its job ran, or is about to. It is remembered because the pod may be gone by the next pass.
	Ending podstatus.Ending
	Marked mark.Written
}

// FailedAttempt is an attempt that failed: why, and the key in the status under which the failure was to be noted.
type FailedAttempt struct {
	Key string
	rules.Decision
}

// New returns the memory of a runner that has not been seen before. Its id on GitHub is not taken from a status in which it may be
// outdated: while a runner waits for a pod, another registration may have been requested and its answer lost. Nobody knows whether a JIT
// config left by another manager was used, so such a runner is registered again.
func New(runner *v1alpha1.EphemeralRunner) *Memory {
	m := &Memory{UID: runner.UID}
	if runner.Status.Done() || runner.Status.Phase == v1alpha1.EphemeralRunnerPhaseRunning {
		m.RunnerID = runner.Status.RunnerID
	}
	return m
}

// See notes what a pass sees for the first time, and returns the state of the pod, which may be nil. removed is the pod as it was when it was
// removed, nil if there is a pod or that is not known.
func (m *Memory) See(runner *v1alpha1.EphemeralRunner, pod, removed *corev1.Pod, now time.Time) rules.Outcome {
	status := &runner.Status
	if removed != nil && !rules.FailureNoted(status, removed.UID) {
		m.Pod.see(removed, now)
		m.Attempt.SeeEnd(status, rules.OutcomeOf(removed, now), now)
		m.Pod.seeEnding(removed, status, false)
	}
	m.Pod.see(pod, now)
	m.seeStart(runner, pod, now)
	serverTime := m.APIServerTime(pod, now)
	seen := rules.OutcomeOf(pod, serverTime)
	if pod == nil || !rules.FailureNoted(status, pod.UID) {
		m.Attempt.SeeEnd(status, seen, now)
	}
	if pod != nil {
		m.Pod.seeEnding(pod, status, podstatus.Stuck(pod, serverTime))
	} else {
		m.seeGone(status)
	}
	if !runner.DeletionTimestamp.IsZero() {
		m.Launch.Abandon()
		m.Deletion.See(seen.Phase == podstatus.Running, pod == nil || m.Pod.PassedOver(), now)
	}
	return seen
}

// seeStart notes what the pod says about the start of the present attempt, unless the failure of that pod is already noted.
func (m *Memory) seeStart(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) {
	if pod == nil || rules.FailureNoted(&runner.Status, pod.UID) || m.IsBehind(runner) {
		return
	}
	// A pod without the annotation is ARC's, which writes the status before it creates the pod.
	m.RunnerID = launch.RunnerIDOf(pod, cmp.Or(m.RunnerID, runner.Status.RunnerID))
	m.Attempt.SeeStart(pod, now)
}

// IsBehind reports whether the cache shows an older runner than the one whose status was written last.
func (m *Memory) IsBehind(runner *v1alpha1.EphemeralRunner) bool {
	return kube.IsStale(runner, m.WrittenVersion)
}

// see notes which pod exists, and since when it is being deleted.
func (l *LastPod) see(pod *corev1.Pod, now time.Time) {
	if pod != nil && l.UID != pod.UID {
		*l = LastPod{UID: pod.UID}
	}
	if pod == nil || pod.DeletionTimestamp == nil {
		l.DeletingAt = time.Time{}
		return
	}
	kube.SetIfZero(&l.DeletingAt, now)
}

// seeEnding remembers what ends the pod, unless the end of the job was reported before. It forgets an eviction that was withdrawn.
func (l *LastPod) seeEnding(pod *corev1.Pod, status *v1alpha1.EphemeralRunnerStatus, nodeSilent bool) {
	seen := podstatus.EndingOf(pod, v1alpha1.RunnerContainerName, podstatus.Seen{NodeSilent: nodeSilent, DeletedByUs: l.Deleted})
	switch {
	case status.JobCompleted() && !reportedAfter(status, seen):
	case seen.Cause == "" && podstatus.Runs(pod, v1alpha1.RunnerContainerName):
		l.Ending = podstatus.Ending{}
	case seen.Clearer(l.Ending):
		l.Ending = seen
	}
}

// seeGone remembers that the pod vanished while its job ran, if a pass has seen it run or it was goneUnseen.
func (m *Memory) seeGone(status *v1alpha1.EphemeralRunnerStatus) {
	vanished := m.Pod.UID != "" && !m.Pod.Deleted && m.Attempt.Ending == podstatus.Missing && !status.JobCompleted()
	if (vanished || m.goneUnseen(status)) && rules.UnseenEnding.Clearer(m.Pod.Ending) {
		m.Pod.Ending = rules.UnseenEnding
	}
}

// reportedAfter reports whether the end of the job was reported after the first sign of the pod's end, as far as it is dated. What
// comes from outside is rarely undated, and then only at the end of the pod.
func reportedAfter(status *v1alpha1.EphemeralRunnerStatus, ending podstatus.Ending) bool {
	dated := ending.Cause != "" && status.FinishedAt != nil && (ending.Outside || !ending.At.IsZero())
	return dated && !status.FinishedAt.Time.Before(ending.At)
}

// PassedOver reports whether a runner that is being deleted need not wait until the cache shows no pod.
func (l *LastPod) PassedOver() bool { return l.Left || l.Removed }

// HadPod reports whether a pod of the present attempt has been seen.
func (m *Memory) HadPod(status *v1alpha1.EphemeralRunnerStatus) bool {
	return m.Pod.UID != "" && !rules.FailureNoted(status, m.Pod.UID)
}

// goneUnseen reports whether this manager has found the runner with a canceled job and, if there is none, never with a pod. The pod of
// a job that a person cancels exits with 0 and stays until a manager deletes it, with the runner; so something else took the pod
// while no manager led, as a node drain does that moves the manager, too.
func (m *Memory) goneUnseen(status *v1alpha1.EphemeralRunnerStatus) bool {
	return m.Inherited && m.Pod.UID == "" && !m.Launch.WasAsked() && rules.GivenUp(status.JobResult)
}

// MissesPod reports whether, according to the cache, a runner at work has lost its pod without this manager having deleted
// it. Runners and pods arrive on separate watches, so a manager that has just become the leader may see one before the other.
// A pod that has lost the label by which the cache selects is never in it. A runner that is being deleted is also at work if
// GitHub says so.
func (m *Memory) MissesPod(runner *v1alpha1.EphemeralRunner) bool {
	status := &runner.Status
	atWork := status.Phase == v1alpha1.EphemeralRunnerPhaseRunning || status.HadJob() || m.Busy && !runner.DeletionTimestamp.IsZero()
	if !atWork || status.Done() || status.JobCompleted() && !m.goneUnseen(status) {
		return false
	}
	return m.ExitedAt.IsZero() && !m.Pod.Left && !m.Pod.Deleted
}

// APIServerTime estimates the API server's current time from the pod's deletionTimestamp; it returns now if the pod isn't
// being deleted. By the API server's clock the deletion began at deletionTimestamp minus the grace period; by ours it was
// first seen at pod.DeletingAt. Our clock may be wrong or be adjusted, and that must not cost a busy runner, whose pod may
// have an hour to end, its job.
func (m *Memory) APIServerTime(pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil {
		return now
	}
	deletingAt := now
	if m.Pod.UID == pod.UID && !m.Pod.DeletingAt.IsZero() {
		deletingAt = m.Pod.DeletingAt
	}
	return pod.DeletionTimestamp.Add(now.Sub(deletingAt) - kube.GracePeriod(pod))
}

// PodDueAt returns the deadline, by our clock, for an ended pod to disappear: PendingTimeout after its deletion or after its
// failure was noted, and no earlier than the end of its grace period plus podstatus.StuckAfter. It returns zero for a pod that isn't
// being deleted. By the time a failure is noted, the deletion may have lasted for long, or the cache may still show a pod
// that was force-deleted a moment ago. A failure dated later than now was noted by another clock and is ignored.
func (m *Memory) PodDueAt(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil || pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	start := m.Pod.DeletingAt
	if at, found := rules.Noted(&runner.Status, string(pod.UID)); found && !at.After(now) {
		start = at.Time
	}
	return kube.LaterOf(start.Add(rules.PendingTimeout(runner)), m.Pod.DeletingAt.Add(kube.GracePeriod(pod)+podstatus.StuckAfter))
}

// NewAttempt forgets what was seen of the attempt that failed, and its registration if that is gone too.
func (m *Memory) NewAttempt(reregister bool) {
	m.Attempt = rules.Attempt{}
	if reregister {
		m.RunnerID, m.SecretDeleted = 0, false
	}
}

// ClockSkew is how far the API server's clock, which dates objects, may differ from ours.
const ClockSkew = time.Minute

// Unregistered reports whether GitHub can't have a registration: nobody has requested one since the runner was created. It is
// false for a runner that another manager may have seen; began is when this one took over.
func (m *Memory) Unregistered(runner *v1alpha1.EphemeralRunner, began time.Time) bool {
	return m.RunnerID == 0 && !m.Launch.WasAsked() && !m.Inherited && runner.CreationTimestamp.After(began.Add(ClockSkew))
}

// MayHaveJob reports whether the runner may have a job now: its start was reported and its end was not, or GitHub mentioned
// one.
func (m *Memory) MayHaveJob(status *v1alpha1.EphemeralRunnerStatus) bool {
	return status.JobRunning() || m.Busy || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining)
}

// HadItsJob reports whether the registration has had its one job. A report of the job's end may be late and belong to an earlier
// registration of the same name, so it counts only if there was none: no attempt has ended, and either no other manager can
// have registered the runner, or this one found it with a pod and has requested no registration itself.
func (m *Memory) HadItsJob(status *v1alpha1.EphemeralRunnerStatus) bool {
	alone := !m.Inherited || m.HadPod(status) && !m.Launch.WasAsked()
	return status.JobCompleted() && rules.AttemptsNoted(status) == 0 && alone
}

// DiedSilently reports whether the runner ended without exiting with 0, or lost its pod to somebody else. It then had no chance to
// tell GitHub, which may keep its record for a day even though the job has ended.
func (m *Memory) DiedSilently(status *v1alpha1.EphemeralRunnerStatus, pod rules.Outcome) bool {
	switch {
	case m.Attempt.Ending == podstatus.Succeeded || status.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded:
		return false
	case m.Attempt.Ending != podstatus.Missing || status.Phase == v1alpha1.EphemeralRunnerPhaseFailed:
		return true
	default:
		return pod.Phase == podstatus.Missing && m.Pod.UID != "" && !m.Pod.Deleted
	}
}
