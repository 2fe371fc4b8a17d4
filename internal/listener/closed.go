package listener

import (
	"context"
	"time"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

// A set whose maximum is 0 has no session. GitHub was seen never to offer a set again what was queued while its session announced 0, so
// that number is never announced; a set without a session announces nothing, and is offered everything once it has one. The jobs that
// run by then need no messages: figures show their ends, see docs/decisions/0016.

const (
	// closeWithin is how long the session stays open for messages in hand once the maximum is 0. No poll goes out meanwhile.
	closeWithin = 5 * time.Second
	// abandonedAfter is how long a session is asked to be closed. By then GitHub has ended it by itself, which takes about 90 s.
	abandonedAfter = 2 * time.Minute
	// settlingTime is how long the statistics of a set without a session are read often after they have changed: the next end of a
	// job is likely to be near, and the ended runner is kept until a later patchID.
	settlingTime = time.Minute
)

// takesJobs reports whether the set may run any jobs.
func (l *loop) takesJobs() bool { return l.scaler.maxRunners > 0 }

// close ends the session while the set takes no jobs: the one held, once nothing is in hand, or the last one, which an earlier process
// may have left open.
func (l *loop) close(now time.Time) {
	s := &l.session
	l.health.unwanted.Store(!l.takesJobs())
	if l.takesJobs() {
		if !s.closingSince.IsZero() { // what failed before says nothing about the next session
			s.closingSince, s.retryAt, s.failure, l.polls.failure, l.offers.failure = time.Time{}, now, nil, nil, nil
			s.backoff.reset()
		}
		return
	}
	if s.closingSince.IsZero() {
		s.closingSince, s.retryAt = now, now
		l.refreshing.dueAt, l.refreshing.changedAt = now, now
	}
	if s.sessionID == "" || s.underWay || l.stopping || l.mustWait(s.retryAt, now) ||
		s.current != nil && l.inHand() && l.mustWait(s.closingSince.Add(closeWithin), now) {
		return
	}
	if s.current != nil {
		l.dropSession(now)
	}
	s.underWay = true
	client, settings, sessionID, generation := s.client, l.config, s.sessionID, s.generation
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		client, err := l.connected(client, settings)
		if err == nil {
			err = client.DeleteSession(ctx, settings.RunnerScaleSetID, sessionID)
		}
		return func() {
			s.underWay = false
			if generation == s.generation {
				s.client = client
				l.closed(err)
			}
		}
	})
}

// closed handles the result of closing the session, which is the last one until the maximum rises. If it has risen since, a failure is
// left to the attempt to open the next session, which begins by closing the last one.
func (l *loop) closed(err error) {
	now := l.clock.Now()
	s := &l.session
	switch {
	case err == nil:
		l.log.Info("Session closed, because maxRunners is 0", "sessionID", s.sessionID)
	case s.closingSince.IsZero():
		return
	case now.Sub(s.closingSince) < abandonedAfter:
		s.retryAt = now.Add(max(s.backoff.next(), untilAllowed(err, now)))
		l.log.Error(err, "The session could not be closed, trying again", "sessionID", s.sessionID, "at", s.retryAt)
		return
	default:
		l.log.Error(err, "The session could not be closed; by now GitHub has ended it", "sessionID", s.sessionID)
	}
	s.sessionID = ""
	s.backoff.reset()
}

// inHand reports whether there is work that needs the session: a poll or an acquisition whose answer may still come, or a message that
// would come again. A message kept for its offers comes again in any case.
func (l *loop) inHand() bool {
	if l.polls.underWay || l.offers.underWay != nil || len(l.unsent) > 0 {
		return true
	}
	for _, unacked := range l.polls.unacked {
		if !l.keeps(unacked) {
			return true
		}
	}
	return false
}

// connected returns client or, if it is nil, a new one made from settings.
func (l *loop) connected(client GitHub, settings *config.Config) (GitHub, error) {
	if client != nil {
		return client, nil
	}
	return l.connect(settings, l.metrics.Request)
}

// restPeriod returns how long the statistics of a set without a session are used before they are read again: as often as while a
// session is quiet or, after a change, as soon as after a message.
func (l *loop) restPeriod(now time.Time) time.Duration {
	if now.Sub(l.refreshing.changedAt) < settlingTime {
		return refreshAfter
	}
	return pollHoldPeriod
}
