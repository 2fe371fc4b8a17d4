package listener

import (
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/github"
)

const (
	// openTimeout covers closing the last session, creating the next one, and renewing credentials on the way.
	openTimeout = 3 * gitHubTimeout
	// A client that GitHub keeps refusing is replaced after refusedClientTimeout. A new client registers again, which
	// costs two calls.
	refusedClientTimeout = 5 * time.Minute
	// closeTimeout ends the wait for messages in hand after the maximum has become 0. No poll goes out meanwhile.
	closeTimeout = 5 * time.Second
	// The closing of a session is given up after abandonTimeout. By then GitHub has ended it by itself, which takes
	// about 90 s.
	abandonTimeout = 2 * time.Minute
)

// conflictBackoffs follow the first, second and later 409 in a row. GitHub was seen to refuse a new session for 60 s
// after one was abandoned, and to grant it after 91 s.
var conflictBackoffs = []time.Duration{
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
}

// open starts to open a session if none is held and the set takes jobs.
func (l *loop) open(now time.Time) {
	s := &l.session
	if s.current != nil || s.UnderWay || l.stopping || !l.takesJobs() || l.mustWait(s.NotBefore, now) {
		return
	}
	s.Begin()
	client, settings, lastID, generation := s.client, l.config, s.sessionID, s.generation
	l.runAsync(openTimeout, func(ctx context.Context) func() {
		client, session, err := l.openSession(ctx, client, settings, lastID)
		return func() {
			s.End()
			if generation != s.generation || (err == nil && l.stopping) {
				l.leave(session, settings.RunnerScaleSetID)
			} else {
				l.opened(client, session, err)
			}
		}
	})
}

// leave gives up a session (or nil) whose client's configuration changed while it was being opened, or that comes too
// late. A session of the same scale set is closed before the next one is opened, or when the process ends, because
// GitHub grants one at a time.
func (l *loop) leave(session github.Session, scaleSetID int) {
	switch {
	case session == nil:
	case scaleSetID == l.config.RunnerScaleSetID:
		l.session.sessionID = session.ID()
	default:
		l.closeSession(session)
	}
}

// openSession makes a client if there is none, closes the last session, whichever process left it open, and creates a
// new one.
func (l *loop) openSession(
	ctx context.Context, client github.Client, settings *config.Config, lastID string,
) (github.Client, github.Session, error) {
	client, err := l.connected(client, settings)
	if err != nil {
		return nil, nil, err
	}
	if lastID != "" {
		if err := client.DeleteSession(ctx, settings.RunnerScaleSetID, lastID); err != nil {
			l.log.V(1).Info("The last session could not be closed", "sessionID", lastID, "cause", err.Error())
		}
	}
	session, err := client.CreateSession(ctx, settings.RunnerScaleSetID, l.owner)
	return client, session, err
}

func (l *loop) opened(client github.Client, session github.Session, err error) {
	now := l.clock.Now()
	s := &l.session
	if err != nil {
		s.client = client
		l.openFailed(err)
		return
	}
	s.client, s.current, s.sessionID, s.conflicts = client, session, session.ID(), 0
	l.room.Opened(now)
	s.Succeed()
	l.messages.NewSession()
	l.polls.NotBefore, l.polls.firstUselessAt = now, time.Time{}
	l.polls.notQuiet()
	if !l.polls.doubted { // otherwise only a good poll proves that messages can be received
		l.health.Polled(now)
		l.metrics.Polled(now)
	}
	l.log.Info("Session opened", "sessionID", s.sessionID, "scaleSetID", l.config.RunnerScaleSetID)
	if statistics := session.Statistics(); statistics != nil {
		l.observe(statistics, now)
	} else {
		l.refreshing.dueAt = now // missing statistics do not mean zero jobs
	}
	l.offers.NewSession()
}

func (l *loop) openFailed(err error) {
	now := l.clock.Now()
	s := &l.session
	if errors.Is(err, actions.ErrSessionConflict) {
		err = s.Remember(err, now)
		s.NotBefore = now.Add(conflictBackoffs[min(s.conflicts, len(conflictBackoffs)-1)])
		s.conflicts++
	} else {
		err = s.Fail(err, now)
	}
	reason := s.Failure.Reason
	l.log.Error(err, "Session could not be opened, trying again", "reason", reason, "at", s.NotBefore)
	if !failure.IsRefusal(reason) && reason != v1alpha1.ReasonCredentialsInvalid {
		return
	}
	l.rereadConfig()
	// A token that the client got from GitHub may have been revoked in a way that the client does not recognize.
	if s.client != nil && now.Sub(s.renewedAt) >= refusedClientTimeout {
		s.client.CloseIdleConnections()
		s.client, s.renewedAt = nil, now
	}
}

// dropSession stops using the session: GitHub does not know it, its polls are useless, or its client is being replaced.
func (l *loop) dropSession(now time.Time) {
	l.session.current = nil
	l.session.NotBefore = now
	l.polls.unanswered, l.polls.unreached = false, false // reads from now on say nothing about the next session's polls
	l.health.Lost()
	l.metrics.SessionLost()
	l.polls.cancel()
}

// reconnect drops client and session, so that new ones are made from the configuration: immediately, or when an attempt
// that is under way has ended.
func (l *loop) reconnect(now time.Time) {
	s := &l.session
	s.generation++
	s.ResetPauses()
	s.conflicts = 0
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.client = nil
	// The old client's limits.
	l.offers.NotBefore, l.refreshing.NotBefore, l.messages.DeletionsAllowedAt = time.Time{}, time.Time{}, time.Time{}
	l.dropSession(now)
}

// A set whose maximum is 0 has no session. GitHub was seen never to offer a set again what was queued while its session
// announced 0, so that number is never announced; a set without a session announces nothing, and is offered everything
// when it has one. The jobs that run by then need no messages: figures show their ends, see docs/decisions/0016.

// close ends the session while the set takes no jobs: the one held, when nothing is in hand, or the last one, which an
// earlier process may have left open.
func (l *loop) close(now time.Time) {
	s := &l.session
	l.health.Unwanted.Store(!l.takesJobs())
	if l.takesJobs() {
		if !s.closingSince.IsZero() { // what failed before says nothing about the next session
			s.closingSince, s.NotBefore = time.Time{}, now
			s.Succeed()
			l.polls.Failure, l.offers.Failure = nil, nil
		}
		return
	}
	if s.closingSince.IsZero() {
		s.closingSince, s.NotBefore = now, now
		l.refreshing.dueAt, l.refreshing.changedAt = now, now
	}
	if s.sessionID == "" || s.UnderWay || l.stopping || l.mustWait(s.NotBefore, now) ||
		(s.current != nil && l.inHand() && l.mustWait(s.closingSince.Add(closeTimeout), now)) {
		return
	}
	if s.current != nil {
		l.dropSession(now)
	}
	s.Begin()
	client, settings, sessionID, generation := s.client, l.config, s.sessionID, s.generation
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		client, err := l.connected(client, settings)
		if err == nil {
			err = client.DeleteSession(ctx, settings.RunnerScaleSetID, sessionID)
		}
		return func() {
			s.End()
			if generation == s.generation {
				s.client = client
				l.closed(err)
			}
		}
	})
}

// closed handles the result of closing the session, which is the last one until the maximum rises. If it has risen
// since, a failure is left to the attempt to open the next session, which begins by closing the last one.
func (l *loop) closed(err error) {
	now := l.clock.Now()
	s := &l.session
	switch {
	case err == nil:
		l.log.Info("Session closed, because maxRunners is 0", "sessionID", s.sessionID)
	case s.closingSince.IsZero():
		return
	case now.Sub(s.closingSince) < abandonTimeout:
		_ = s.Fail(err, now)
		l.log.Error(err, "The session could not be closed, trying again", "sessionID", s.sessionID, "at", s.NotBefore)
		return
	default:
		l.log.Error(err, "The session could not be closed; by now GitHub has ended it", "sessionID", s.sessionID)
	}
	s.sessionID = ""
	s.Succeed()
}

// connected returns client or, if it is nil, a new one made from settings.
func (l *loop) connected(client github.Client, settings *config.Config) (github.Client, error) {
	if client != nil {
		return client, nil
	}
	return l.connect(settings, l.metrics.Request)
}

// closeSession closes the session of a scale set that is no longer used.
func (l *loop) closeSession(session github.Session) {
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		err := session.Close(ctx)
		return func() {
			if err != nil {
				l.log.V(1).Info("A session could not be closed", "sessionID", session.ID(), "cause", err.Error())
			}
		}
	})
}

// closeLastSession closes the session held, or else the last one, which GitHub may still hold although it refuses its
// polls.
func (l *loop) closeLastSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout/2)
	defer cancel()
	s := &l.session
	switch {
	case s.current != nil:
		return s.current.Close(ctx)
	case s.sessionID == "":
		return nil
	}
	client, err := l.connected(s.client, l.config)
	if err != nil {
		return err
	}
	return client.DeleteSession(ctx, l.config.RunnerScaleSetID, s.sessionID)
}

// replaceSession drops the session, so that a new one is opened when the next poll would be due. If no session is held,
// one is being opened already, after a change of the configuration.
func (l *loop) replaceSession(now time.Time) {
	if l.session.current == nil {
		return
	}
	l.dropSession(now)
	l.session.NotBefore = l.polls.NotBefore
}

// sessionLost drops the session. The next one is opened immediately, however many polls failed before GitHub said that
// the session is lost; after further losses without a good poll in between, at the pace of failed polls.
func (l *loop) sessionLost(now time.Time) {
	p := &l.polls
	l.dropSession(now)
	if p.losses++; p.losses == 1 {
		return
	}
	if !p.NotBefore.After(now) {
		p.Pause(now)
	}
	l.session.NotBefore = p.NotBefore
}
