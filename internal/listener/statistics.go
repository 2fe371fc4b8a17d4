package listener

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

const (
	// refreshAfter is how long after the last message the statistics are read again: the last changes may have come without
	// a message.
	refreshAfter = 10 * time.Second
	// settlingGrace is how long the statistics of a set without a session are read often after they have changed: the next end of a
	// job is likely to be near, and the ended runner is kept until a later patchID.
	settlingGrace = time.Minute
)

// errNoStatistics means that the service has never said how many jobs there are.
var errNoStatistics = errors.New("GitHub sent no statistics of the scale set")

// refreshState is the state of reading the statistics again.
type refreshState struct {
	errand.Errand
	// dueAt is when to read them, zero for not at all.
	dueAt time.Time
	// emptySince is when the first empty poll in a row began, zero if the last poll failed or brought a message.
	emptySince time.Time
	// quiet is set if empty polls have lasted long enough to show that the last statistics still hold.
	quiet bool
	// lastAt is when the last read began.
	lastAt time.Time
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
	readable := l.session.current != nil && l.refreshing.Failure == nil && !l.stopping
	if !readable || now.Sub(l.scaler.StatisticsAt) <= publishInterval {
		return false
	}
	if !l.refreshing.UnderWay {
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
		r.dueAt = now.Add(serving.PollHold)
		if now.Sub(r.changedAt) < settlingGrace {
			r.dueAt = now.Add(refreshAfter)
		}
	case l.messages.Blocked():
		r.dueAt = now.Add(refreshAfter)
	}
	if r.dueAt.IsZero() || r.UnderWay || (l.session.current == nil && l.takesJobs()) || l.stopping ||
		l.mustWait(latest(latest(r.dueAt, r.lastAt.Add(publishInterval)), r.NotBefore), now) {
		return
	}
	r.Begin()
	r.lastAt, r.dueAt = now, time.Time{}
	client, settings, generation, patchID := l.session.client, l.config, l.session.generation, l.scaler.Desired.PatchID
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		var scaleSet *actions.RunnerScaleSet
		client, err := l.connected(client, settings)
		if err == nil {
			scaleSet, err = client.GetRunnerScaleSetByID(ctx, settings.RunnerScaleSetID)
		}
		return func() {
			l.refreshing.End()
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
	if failure.LacksRead(err) && (l.scaler.Known() || !l.takesJobs()) {
		l.log.V(1).Info("Statistics come with messages only", "cause", err.Error())
		unchanged, scaleSet, err = r.quiet, &actions.RunnerScaleSet{}, nil
	}
	switch {
	case err != nil || scaleSet.Statistics != nil || !l.takesJobs():
	case !l.scaler.Known():
		err = errNoStatistics
	case !unchanged || l.scaler.Awaits(now):
		_ = r.Note(errNoStatistics, now) // so that publish does not wait for newer ones
		return
	}
	if err != nil {
		_ = r.Fail(err, now)
		r.dueAt = now
		l.log.Error(err, "Statistics could not be read, trying again", "at", r.NotBefore)
		return
	}
	r.Succeed()
	l.publication.force = true
	if patchID != l.scaler.Desired.PatchID {
		return
	}
	before := l.scaler.Statistics
	l.observe(scaleSet.Statistics, now)
	switch after := l.scaler.Statistics; {
	case l.takesJobs():
		l.offers.Counted(after.TotalAvailableJobs, now)
	case after != before:
		r.changedAt = now
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
