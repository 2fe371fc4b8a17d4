package listener

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// publishInterval is how long a new patchID waits if nothing else has changed: otherwise a busy set would be written with
	// every message. It is also the maximum age of statistics whose patchID is published, because the EphemeralRunnerSet assumes
	// that a patchID seen 3 s after the end of a runner counts that end.
	publishInterval = 3 * time.Second
	// refreshAfter is how long after the last message the statistics are read again: the last changes may have come without
	// a message.
	refreshAfter = 10 * time.Second
	// maxPublishPause is the longest pause between attempts to publish: ends of jobs wait for the next one, for maxHold at most.
	// The shortest is half of it, and longer than publishInterval, so that each attempt has new statistics.
	maxPublishPause = 7 * time.Second
	// maxHold is longer than the outage of an API server during an upgrade. If only the set can't be written, ends of jobs are
	// reported after it.
	maxHold = 5 * time.Minute
)

// errNoStatistics means that the service has never said how many jobs there are.
var errNoStatistics = errors.New("GitHub sent no statistics of the scale set")

// publicationState is the last Publication written into the EphemeralRunnerSet, and the state of writing the next.
type publicationState struct {
	// last is what was last written.
	last Publication
	// uid is the UID of the set, empty if it is not known.
	uid types.UID
	// lastAt is when last was written, zero before the first time.
	lastAt   time.Time
	underWay bool
	// force is set if the next patchID must not wait for publishInterval.
	force   bool
	retryAt time.Time
	backoff backoff
	// failure is why the last attempt failed, nil if it did not.
	failure *failure
}

// due returns when want must be published, or false if it was published already.
func (p *publicationState) due(want Publication) (time.Time, bool) {
	switch {
	case want == p.last && !p.lastAt.IsZero():
		return time.Time{}, false
	case p.lastAt.IsZero(), p.force, want.Replicas != p.last.Replicas, want.SessionID != p.last.SessionID:
		return p.retryAt, true
	}
	return latest(p.lastAt.Add(publishInterval), p.retryAt), true
}

// shows reports whether the API server has the count that goes with patchID: either it was published, or the count that was
// published last is wanted.
func (p *publicationState) shows(patchID int, wanted Desired) bool {
	return !p.lastAt.IsZero() && (p.last.PatchID >= patchID || p.last.Replicas == wanted.Replicas)
}

// publish starts to write the desired count if it is due. If the statistics have become old during failures, they are read
// again first, unless GitHub can't be reached either: then the last known count is better than none.
func (l *loop) publish(now time.Time) {
	p := &l.publication
	if p.underWay || !l.scaler.known() {
		return
	}
	want := Publication{Desired: l.scaler.desired, SessionID: l.session.sessionID}
	at, ok := p.due(want)
	if l.stopping {
		at = p.retryAt // the successor must find the patchID that the last reports carry
	}
	if !ok || l.mustWait(at, now) {
		return
	}
	if p.backoff.failures > 0 && l.renewOldStatistics(now) {
		return
	}
	p.underWay, p.force = true, false
	if want.Replicas != p.last.Replicas || p.lastAt.IsZero() {
		l.log.Info("Desired runners changed", "replicas", want.Replicas, "assignedJobs", want.AssignedJobs, "patchID", want.PatchID)
	}
	epoch := l.status.epoch
	l.runAsync(kubernetesTimeout, func(ctx context.Context) func() {
		runnerSet, err := l.cluster.Publish(ctx, want)
		return func() { l.published(want, epoch, runnerSet, err) }
	})
}

// published handles the result of a publication. epoch is the status's epoch when the publication began.
func (l *loop) published(wrote Publication, epoch int, runnerSet *RunnerSet, err error) {
	now := l.clock.Now()
	p := &l.publication
	p.underWay = false
	if err != nil {
		p.force = true
		p.retryAt = now.Add(p.backoff.next())
		p.failure = p.failure.next(v1alpha1.ReasonPublishFailed, err, now)
		l.reporter.hold(l.work, now.Sub(p.failure.firstAt) < maxHold)
		l.log.Error(err, "Desired runners could not be published, trying again", "replicas", wrote.Replicas, "at", p.retryAt)
		return
	}
	l.reporter.answered()
	l.reporter.hold(l.work, false)
	p.last, p.lastAt, p.failure = wrote, now, nil
	p.backoff.reset()
	l.updateCapacity(runnerSet.Capacity)
	l.scaler.doubted = runnerSet.DoubtedJobs
	l.statusSeen(runnerSet.Listener, epoch)
	l.strays.observe(&l.scaler.statistics, runnerSet.Runners, now)
	if p.uid != "" && runnerSet.UID != "" && p.uid != runnerSet.UID {
		l.log.Info("The EphemeralRunnerSet was recreated, publishing again", "uid", runnerSet.UID)
		l.refreshing.dueAt = now
	}
	p.uid = cmp.Or(runnerSet.UID, p.uid)
}

// updateCapacity notes how many jobs the set can run according to the manager. The next poll passes it on to GitHub.
func (l *loop) updateCapacity(capacity *int) {
	before := l.capacity()
	l.setCapacity = capacity
	if after := l.capacity(); before != after {
		l.log.Info("Capacity changed", "jobs", after, "before", before)
	}
}

// capacity returns how many jobs GitHub may assign to the set, running ones included: what the manager says, but always one more than
// run, because GitHub was seen never to offer again what was queued while a session announced 0. Assigned jobs that wait don't count, or
// a set that can't run jobs would draw the whole queue. maxRunners comes last: more jobs would be promised than runners are allowed.
func (l *loop) capacity() int {
	most := l.scaler.maxRunners
	least := min(max(0, l.scaler.statistics.TotalRunningJobs), most) + 1
	return min(max(ptr.Deref(l.setCapacity, most), least), most)
}

// refreshState is the state of reading the statistics again.
type refreshState struct {
	// dueAt is when to read them, zero for not at all.
	dueAt    time.Time
	underWay bool
	// emptySince is when the first empty poll in a row began, zero if the last poll failed or brought a message.
	emptySince time.Time
	// quiet is set if empty polls have lasted long enough to show that the last statistics still hold.
	quiet bool
	// lastAt is when the last read began.
	lastAt time.Time
	// notBefore is until when GitHub accepts no reads, whatever makes one due.
	notBefore time.Time
	backoff   backoff
	// changedAt is when a read last brought new statistics while the set had no session, or when it lost the session.
	changedAt time.Time
}

// emptyPoll notes that a poll that began at begun has brought nothing. If the service does not hold polls, several add up.
func (r *refreshState) emptyPoll(begun, now time.Time) {
	if r.emptySince.IsZero() {
		r.emptySince = begun
	}
	r.quiet = now.Sub(r.emptySince) >= publishInterval
}

// otherPoll notes that a poll has failed or brought a message, or that a new session has begun.
func (r *refreshState) otherPoll() { r.emptySince, r.quiet = time.Time{}, false }

// renewOldStatistics reports whether a publication must wait for newer statistics, and if so makes a read due. It need not wait
// while they can't be read.
func (l *loop) renewOldStatistics(now time.Time) bool {
	readable := l.session.current != nil && l.refreshing.backoff.failures == 0 && !l.stopping
	if !readable || now.Sub(l.scaler.statisticsAt) <= publishInterval {
		return false
	}
	if !l.refreshing.underWay {
		l.refreshing.dueAt = now
	}
	return true
}

// refresh starts to read the statistics if that is due, at most once per publishInterval, however short polls are. While no
// poll may go out, they are read every refreshAfter: the count must follow demand, and publications show the reporter whether the
// API server accepts other writes while it refuses reports. A set without a session, because it takes no jobs, has nothing but reads.
func (l *loop) refresh(now time.Time) {
	r := &l.refreshing
	switch {
	case !r.dueAt.IsZero():
	case !l.takesJobs():
		r.dueAt = now.Add(l.restPeriod(now))
	case l.polls.blocked():
		r.dueAt = now.Add(refreshAfter)
	}
	if r.dueAt.IsZero() || r.underWay || l.session.current == nil && l.takesJobs() || l.stopping ||
		l.mustWait(latest(latest(r.dueAt, r.lastAt.Add(publishInterval)), r.notBefore), now) {
		return
	}
	r.underWay, r.lastAt, r.dueAt = true, now, time.Time{}
	client, settings, generation, patchID := l.session.client, l.config, l.session.generation, l.scaler.desired.PatchID
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		var scaleSet *actions.RunnerScaleSet
		client, err := l.connected(client, settings)
		if err == nil {
			scaleSet, err = client.GetRunnerScaleSetByID(ctx, settings.RunnerScaleSetID)
		}
		return func() {
			l.refreshing.underWay = false
			if generation == l.session.generation {
				l.session.client = cmp.Or(l.session.client, client)
				l.refreshed(scaleSet, err, patchID)
			}
		}
	})
}

// refreshed handles a read of the statistics. They are published even if they are unchanged, because a new patchID releases held
// slots. After a failed read nothing is published, unless the service lacks this call: there, polls that brought nothing for a while
// mean "unchanged". Elsewhere a scale set without statistics means that too. Neither does while requested jobs may not be counted
// yet. If the set takes no jobs, it has no runners whatever the statistics are. If a message came during the read, its statistics are
// newer and stay.
func (l *loop) refreshed(scaleSet *actions.RunnerScaleSet, err error, patchID int) {
	now := l.clock.Now()
	r := &l.refreshing
	unchanged := err == nil && scaleSet.Statistics == nil
	l.judgePolls(err, now)
	if actions.LacksReadByID(err) && refusedForGood(err) && (l.scaler.known() || !l.takesJobs()) {
		l.log.V(1).Info("Statistics come with messages only", "cause", err.Error())
		unchanged, scaleSet, err = r.quiet, &actions.RunnerScaleSet{}, nil
	}
	switch {
	case err != nil || scaleSet.Statistics != nil || !l.takesJobs():
	case !l.scaler.known():
		err = errNoStatistics
	case !unchanged || l.scaler.awaits(now):
		r.backoff.next() // a failure, so that publish does not wait for newer statistics
		return
	}
	if err != nil {
		r.notBefore = now.Add(untilAllowed(err, now))
		r.dueAt = latest(now.Add(r.backoff.next()), r.notBefore)
		l.log.Error(err, "Statistics could not be read, trying again", "at", r.dueAt)
		return
	}
	r.backoff.reset()
	l.publication.force = true
	if patchID == l.scaler.desired.PatchID {
		l.observeRead(scaleSet.Statistics, now)
	}
}

// observeRead evaluates statistics that were read, and notes what they say about the next read or search.
func (l *loop) observeRead(statistics *actions.Statistics, now time.Time) {
	before := l.scaler.statistics
	l.observe(statistics, now)
	switch {
	case l.takesJobs():
		l.findUnknownOffers(now)
	case l.scaler.statistics != before:
		l.refreshing.changedAt = now
	}
}

// judgePolls judges the last poll by a read of the statistics. If the service answers, a poll that was cut off while it was held
// counts as an empty one. A poll that did not reach the queue, which may be on another host, then counts as useless.
func (l *loop) judgePolls(err error, now time.Time) {
	if l.polls.unreached {
		l.polls.noteUseless(err == nil || actions.LacksReadByID(err), now)
	}
	if l.polls.unanswered && err == nil {
		l.pollSucceeded(now)
	}
}

// observe evaluates statistics; nil stands for the last ones.
func (l *loop) observe(statistics *actions.Statistics, now time.Time) {
	l.scaler.observe(statistics, now)
	l.showDesired()
}

// showDesired writes the last evaluation into the metrics.
func (l *loop) showDesired() {
	if l.scaler.known() {
		l.metrics.Statistics(&l.scaler.statistics, l.scaler.desired.Replicas)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
