package listener

import (
	"context"
	"math"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

const (
	// heartbeatPeriod is how long the loop sleeps at most. /healthz fails once turnTimeout, several periods, has passed.
	heartbeatPeriod = 10 * time.Second
	// stopTimeout is the time for the messages in hand after SIGTERM. Together with shutdownTimeout, the time to close the
	// session and write the status, it stays within the pod's termination grace period of 60 s.
	stopTimeout     = 30 * time.Second
	shutdownTimeout = 20 * time.Second
	// initialPause and maxPause bound the pauses between attempts after a failure.
	initialPause = 500 * time.Millisecond
	maxPause     = 15 * time.Second
)

// loop is the state of a listener. Only the goroutine that runs run touches it.
type loop struct {
	dependencies
	config      *config.Config
	scaler      *scaler
	session     sessionState
	polls       polls
	offers      offers
	unsent      []delivery
	reporter    *reporter
	publication publicationState
	refreshing  refreshState
	status      statusState
	strays      strays
	// configReadAt is when the configuration file was last read.
	configReadAt time.Time
	// setCapacity is the capacity in the status of the set; nil if there is none.
	setCapacity *int

	// work is the context of what runAsync starts. A request to stop does not end it.
	work context.Context
	// results carries the functions that runAsync's functions return, for the loop to call.
	results chan func()
	// running counts the functions started by runAsync whose results the loop has not called yet.
	running int
	// wakeAt is when the loop must wake at the latest.
	wakeAt   time.Time
	stopping bool
}

// newLoop returns a loop that continues from the state that the previous listener left in set.
func newLoop(settings *config.Config, set *RunnerSet, d dependencies) *loop {
	pauses := backoff{initial: initialPause, max: maxPause}
	l := &loop{
		dependencies: d, config: settings,
		scaler:      newScaler(settings.MinRunners, settings.MaxRunners, set.PatchID),
		session:     sessionState{sessionID: set.SessionID, backoff: pauses},
		polls:       polls{unacked: map[int64]*unackedMessage{}, backoff: pauses, unreadable: pauses},
		offers:      offers{backoff: pauses},
		publication: publicationState{uid: set.UID, backoff: backoff{initial: initialPause, max: maxPublishPause}},
		refreshing:  refreshState{backoff: pauses},
		status:      statusState{backoff: pauses},
		setCapacity: set.Capacity,
		reporter:    newReporter(d.cluster, d.clock, d.log, d.metrics.Dropped),
		results:     make(chan func()),
	}
	l.scaler.doubted = set.DoubtedJobs
	if set.Listener != nil {
		l.status.lastWritten = *set.Listener
	}
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
			l.reporter.dispatch(l.work) // gives up the reports that are held back
		}
		l.rereadConfig(l.clock.Now())
		if l.stopping && deadline == nil {
			stop, deadline = nil, l.clock.After(stopTimeout)
			l.polls.cancel()
			l.reporter.drain(l.work)
		}
		l.step(timer)
	}
}

// step starts what is due, most important first, and sets the timer for what is due next.
func (l *loop) step(timer clock.Timer) {
	now := l.clock.Now()
	l.health.turned(now)
	l.wakeAt = now.Add(heartbeatPeriod)
	l.close(now)
	l.open(now)
	l.findOffers(now)
	l.acquireJobs(now)
	l.publish(now)
	l.sendReports()
	l.deleteMessages(now)
	l.refresh(now)
	l.poll(now)
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

// runAsync runs work in a goroutine of its own, and makes the loop call the function that work returns. The context of work ends
// after timeout, unless that is 0.
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
	want := Publication{Desired: l.scaler.desired, SessionID: l.session.sessionID}
	_, unpublished := l.publication.due(want)
	if l.session.current != nil && l.inHand() {
		return false
	}
	return len(l.unsent) == 0 && (!l.scaler.known() || !unpublished)
}
