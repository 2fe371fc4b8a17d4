package listener

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/failure"
)

// Reasons in status.listener of a listener that has no failure to show.
const (
	reasonListening = "Listening"
	reasonStarting  = "Starting"
	reasonStopped   = "Stopped"
)

// A write that does not change the state waits for detailsInterval after the last one: a restore may end a thousand
// jobs.
const detailsInterval = 10 * time.Second

// statusState is the state of writing status.listener of the EphemeralRunnerSet.
type statusState struct {
	errand.Errand
	// lastWritten is the status that the API server has, as far as is known.
	lastWritten v1alpha1.ListenerStatus
	// writtenAt is the time of this process's last write.
	writtenAt time.Time
	// epoch grows when a write begins and when it ends. A status read in an earlier epoch may be older than
	// lastWritten.
	epoch int
}

// currentStatus returns the status of the listener, or nil to leave the last one as it is.
func (l *loop) currentStatus(now time.Time) *v1alpha1.ListenerStatus {
	failures := []*failure.Failure{l.session.Failure, l.polls.Failure, l.publication.Failure}
	if !l.takesJobs() {
		failures = failures[2:] // nobody opens a session or polls
	}
	for _, failing := range failures {
		if failing != nil {
			return failing.Status()
		}
	}
	switch s := &l.session; {
	case !l.takesJobs() && s.sessionID == "":
		return plainStatus(v1alpha1.ListenerStateClosed, v1alpha1.ReasonMaxRunnersZero,
			"the message session is closed because the set takes no jobs: maxRunners is 0, or the set is drained", now)
	case !l.takesJobs(), s.UnderWay && l.status.lastWritten.State == v1alpha1.ListenerStateClosed:
		return nil // it is being closed, or opened again
	case s.current == nil:
		return plainStatus(v1alpha1.ListenerStateStarting, reasonStarting, "opening a session", now)
	}
	if l.offers.Failure != nil {
		if status := l.offers.Failure.Status(); status != nil {
			return status
		}
	}
	return plainStatus(v1alpha1.ListenerStateListening, reasonListening, "", now)
}

func plainStatus(state v1alpha1.ListenerState, reason, message string, now time.Time) *v1alpha1.ListenerStatus {
	since := metav1.NewTime(now)
	return &v1alpha1.ListenerStatus{State: state, Reason: reason, Message: message, Since: &since}
}

// sameStatus reports whether status need not be written. Of strays, the manager needs to know whether there are any.
func sameStatus(lastWritten, status *v1alpha1.ListenerStatus) bool {
	return sameState(lastWritten, status) && (lastWritten.StrayRegistrations > 0) == (status.StrayRegistrations > 0) &&
		equality.Semantic.DeepEqual(lastWritten.UnknownRunnerJobs, status.UnknownRunnerJobs) &&
		equality.Semantic.DeepEqual(lastWritten.Waiting, status.Waiting)
}

// sameState reports whether two statuses show the same state. A change of time or message is not worth a write by
// itself, except for a rate limit, whose message has the end of the limit.
func sameState(lastWritten, status *v1alpha1.ListenerStatus) bool {
	newLimit := status.Reason == v1alpha1.ReasonRateLimited && lastWritten.Message != status.Message
	return lastWritten.State == status.State && lastWritten.Reason == status.Reason && !newLimit
}

// writeStatus starts to write the status if it has changed.
func (l *loop) writeStatus(now time.Time) {
	status := l.currentStatus(now)
	if status == nil || l.stopping {
		return
	}
	if sameState(&l.status.lastWritten, status) {
		status = new(l.status.lastWritten) // with the time when this state began
	}
	status.StrayRegistrations, status.UnknownRunnerJobs = l.strays.Shown, l.reporter.UnknownJobs()
	var nextWaits time.Time
	status.Waiting, nextWaits = l.waiting.Long(time.Duration(l.config.WaitingAfterSeconds)*time.Second, now)
	l.mustWait(nextWaits, now)
	if sameStatus(&l.status.lastWritten, status) {
		return
	}
	due := l.status.NotBefore
	if sameState(&l.status.lastWritten, status) {
		due = latest(due, l.status.writtenAt.Add(detailsInterval))
	}
	if l.status.UnderWay || l.mustWait(due, now) {
		return
	}
	l.status.Begin()
	l.status.epoch++
	l.runAsync(cluster.RequestTimeout, func(ctx context.Context) func() {
		err := l.cluster.WriteStatus(ctx, *status)
		return func() { l.statusWritten(*status, err) }
	})
}

// statusWritten handles the result of a write.
func (l *loop) statusWritten(status v1alpha1.ListenerStatus, err error) {
	l.status.End()
	l.status.epoch++
	if err != nil {
		l.status.Pause(l.clock.Now())
		l.log.Error(
			err, "The listener's state could not be written, trying again", "state", status.State,
			"at", l.status.NotBefore,
		)
		return
	}
	l.status.Succeed()
	l.status.lastWritten, l.status.writtenAt = status, l.clock.Now()
	l.log.Info("Listener state changed", "state", status.State, "reason", status.Reason, "message", status.Message,
		"strayRegistrations", status.StrayRegistrations)
}
