// Package listener is the process between GitHub's message queue and an EphemeralRunnerSet; each scale set has one. It
// receives messages about jobs, writes into the set the number of runners that there should be, and reports the start
// and end of a job in the status of its runner:
//
//	poll ─▶ take the message ─┬▶ acquire offered jobs ─▶┐
//	        apart             ├▶ scaler ────────────────┴▶ publish {replicas, patchID, assignedJobs}
//	                          └▶ reports to runners, after the count ─▶ delete the message
//
// One goroutine, the loop, owns all state. Whatever takes time runs in a goroutine of its own and returns its result as
// a function that the loop calls. After each result the loop starts whatever is due, in the order of step in loop.go. A
// failed step is not a special case: it is an errand, due again after a pause. No failed call ends the process.
//
// The rooms below decide and remember, and call nobody, except those that are the edge: cluster, github, reports and
// serving.
package listener

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/offers"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/reports"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
	"github.com/harrier-ci/harrier/internal/listener/serving"
	"github.com/harrier-ci/harrier/internal/listener/waiting"
)

const (
	// stopTimeout is the time for the messages in hand after SIGTERM. Together with shutdownTimeout it stays within the
	// pod's termination grace period of 60 s.
	stopTimeout = 30 * time.Second
	// longestSearchBackoff is longestBackoff of searches for open offers: a service may have the call and never answer
	// it.
	longestSearchBackoff = time.Minute
	// longestPublishBackoff is the same for publications: ends of jobs wait for the next one, for maxHold at most. The
	// shortest is half of it, and longer than publishInterval, so that each attempt has new statistics.
	longestPublishBackoff = 7 * time.Second
	// The configuration file is treated as unchanged for rereadInterval. A change goes unnoticed if the kernel has no
	// watch left, or if it comes between the first read and the watch.
	rereadInterval = time.Minute
)

// newLoop returns a loop that continues from the state that the previous listener left in set.
func newLoop(settings *config.Config, set *cluster.RunnerSet, d dependencies) *loop {
	paced := errand.New(firstBackoff, longestBackoff)
	l := &loop{
		dependencies: d, config: settings, configReadAt: d.clock.Now(),
		scaler:      scaling.New(settings.MinRunners, settings.MaxRunners, set.PatchID),
		session:     sessionState{Errand: paced, sessionID: set.SessionID},
		polls:       polls{Errand: paced, unreadable: paced},
		messages:    queue.New(),
		offers:      offers.New(paced, errand.New(firstBackoff, longestSearchBackoff)),
		publication: publicationState{Errand: errand.New(firstBackoff, longestPublishBackoff), uid: set.UID},
		refreshing:  refreshState{Errand: paced},
		status:      statusState{Errand: paced},
		room:        roomState{Errand: paced},
		reporter:    reports.New(d.cluster, d.clock, d.log, d.metrics.Dropped),
		results:     make(chan func()),
	}
	l.room.Places = settings.PlacesJobs
	l.room.Observe(set.Capacity, d.clock.Now())
	l.scaler.Doubted, l.scaler.Desired.CanceledJobs = set.DoubtedJobs, max(set.CanceledJobs, 0)
	if set.Listener != nil {
		l.status.lastWritten = *set.Listener
	}
	l.waiting = waiting.New(l.status.lastWritten.Waiting, l.status.lastWritten.GaveUp)
	return l
}

// run works until ctx ends or the configuration asks for a new process, then finishes what is in hand. A receive from
// changed means that the configuration file may have changed.
func (l *loop) run(ctx context.Context, changed <-chan struct{}) {
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	l.work = work
	stop := ctx.Done()
	timer := l.clock.NewTimer(0)
	defer timer.Stop()
	var deadline <-chan time.Time
	for !l.finished() {
		select {
		case result := <-l.results:
			result()
		case <-timer.C():
		case <-changed:
			l.readConfig()
		case <-stop:
			l.stopping = true
		case <-deadline:
			abandon()
			l.reporter.GiveUp(l.work)
		}
		if !l.stopping && l.clock.Since(l.configReadAt) >= rereadInterval {
			l.readConfig()
		}
		if l.stopping && deadline == nil {
			stop, deadline = nil, l.clock.After(stopTimeout)
			l.polls.cancel()
			l.reporter.Drain(l.work)
		}
		l.step(timer)
	}
}

// step starts what is due, in the order of a message's way, and sets the timer for what is due next.
func (l *loop) step(timer clock.Timer) {
	now := l.clock.Now()
	l.health.Turned(now)
	l.wakeAt = now.Add(serving.HeartbeatInterval)
	l.close(now)
	l.open(now)
	l.readRoom(now)       // the number of jobs for which the next poll announces room
	l.poll(now)           // brings a message, which take takes apart
	l.findOffers(now)     // those that no message brought
	l.acquireJobs(now)    // those that GitHub offers
	l.publish(now)        // the number of runners that the jobs need
	l.sendReports()       // which jobs started and ended, after the count that goes with them
	l.deleteMessages(now) // whose effects are in the API server
	l.refresh(now)
	l.writeStatus(now)
	timer.Reset(max(0, l.wakeAt.Sub(now)))
}

// finished reports whether a listener that was asked to stop has nothing left in hand.
func (l *loop) finished() bool {
	if !l.stopping || l.running > 0 {
		return false
	}
	if l.work.Err() != nil {
		return true
	}
	_, _, unpublished := l.unpublished()
	if l.session.current != nil && l.inHand() {
		return false
	}
	return len(l.unsent) == 0 && (!l.scaler.Known() || !unpublished)
}

// shutdown closes the session, so that a successor gets one immediately, and writes the status Stopped, even if GitHub
// does not answer.
func (l *loop) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := l.closeLastSession(ctx); err != nil {
		l.log.Error(
			err, "The session could not be closed, the next listener will do it", "sessionID", l.session.sessionID,
		)
	}
	since := metav1.NewTime(l.clock.Now())
	stopped := v1alpha1.ListenerStatus{
		State:   v1alpha1.ListenerStateStopped,
		Reason:  reasonStopped,
		Message: "asked to stop",
		Since:   &since,
		Waiting: l.status.lastWritten.Waiting,
	}
	if err := l.cluster.WriteStatus(ctx, stopped); err != nil {
		l.log.Error(err, "The state could not be written", "state", stopped.State)
	}
	l.log.Info("Stopped")
}

const restarting = "The configuration names another EphemeralRunnerSet or another config URL, restarting"

// readConfig reads the configuration again and puts changes into effect. An invalid configuration changes nothing.
func (l *loop) readConfig() {
	now := l.clock.Now()
	l.configReadAt = now
	read, err := l.read()
	if err != nil {
		l.log.Error(err, "The new configuration is not used")
		return
	}
	before := l.config
	if reflect.DeepEqual(before, read) {
		return
	}
	l.config = read
	if before.NeedsNewProcess(read) {
		l.log.Info(restarting)
		l.stopping = true
		return
	}
	l.log.Info(
		"Configuration changed", "minRunners", read.MinRunners, "maxRunners", read.MaxRunners,
		"scaleSetID", read.RunnerScaleSetID,
	)
	l.apply(read)
	l.scaler.MinRunners, l.scaler.MaxRunners, l.room.Places = read.MinRunners, read.MaxRunners, read.PlacesJobs
	l.scaler.Evaluate(now)
	l.showDesired()
	if read.RunnerScaleSetID != before.RunnerScaleSetID {
		if l.session.current != nil {
			l.closeSession(l.session.current)
		}
		l.session.sessionID = ""
		l.offers.Forget()
		clear(l.messages.Unacked)
		l.waiting = waiting.New(nil, nil)
		l.reconnect(now)
	} else if !before.SameAccess(read) {
		l.reconnect(now)
	}
}
