package listener

import (
	"context"
	"math"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
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
	// gitHubTimeout ends a call to GitHub and what surrounds it. The client's own timeout of 30 s comes first.
	gitHubTimeout = actions.CallTimeout + 5*time.Second
	// A new patchID waits for publishInterval if nothing else has changed: otherwise a busy set would be written with
	// every message. It is also the maximum age of statistics whose patchID is published, because the
	// EphemeralRunnerSet assumes that a patchID seen 3 s after the end of a runner counts that end.
	publishInterval = 3 * time.Second
	// The statistics are read again at this time after the last message: the last changes may have come without a
	// message.
	refreshInterval = 10 * time.Second
	// stopTimeout is the time for the messages in hand after SIGTERM. Together with shutdownTimeout, the time to close
	// the session and write the status, it stays within the pod's termination grace period of 60 s.
	stopTimeout     = 30 * time.Second
	shutdownTimeout = 20 * time.Second
	// firstBackoff and longestBackoff bound the pauses between attempts after a failure.
	firstBackoff   = 500 * time.Millisecond
	longestBackoff = 15 * time.Second
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

// loop is the state of a listener. Only the goroutine that runs run touches it.
type loop struct {
	dependencies
	config *config.Config

	session     sessionState
	polls       polls
	messages    queue.Messages
	offers      offers.Offers
	scaler      *scaling.Scaler
	publication publicationState
	unsent      []unsentReports
	reporter    *reports.Reporter
	refreshing  refreshState
	status      statusState
	strays      scaling.Strays
	waiting     *waiting.Jobs
	// configReadAt is the time of the last read of the configuration file.
	configReadAt time.Time
	// room has the number of jobs for which the set says that there is room, and the state of reading it.
	room roomState

	// work is the context of what runAsync starts. A request to stop does not end it.
	work context.Context
	// results carries the functions that runAsync's functions return, for the loop to call.
	results chan func()
	// running counts the functions started by runAsync whose results the loop has not called yet.
	running int
	// The loop must wake at wakeAt at the latest.
	wakeAt   time.Time
	stopping bool
}

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
	l.waiting = waiting.New(l.status.lastWritten.Waiting)
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

// mustWait reports whether at lies in the future, and if so makes the loop wake then.
func (l *loop) mustWait(at, now time.Time) bool {
	if !at.After(now) {
		return false
	}
	if at.Before(l.wakeAt) {
		l.wakeAt = at
	}
	return true
}

// runAsync runs work in a goroutine of its own, and makes the loop call the function that work returns. The context of
// work ends after timeout, unless that is 0.
func (l *loop) runAsync(timeout time.Duration, work func(ctx context.Context) (then func())) context.CancelFunc {
	if timeout == 0 {
		timeout = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(l.work, timeout)
	l.running++
	go func() {
		defer cancel()
		then := work(ctx)
		l.results <- func() {
			l.running--
			then()
		}
	}()
	return cancel
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

// inHand reports whether there is work that needs the session: a poll or an acquisition whose answer may still come, or
// a message that would come again, unless it is to come again because of its offers.
func (l *loop) inHand() bool {
	return l.polls.UnderWay || l.offers.UnderWay || len(l.unsent) > 0 ||
		len(l.messages.Unacked) > len(l.messages.Kept(l.offers.WouldBeLost))
}

// takesJobs reports whether the set may run any jobs.
func (l *loop) takesJobs() bool { return l.scaler.MaxRunners > 0 }

// capacity returns the number of jobs that GitHub may assign to the set.
func (l *loop) capacity() int { return l.room.Jobs(l.scaler) }

// observe evaluates statistics; nil stands for the last ones.
func (l *loop) observe(statistics *actions.Statistics, now time.Time) {
	l.scaler.Observe(statistics, now)
	l.showDesired()
}

// showDesired writes the last evaluation into the metrics.
func (l *loop) showDesired() {
	if l.scaler.Known() {
		l.metrics.Statistics(&l.scaler.Statistics, l.scaler.Desired.Replicas)
	}
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
		l.waiting = waiting.New(nil)
		l.reconnect(now)
	} else if !before.SameAccess(read) {
		l.reconnect(now)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
