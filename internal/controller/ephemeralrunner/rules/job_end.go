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
	Status  *v1alpha1.EphemeralRunnerStatus
	Ended   bool             // the pod has ended or is gone
	Exited  bool             // its runner container is known to have exited with 0
	Ending  podstatus.Ending // what ended it before the end of the job was reported, as first seen
	EndedAt time.Time
	Now     time.Time
}

// Loss returns what the job was lost to, zero if it was not. While that can't be known yet, it returns when it can.
func (e *JobEnd) Loss() (lost podstatus.Ending, due time.Time) {
	unknown := e.Ending.Cause == "" || e.Ending.Cause == v1alpha1.LostCauseUnknown
	switch {
	case !e.Ended || !e.Status.HadJob() || e.Status.Done():
		return podstatus.Ending{}, time.Time{}
	case e.Status.JobCompleted() && (e.Ending.Cause == "" || !GivenUp(e.Status.JobResult)):
		return podstatus.Ending{}, time.Time{}
	case e.Status.JobCompleted():
		return e.Ending, time.Time{}
	case e.Exited && !e.Ending.Outside:
		return podstatus.Ending{}, time.Time{}
	case e.Exited || unknown:
		due = e.EndedAt.Add(SilentGracePeriod)
	default:
		due = e.EndedAt.Add(FailedGracePeriod)
	}
	if e.Now.Before(due) {
		return podstatus.Ending{}, due
	}
	return e.cause(), time.Time{}
}

// cause returns why the pod ended, Unknown if nobody saw it.
func (e *JobEnd) cause() podstatus.Ending {
	if e.Ending.Cause == "" {
		return UnseenEnding
	}
	return e.Ending
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

func (w *World) jobEnd() *JobEnd {
	return &JobEnd{
		Status: &w.Runner.Status, Ended: w.Pod.Over() || w.Pod.Phase == podstatus.Missing, Exited: w.Ending == podstatus.Succeeded || !w.ExitedAt.IsZero(),
		Ending: w.PodEnding, EndedAt: w.EndedAt, Now: w.Now,
	}
}

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

func (d Decision) Lose(lost podstatus.Ending) Decision {
	d.Lost, d.Reason, d.Message = lost, cmp.Or(d.Reason, string(lost.Cause)), lost.Message
	return d
}
