package ephemeralrunner

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

const (
	// failedGracePeriod is how long after the end of a pod that failed, or was ended from outside, the report of its job's result may
	// come. A report takes a second or two from the runner over GitHub and the listener.
	failedGracePeriod = 5 * time.Second
	// silentGracePeriod is the same for a runner that exited with 0, or that ended unseen: it most probably told GitHub, and the
	// report waits only while the listener does not listen.
	silentGracePeriod = 30 * time.Second
)

// jobEnd is all that decides whether a runner's job was lost: its pod ended before GitHub had a result from the runner, or was
// ended from outside while the job ran.
type jobEnd struct {
	status  *v1alpha1.EphemeralRunnerStatus
	ended   bool             // the pod has ended or is gone
	exited  bool             // its runner container is known to have exited with 0
	ending  podstatus.Ending // what ended it before the end of the job was reported, as first seen
	endedAt time.Time
	now     time.Time
}

// loss returns what the job was lost to, zero if it was not. While that can't be known yet, it returns when it can.
func (e *jobEnd) loss() (lost podstatus.Ending, due time.Time) {
	unknown := e.ending.Cause == "" || e.ending.Cause == v1alpha1.LostCauseUnknown
	switch {
	case !e.ended || !e.status.HadJob() || e.status.Done():
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted() && (e.ending.Cause == "" || !givenUp(e.status.JobResult)):
		return podstatus.Ending{}, time.Time{}
	case e.status.JobCompleted():
		return e.ending, time.Time{}
	case e.exited && !e.ending.Outside:
		return podstatus.Ending{}, time.Time{}
	case e.exited || unknown:
		due = e.endedAt.Add(silentGracePeriod)
	default:
		due = e.endedAt.Add(failedGracePeriod)
	}
	if e.now.Before(due) {
		return podstatus.Ending{}, due
	}
	return e.cause(), time.Time{}
}

// cause returns why the pod ended, Unknown if nobody saw it.
func (e *jobEnd) cause() podstatus.Ending {
	if e.ending.Cause == "" {
		return unseenEnding
	}
	return e.ending
}

// unseenEnding is the ending of a pod that is gone.
var unseenEnding = podstatus.Ending{
	Cause: v1alpha1.LostCauseUnknown, Fault: podstatus.FaultDisruption, Message: "the pod was gone before the manager saw why",
}

// givenUp reports whether a result says only that the job did not run to its end. GitHub gives it to a job whose runner is gone, and
// a runner that is told to stop reports it, too; a person's cancellation is reported before the pod ends.
func givenUp(result string) bool {
	return slices.Contains([]string{"canceled", "cancelled", "abandoned"}, strings.ToLower(result))
}

func (o *observation) jobEnd() *jobEnd {
	return &jobEnd{
		status: &o.runner.Status, ended: o.pod.Over() || o.pod.Phase == podstatus.Missing, exited: o.ending == podstatus.Succeeded || !o.exitedAt.IsZero(),
		ending: o.podEnding, endedAt: o.endedAt, now: o.now,
	}
}

// withLoss returns the last decision about a runner whose pod has ended. If its job was lost, the runner has failed with it; while
// that can't be known yet, nothing is decided.
func (o *observation) withLoss(d decision) decision {
	lost, due := o.jobEnd().loss()
	switch {
	case !due.IsZero():
		return decision{requeueAt: due}
	case lost.Cause == "":
		return d
	case d.step != stepOutdate:
		d.step = stepFail
	}
	return d.lose(lost)
}

// lostBusy returns the last decision about a runner that, as only GitHub's refusal tells, had a job when its pod ended.
func (o *observation) lostBusy(d decision) decision { return d.lose(o.jobEnd().cause()) }

func (d decision) lose(lost podstatus.Ending) decision {
	d.lost, d.reason, d.message = lost, cmp.Or(d.reason, string(lost.Cause)), lost.Message
	return d
}
