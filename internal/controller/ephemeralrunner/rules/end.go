package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

const (
	// The report of a job's end may come until ReportGrace after the runner's exit; then the runner's own status says
	// that it has ended. Reports come within a second; waiting for them saves one write per runner.
	ReportGrace = 3 * time.Second
	// A pod that was created may be missing from the cache for UnseenTimeout.
	UnseenTimeout = time.Minute
	// The report of a job's result may come until FailedGrace after the end of a pod that failed, or was ended from
	// outside. A report takes a second or two from the runner over GitHub and the listener.
	FailedGrace = 5 * time.Second
	// SilentGrace is the same for a runner that exited with 0, or that ended unseen: it most probably told
	// GitHub, and the report waits only while the listener does not listen.
	SilentGrace = 30 * time.Second
	// An end from outside, such as an eviction, starts a new row if the runner container has run for UpGrace: the next
	// back-off is the shortest again. A runner that can't start or register ends within seconds.
	UpGrace = time.Minute
	// An end of whatever cause starts a new row of failures if the runner has been up for LongUpGrace. It has worked
	// for longer than all back-offs of a row together (155 s), so runners that crash so rarely cost little, while six
	// ends of an idle runner in a day, for example by its liveness probe, say nothing about image or template.
	LongUpGrace = 5 * time.Minute
)

// planLost handles a pod that existed and is gone, or that has never shown. Nobody can tell whether its container had
// started: it may have started just before the end, or while a watch was interrupted. Somebody took it, unless its last
// state says otherwise; one that never shows may lack our labels, as every other would.
func planLost(w *World) Decision {
	lost := Outcome{
		State: podstatus.State{
			Reason:  v1alpha1.ReasonPodLost,
			Message: "the pod is gone though the runner had not finished",
		},
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
	other := w.withPod(lost)
	other.Used = w.Used || !w.HadPod // nobody has seen whether a container of that pod had started
	return planFailed(other)
}

// planUnseen waits for a pod that the cache has never shown although it was created or a job was reported. Runners and
// pods arrive on separate watches, and the pod watch may lag; treating the pod as lost would cost its job.
func planUnseen(w *World) Decision {
	if due := w.Provisioning.FinishedAt.Add(UnseenTimeout); w.Provisioning.Known && w.Now.Before(due) {
		return Decision{RequeueAt: due}
	}
	return planLost(w)
}

// planExited deletes the pod immediately, and the runner when the end of its job is reported. If no report comes, the
// status says that the runner succeeded. While GitHub still has to answer a removal it doesn't: the runner may have
// exited because of the removal.
func planExited(w *World) Decision {
	switch {
	case w.ExitedAt.IsZero():
		return Decision{Step: Exited, RequeueAt: w.Now.Add(ReportGrace)}
	case w.Removal.Running:
		return Decision{}
	case w.Now.Before(w.ExitedAt.Add(ReportGrace)):
		return Decision{RequeueAt: w.ExitedAt.Add(ReportGrace)}
	default:
		return w.withLoss(Decision{Step: Succeed})
	}
}

// planFailed handles a runner container that had started, so its registration may have been used. With a job there is
// nothing to retry. Without one, the runner may be tried again once GitHub has agreed to remove the registration.
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

// planRetry retries, or gives up after the sixth failure in a row. Disruptions are no failures, however many there are:
// a runner that gave up because of them would be missing when the cluster is well again.
func planRetry(w *World, how Step) Decision {
	d := w.Pod.decide(how)
	d.Disruption = w.Pod.Fault == podstatus.FaultDisruption
	d.firstInRow = w.wasUpFor(LongUpGrace) || (w.wasUpFor(UpGrace) && w.Pod.Outside)
	if w.Guarded && w.spent() {
		return giveWay(d)
	}
	if !d.Disruption && !d.firstInRow && len(w.Runner.Status.Failures) >= len(RetryBackoff) {
		return w.Pod.decide(Fail)
	}
	return d
}

// wasUpFor reports whether the present attempt was up for so long, which shows that the template works. Idle runners
// may live for weeks, and be evicted, reach their pods' deadline or fail their liveness probes many times.
func (w *World) wasUpFor(d time.Duration) bool {
	return !w.StartedAt.IsZero() && !w.EndedAt.Before(w.StartedAt.Add(d))
}

// ExitedIdle returns the reason why a runner has failed that exited with code 0 without a job; certain is set if GitHub
// could tell. The usual image also ends so if it can't write its work folder. What its container runs may be left to
// the image, which may be right for an image of one's own.
func ExitedIdle(spec *corev1.PodSpec, certain bool) Decision {
	what, advice := "the runner container exited with code 0, and neither a report nor GitHub says that it had a job",
		"check the image and its command"
	if certain {
		what = "the runner container exited with code 0 before it got a job"
	}
	runner := kube.Container(spec, v1alpha1.RunnerContainerName)
	if runner != nil && len(runner.Command) == 0 && len(runner.Args) == 0 {
		advice = "it has no command, and the usual image does not start the runner by itself: " +
			`add command: ["/home/runner/run.sh"] to the template`
	} else if unwritable := kube.UnwritableWork(spec, v1alpha1.RunnerContainerName); unwritable != "" {
		advice += "; " + unwritable
	}
	return Decision{Step: Fail, Reason: v1alpha1.ReasonRunnerExitedWithoutJob, Message: what + ": " + advice}
}

// VersionRefused returns what is to be said of a runner whose version GitHub refuses. recorded is the version in
// GitHub's record, empty if it isn't known: then the image's tag may name one. It told so by its exit code, or exited
// with 0, as programs before 2.333.0 do; on GitHub Enterprise Server, which doesn't say what it takes, the latter isn't
// certain.
func VersionRefused(spec *v1alpha1.EphemeralRunnerSpec, recorded string, told bool) Decision {
	image := kube.Image(&spec.PodSpec, v1alpha1.RunnerContainerName)
	version, known := runnerversion.Parse(recorded)
	if !known {
		version, known = runnerversion.OfImage(image)
	}
	github := runnerversion.At(spec.GitHubConfigUrl, nil)
	refuses, what, how := "refuses", "the runner version", ""
	if known {
		what = "runner version " + version.String()
	}
	if !told {
		how = ", which exits with code 0 then, and says in its log that it is deprecated"
		if !github.Hosted {
			refuses = "most probably refuses"
		}
	}
	return Decision{Step: Outdate, Reason: "Outdated", Message: fmt.Sprintf("GitHub %s %s in image %s%s; %s", refuses,
		what, image, how, github.Takes())}
}

// The status has the attempts that ended without a job, in two maps by the UID of the attempt's pod: failures are held
// against the runner, and the sixth in a row makes it fail; disruptions are not, of which it has the latest. Both delay
// the next attempt.

// Recorded returns the time at which the end of the attempt with that key was recorded in the status, if it was.
func Recorded(status *v1alpha1.EphemeralRunnerStatus, attempt string) (at metav1.Time, found bool) {
	if at, found = status.Failures[attempt]; !found {
		at, found = status.Disruptions[attempt]
	}
	return at, found
}

// Record writes into the status the end of an attempt. More disruptions than there are pauses would say nothing more,
// so the oldest go.
func Record(status *v1alpha1.EphemeralRunnerStatus, attempt string, d Decision, now time.Time) {
	if d.firstInRow {
		clear(status.Failures)
		clear(status.Disruptions)
	}
	if !d.Disruption {
		if status.Failures == nil {
			status.Failures = map[string]metav1.Time{}
		}
		status.Failures[attempt] = metav1.NewTime(now)
		return
	}
	if status.Disruptions == nil {
		status.Disruptions = map[string]metav1.Time{}
	}
	earlier := slices.SortedFunc(maps.Keys(status.Disruptions), func(a, b string) int {
		return status.Disruptions[a].Compare(status.Disruptions[b].Time)
	})
	for _, old := range earlier[:max(0, len(earlier)+1-len(RetryBackoff))] {
		delete(status.Disruptions, old)
	}
	status.Disruptions[attempt] = metav1.NewTime(now)
}

// FailureRecorded reports whether the end of the attempt with this pod is in the runner's status.
func FailureRecorded(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) bool {
	_, found := Recorded(status, string(pod))
	return found
}

// NewKey returns the key of the present attempt's end in the status: the UID of its pod, or a number if no pod was
// seen. It is the key of no attempt that was recorded before, by whomever: the number of entries counts the attempts.
func NewKey(status *v1alpha1.EphemeralRunnerStatus, pod types.UID) string {
	if pod != "" {
		return string(pod)
	}
	for n := AttemptsRecorded(status) + 1; ; n++ {
		key := fmt.Sprintf("lost-%d", n)
		if _, used := Recorded(status, key); !used {
			return key
		}
	}
}

// JobEnd is all that decides whether a runner's job was lost: its pod ended before GitHub had a result from the runner,
// or was ended from outside while the job ran.
type JobEnd struct {
	status  *v1alpha1.EphemeralRunnerStatus
	ended   bool             // the pod has ended or is gone
	exited  bool             // its runner container is known to have exited with 0
	ending  podstatus.Ending // what ended it before the end of the job was reported, as first seen
	endedAt time.Time
	now     time.Time
}

// JobEnd returns what this attempt says about the end of the runner's job.
func (a *Attempt) JobEnd(
	status *v1alpha1.EphemeralRunnerStatus, pod Outcome, ending podstatus.Ending, now time.Time,
) *JobEnd {
	return &JobEnd{
		status: status, ended: pod.Over() || pod.Phase == podstatus.Missing, exited: a.Ending == podstatus.Succeeded ||
			!a.ExitedAt.IsZero(),
		ending: ending, endedAt: a.EndedAt, now: now,
	}
}

// Loss returns the cause to which the job was lost, zero if it was not. While that can't be known yet, it returns the
// time when it can.
func (e *JobEnd) Loss() (lost podstatus.Ending, due time.Time) {
	switch {
	case !e.ended || !e.status.HadJob() || e.status.Done():
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted() && e.ending.Cause != "" && (GivenUp(e.status.JobResult) || e.failedLater()):
		return e.ending, time.Time{}
	case e.status.JobCompleted(), e.exited && !e.ending.Outside:
		return podstatus.Ending{}, time.Time{}
	}
	if due = e.endedAt.Add(e.grace()); e.now.Before(due) {
		return podstatus.Ending{}, due
	}
	return e.cause(), time.Time{}
}

// grace returns the time after the end of the pod within which the runner's own report of the result may come.
func (e *JobEnd) grace() time.Duration {
	if e.exited || e.ending.Cause == "" || e.ending.Cause == v1alpha1.LostCauseUnknown {
		return SilentGrace
	}
	return FailedGrace
}

// failedLater reports whether the job was reported to have failed so long after the end of its pod that GitHub must
// have said so, about a runner of which it did not hear any more: a manager that was away meanwhile decides as one does
// that was there. What a runner says of its job it says before it ends, and one that exits with 0 has said it.
func (e *JobEnd) failedLater() bool {
	switch {
	case e.exited || e.status.FinishedAt == nil ||
		!slices.Contains([]string{"failed", "failure"}, strings.ToLower(e.status.JobResult)):
		return false
	case e.ending.EndedBy.IsZero():
		return e.ending.Outside
	}
	return !e.status.FinishedAt.Time.Before(e.ending.EndedBy.Add(e.grace()))
}

// cause returns the cause of the pod's end, Unknown if nobody saw it.
func (e *JobEnd) cause() podstatus.Ending {
	if e.ending.Cause == "" {
		return UnseenEnding
	}
	return e.ending
}

// UnseenEnding is the ending of a pod that is gone.
var UnseenEnding = podstatus.Ending{
	Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption,
	Message: "the pod was gone before the manager saw why",
}

// GivenUp reports whether a result says only that the job did not run to its end. GitHub gives it to a job whose runner
// is gone, and a runner that is told to stop reports it, too; a person's cancellation is reported before the pod ends.
func GivenUp(result string) bool {
	return slices.Contains([]string{"canceled", "cancelled", "abandoned"}, strings.ToLower(result))
}

func (w *World) jobEnd() *JobEnd { return w.JobEnd(&w.Runner.Status, w.Pod, w.PodEnding, w.Now) }

// withLoss returns the last decision about a runner whose pod has ended. If its job was lost, the runner has failed
// with it; while that can't be known yet, nothing is decided.
func (w *World) withLoss(d Decision) Decision {
	lost, due := w.jobEnd().Loss()
	switch {
	case !due.IsZero():
		return Decision{RequeueAt: due}
	case lost.Cause == "":
		return d
	case d.Step != Outdate:
		d.Step = Fail
	}
	return d.Lose(lost)
}

// lostBusy returns the last decision about a runner that, as only GitHub's refusal tells, had a job when its pod ended.
func (w *World) lostBusy(d Decision) Decision { return d.Lose(w.jobEnd().cause()) }

// Lose returns the decision with what the job was lost to.
func (d Decision) Lose(lost podstatus.Ending) Decision {
	d.Lost, d.Reason, d.Message = lost, cmp.Or(d.Reason, string(lost.Cause)), lost.Message
	return d
}
