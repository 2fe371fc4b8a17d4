package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// FailedGracePeriod is how long after the end of a pod that failed, or was ended from outside, the report of its job's result may
	// come. A report takes a second or two from the runner over GitHub and the listener.
	FailedGracePeriod = 5 * time.Second
	// SilentGracePeriod is the same for a runner that exited with 0, or that ended unseen: it most probably told GitHub, and the
	// report waits only while the listener does not listen.
	SilentGracePeriod = 30 * time.Second
)

// JobEnd is all that decides whether a runner's job was lost: its pod ended before GitHub had a result from the runner, or was
// ended from outside while the job ran.
type JobEnd struct {
	status  *v1alpha1.EphemeralRunnerStatus
	ended   bool             // the pod has ended or is gone
	exited  bool             // its runner container is known to have exited with 0
	ending  podstatus.Ending // what ended it before the end of the job was reported, as first seen
	endedAt time.Time
	now     time.Time
}

// JobEnd returns what this attempt says about the end of the runner's job.
func (a *Attempt) JobEnd(status *v1alpha1.EphemeralRunnerStatus, pod Outcome, ending podstatus.Ending, now time.Time) *JobEnd {
	return &JobEnd{
		status: status, ended: pod.Over() || pod.Phase == podstatus.Missing, exited: a.Ending == podstatus.Succeeded || !a.ExitedAt.IsZero(),
		ending: ending, endedAt: a.EndedAt, now: now,
	}
}

// Loss returns what the job was lost to, zero if it was not. While that can't be known yet, it returns when it can.
func (e *JobEnd) Loss() (lost podstatus.Ending, due time.Time) {
	unknown := e.ending.Cause == "" || e.ending.Cause == v1alpha1.LostCauseUnknown
	switch {
	case !e.ended || !e.status.HadJob() || e.status.Done():
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted() && (e.ending.Cause == "" || !GivenUp(e.status.JobResult)):
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted():
		return e.ending, time.Time{}
	case e.exited && !e.ending.Outside:
		return podstatus.Ending{}, time.Time{}
	case e.exited || unknown:
		due = e.endedAt.Add(SilentGracePeriod)
	default:
		due = e.endedAt.Add(FailedGracePeriod)
	}
	if e.now.Before(due) {
		return podstatus.Ending{}, due
	}
	return e.cause(), time.Time{}
}

// cause returns why the pod ended, Unknown if nobody saw it.
func (e *JobEnd) cause() podstatus.Ending {
	if e.ending.Cause == "" {
		return UnseenEnding
	}
	return e.ending
}

// UnseenEnding is the ending of a pod that is gone.
var UnseenEnding = podstatus.Ending{
	Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption, Message: "the pod was gone before the manager saw why",
}

// GivenUp reports whether a result says only that the job did not run to its end. GitHub gives it to a job whose runner is gone, and
// a runner that is told to stop reports it, too; a person's cancellation is reported before the pod ends.
func GivenUp(result string) bool {
	return slices.Contains([]string{"canceled", "cancelled", "abandoned"}, strings.ToLower(result))
}

func (w *World) jobEnd() *JobEnd { return w.JobEnd(&w.Runner.Status, w.Pod, w.PodEnding, w.Now) }

// withLoss returns the last decision about a runner whose pod has ended. If its job was lost, the runner has failed with it; while
// that can't be known yet, nothing is decided.
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
