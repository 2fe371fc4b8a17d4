package listener

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
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

// The list of jobs that wait changes with each that comes or goes: by itself it is written every waitingInterval at most.
const waitingInterval = 30 * time.Second

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
	return sameButWaiting(lastWritten, status) && equality.Semantic.DeepEqual(lastWritten.Waiting, status.Waiting)
}

// sameButWaiting reports the same of two statuses whose lists of jobs that wait may differ.
func sameButWaiting(lastWritten, status *v1alpha1.ListenerStatus) bool {
	return sameState(lastWritten, status) && (lastWritten.StrayRegistrations > 0) == (status.StrayRegistrations > 0) &&
		equality.Semantic.DeepEqual(lastWritten.UnknownRunnerJobs, status.UnknownRunnerJobs) &&
		lastWritten.AvailableJobs == status.AvailableJobs && equality.Semantic.DeepEqual(lastWritten.GaveUp, status.GaveUp)
}

// sameState reports whether two statuses show the same state. A change of time or message is not worth a write by
// itself, except for a rate limit, whose message has the end of the limit.
func sameState(lastWritten, status *v1alpha1.ListenerStatus) bool {
	newLimit := status.Reason == v1alpha1.ReasonRateLimited && lastWritten.Message != status.Message
	return lastWritten.State == status.State && lastWritten.Reason == status.Reason && !newLimit
}

// availableInterval is how long a number of available jobs is shown before another one takes its place.
const availableInterval = time.Minute

// availableJobs returns how many jobs GitHub keeps because the set has no room, as the status is to show it. While there
// is room, jobs are available for moments.
func (l *loop) availableJobs(now time.Time) int {
	shown, available := l.status.lastWritten.AvailableJobs, max(0, l.scaler.Statistics.TotalAvailableJobs)
	if !l.takesJobs() || l.scaler.Statistics.TotalAssignedJobs < l.capacity() {
		return 0
	}
	if shown > 0 && available > 0 && shown != available && l.mustWait(l.status.writtenAt.Add(availableInterval), now) {
		return shown
	}
	return available
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
	status.Waiting, nextWaits = l.waiting.Listed(now)
	l.mustWait(nextWaits, now)
	status.AvailableJobs = l.availableJobs(now)
	var nextForgotten time.Time
	status.GaveUp, nextForgotten = l.waiting.GaveUp(now)
	l.mustWait(nextForgotten, now)
	if sameStatus(&l.status.lastWritten, status) {
		return
	}
	due := l.status.NotBefore
	switch {
	case sameButWaiting(&l.status.lastWritten, status):
		due = latest(due, l.status.writtenAt.Add(waitingInterval))
	case sameState(&l.status.lastWritten, status):
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
