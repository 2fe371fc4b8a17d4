package listener

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// The statistics of a set without a session are read often for settlingGrace after they have changed: the next end of a
// job is likely to be near, and the ended runner is kept until a later patchID.
const settlingGrace = time.Minute

// errNoStatistics means that the service has never sent the numbers of jobs.
var errNoStatistics = errors.New("GitHub sent no statistics of the scale set")

// refresh starts to read the statistics if that is due, at most a single time per publishInterval, however short polls
// are. While no poll may go out, they are read every refreshInterval: the count must follow demand, and publications
// show the reporter whether the API server accepts other writes while it refuses reports. A set without a session,
// because it takes no jobs, has nothing but reads.
func (l *loop) refresh(now time.Time) {
	r := &l.refreshing
	switch {
	case !r.dueAt.IsZero():
	case !l.takesJobs():
		r.dueAt = now.Add(serving.PollHold)
		if now.Sub(r.changedAt) < settlingGrace {
			r.dueAt = now.Add(refreshInterval)
		}
	case l.messages.Blocked():
		r.dueAt = now.Add(refreshInterval)
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

// refreshed handles a read of the statistics. They are published even if they are unchanged, because a new patchID
// releases held slots. After a failed read nothing is published, unless the service lacks this call: there, polls that
// brought nothing for a while mean "unchanged". Elsewhere a scale set without statistics means that too. Neither does
// while requested jobs may not be counted yet. If the set takes no jobs, it has no runners whatever the statistics are.
// If a message came during the read, its statistics are newer and stay.
func (l *loop) refreshed(scaleSet *actions.RunnerScaleSet, err error, patchID int) {
	now := l.clock.Now()
	r := &l.refreshing
	unchanged := err == nil && scaleSet.Statistics == nil
	l.judgePolls(err, now)
	if failure.LacksRead(err) && (l.scaler.Known() || !l.takesJobs()) {
		l.log.V(1).Info("Statistics come with messages only", "cause", err.Error())
		unchanged, scaleSet, err = l.polls.quiet, &actions.RunnerScaleSet{}, nil
	}
	switch {
	case err != nil || scaleSet.Statistics != nil || !l.takesJobs():
	case !l.scaler.Known():
		err = errNoStatistics
	case !unchanged || l.scaler.Awaits(now):
		_ = r.Remember(errNoStatistics, now) // so that publish does not wait for newer ones
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

// judgePolls judges the last poll by a read of the statistics. If the service answers, a poll that was cut off while it
// was held counts as an empty one. A poll that did not reach the queue, which may be on another host, then counts as
// useless.
func (l *loop) judgePolls(err error, now time.Time) {
	if l.polls.unreached {
		l.polls.rememberUseless(err == nil || actions.LacksReadByID(err), now)
	}
	if l.polls.unanswered && err == nil {
		l.pollSucceeded(now)
	}
}
