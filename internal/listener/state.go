package listener

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/github"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
	"github.com/harrier-ci/harrier/internal/listener/offers"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/reports"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
	"github.com/harrier-ci/harrier/internal/listener/serving"
	"github.com/harrier-ci/harrier/internal/listener/waiting"
)

// This file has what the loop knows, and what its steps share. It needs none of their files.

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
	// shutdownTimeout is the time to close the session and write the status after the work in hand.
	shutdownTimeout = 20 * time.Second
	// firstBackoff and longestBackoff bound the pauses between attempts after a failure.
	firstBackoff   = 500 * time.Millisecond
	longestBackoff = 15 * time.Second
)

// A loop works with its dependencies: parts of the Options, and what is made from them.
type dependencies struct {
	clock   clock.WithTicker
	log     logr.Logger
	connect github.Connector
	cluster cluster.Cluster
	metrics *metrics.Metrics
	health  *serving.Health
	// read reads the configuration file.
	read func() (*config.Config, error)
	// apply puts the settings into effect that are not the loop's own: log level and metrics.
	apply func(*config.Config)
	owner string
}

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
	// configReadAt is the time of the last read of the configuration file, zero if it is to be read at once.
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

// rereadConfig has the configuration read after this result, whatever it was: there may be new credentials already.
func (l *loop) rereadConfig() { l.configReadAt = time.Time{} }

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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sessionState is the connection to GitHub: a client and the one message session of the scale set.
type sessionState struct {
	// The errand is opening a session, or closing the last one while the set takes no jobs.
	errand.Errand
	// client is nil until it is made from the configuration, and again if it must be replaced.
	client github.Client
	// current is the session held, nil if there is none.
	current github.Session
	// sessionID identifies the session held, or else the last one, even if an earlier process held it.
	sessionID string
	// conflicts counts answers in a row that another session is open.
	conflicts int
	// renewedAt is the last time that a client was replaced because GitHub refused it.
	renewedAt time.Time
	// generation grows if the configuration of the client changes. Results of an older generation are ignored.
	generation int
	// closingSince is the time at which the maximum became 0, so that no session is wanted; zero while one is.
	closingSince time.Time
}

// polls is the state of polling the message queue.
type polls struct {
	errand.Errand
	// stop ends the poll under way.
	stop context.CancelFunc
	// capacity is the capacity that the poll under way carries. renewed is set if that poll was ended because it has
	// changed.
	capacity  int
	renewed   bool
	gathering queue.Gathering
	// unreadable paces polls while one message after the other can't be read, which a queue of nothing else delivers
	// without a wait.
	unreadable errand.Errand
	// unanswered is set if the last poll was held and then ended without an answer.
	unanswered bool
	// unreached is set if the last poll did not reach the queue.
	unreached bool
	// firstUselessAt is the end of the first of this session's useless polls in a row, zero if the last was not
	// useless.
	firstUselessAt time.Time
	// doubted is set from the replacement of a session because of useless answers until the next good poll.
	doubted bool
	// emptySince is the start of the first empty poll in a row, zero if the last poll failed or brought a message.
	emptySince time.Time
	// quiet is set if empty polls have lasted long enough to show that the last statistics still hold.
	quiet bool
	// losses counts the sessions lost since the last good poll.
	losses int
}

func (p *polls) cancel() {
	if p.stop != nil {
		p.stop()
	}
}

// notQuiet remembers that a poll has failed or brought a message, or that a new session has begun.
func (p *polls) notQuiet() { p.emptySince, p.quiet = time.Time{}, false }

// rememberUseless remembers when useless polls began, or that they have ended.
func (p *polls) rememberUseless(useless bool, now time.Time) {
	switch {
	case !useless:
		p.firstUselessAt = time.Time{}
	case p.firstUselessAt.IsZero():
		p.firstUselessAt = now
	}
}

// unsentReports are the reports that must be written before a message is deleted.
type unsentReports struct {
	message *queue.Message
	reports []reports.Report
}

// publicationState is the last Publication written into the EphemeralRunnerSet, and the state of writing the next.
type publicationState struct {
	errand.Errand
	// last is the publication that was last written.
	last cluster.Publication
	// uid is the UID of the set, empty if it is not known.
	uid types.UID
	// lastAt is the time of that write, zero before the first.
	lastAt time.Time
	// force is set if the next patchID must not wait for publishInterval.
	force bool
	// owed is the highest patchID in a report about the end of a job: its slot is held until the set has seen that one.
	owed int
	// At fellAt fewer runners were last asked for than before. runners counts those of the set at the last publication.
	fellAt  time.Time
	runners int
}

// roomState has the number of jobs for which the set says that there is room, and the state of reading it.
type roomState struct {
	errand.Errand
	scaling.Capacity
}

// refreshState is the state of reading the statistics again.
type refreshState struct {
	errand.Errand
	// They are read at dueAt, zero for not at all.
	dueAt time.Time
	// lastAt is the start of the last read.
	lastAt time.Time
	// changedAt is the last time that a read brought new statistics while the set had no session, or that it lost the
	// session.
	changedAt time.Time
}

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
