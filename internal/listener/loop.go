package listener

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

const (
	// heartbeat is the longest the loop sleeps. /healthz fails after several that were missed.
	heartbeat = 10 * time.Second
	// stopLimit is what the messages in hand have after SIGTERM. With farewellLimit for the session and the state it
	// stays within the pod's 60 s.
	stopLimit     = 30 * time.Second
	farewellLimit = 20 * time.Second
	// firstPause and longestPause bound the pauses between attempts of whatever fails.
	firstPause   = 500 * time.Millisecond
	longestPause = 15 * time.Second
)

// loop is the state of a listener. Only the goroutine in run touches it.
type loop struct {
	clock   clock.WithTicker
	log     logr.Logger
	connect Connector
	cluster Cluster
	metrics *metrics.Metrics
	health  *health
	// read reads the configuration file.
	read func() (*config.Config, error)
	// apply puts settings into effect that are not the loop's: log level and metrics.
	apply func(*config.Config)
	owner string

	config     *config.Config
	scaler     *scaler
	link       link
	polls      polls
	offers     offers
	untold     []delivery
	reporter   *reporter
	published  publishing
	refreshing refreshing
	state      reporting
	// setLimit is the capacity the set allows, nil for no limit of its own.
	setLimit *int

	// work is the context of what runs beside the loop; a request to stop does not end it.
	work context.Context
	// results are functions to call in the loop, from what ran beside it.
	results chan func()
	// running counts what runs beside the loop.
	running int
	// wakeAt is when something is due next.
	wakeAt   time.Time
	stopping bool
}

// newLoop continues from what a listener before this one left in set.
func newLoop(settings *config.Config, set *RunnerSet, d dependencies) *loop {
	pauses := backoff{first: firstPause, most: longestPause}
	l := &loop{
		clock: d.Clock, log: d.log, connect: d.Connect, cluster: d.cluster, metrics: d.metrics, health: d.health,
		read: d.read, apply: d.apply, owner: d.Owner, config: settings,
		scaler:     newScaler(settings.MinRunners, settings.MaxRunners, set.PatchID),
		link:       link{sessionID: set.SessionID, backoff: pauses},
		polls:      polls{underReport: map[int64]*deletion{}, backoff: pauses},
		offers:     offers{backoff: pauses},
		published:  publishing{uid: set.UID, backoff: pauses},
		refreshing: refreshing{backoff: pauses},
		state:      reporting{backoff: pauses},
		setLimit:   set.Capacity,
		reporter:   newReporter(d.cluster, d.Clock, d.log, d.metrics.Dropped),
		results:    make(chan func()),
	}
	if set.Listener != nil {
		l.state.told = *set.Listener
	}
	return l
}

// run works until ctx ends or the configuration asks for a new process, then finishes what is in hand. Changed tells
// that the configuration file may have changed.
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
		}
		if l.stopping && deadline == nil {
			stop, deadline = nil, l.clock.After(stopLimit)
			l.polls.cancel()
			l.reporter.hurry(l.work)
		}
		l.step(timer)
	}
}

// step starts what is due, in the order of importance, and sets the timer for what is due next.
func (l *loop) step(timer clock.Timer) {
	now := l.clock.Now()
	l.health.turned(now)
	l.wakeAt = now.Add(heartbeat)
	l.open(now)
	l.findOffers(now)
	l.acquireJobs(now)
	l.publish(now)
	l.tell()
	l.deleteMessages(now)
	l.refresh(now)
	l.poll(now)
	l.report(now)
	timer.Reset(max(0, l.wakeAt.Sub(now)))
}

// later says that at is still to come, and makes the loop wake then.
func (l *loop) later(at, now time.Time) bool {
	if !at.After(now) {
		return false
	}
	if at.Before(l.wakeAt) {
		l.wakeAt = at
	}
	return true
}

// beside runs work next to the loop, at most for limit unless that is 0, and then in the loop what it returned.
func (l *loop) beside(limit time.Duration, work func(ctx context.Context) (then func())) context.CancelFunc {
	if limit == 0 {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(l.work, limit)
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

// finished says that a listener asked to stop has nothing in hand any more.
func (l *loop) finished() bool {
	if !l.stopping || l.running > 0 {
		return false
	}
	if l.work.Err() != nil {
		return true
	}
	want := Publication{Desired: l.scaler.desired, SessionID: l.link.sessionID}
	_, unpublished := l.published.due(want)
	return len(l.untold) == 0 && (!l.scaler.known() || !unpublished) && (len(l.polls.underReport) == 0 || l.link.session == nil)
}
