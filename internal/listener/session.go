package listener

import (
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

const (
	// gitHubTimeout ends a call to GitHub and what surrounds it. The client's own timeout of 30 s comes first.
	gitHubTimeout = actions.CallTimeout + 5*time.Second
	// openTimeout covers closing the last session, creating the next one, and renewing credentials on the way.
	openTimeout = 3 * gitHubTimeout
	// renewClientAfter is how long a client that GitHub keeps refusing is used before it is replaced. A new client
	// registers again, which costs two calls.
	renewClientAfter = 5 * time.Minute
)

// conflictPauses are the waits after the first, second and later 409 in a row. GitHub was seen to refuse a new session for
// 60 s after one was abandoned, and to grant it after 91 s.
var conflictPauses = []time.Duration{1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second}

// sessionState is the connection to GitHub: a client and the one message session of the scale set.
type sessionState struct {
	// client is nil until it is made from the configuration, and again if it must be replaced.
	client GitHub
	// current is the session held, nil if there is none.
	current Session
	// sessionID identifies the session held, or else the last one, even if an earlier process held it.
	sessionID string
	underWay  bool
	retryAt   time.Time
	backoff   backoff
	conflicts int
	// failure is why there is no session; nil if nothing is known to be wrong.
	failure *failure
	// renewedAt is when a client was last replaced because GitHub refused it.
	renewedAt time.Time
	// generation grows if the configuration of the client changes. Results of an older generation are ignored.
	generation int
	// closingSince is when the maximum became 0, so that no session is wanted; zero while one is.
	closingSince time.Time
}

// open starts to open a session if none is held and the set takes jobs.
func (l *loop) open(now time.Time) {
	s := &l.session
	if s.current != nil || s.underWay || l.stopping || !l.takesJobs() || l.mustWait(s.retryAt, now) {
		return
	}
	s.underWay = true
	client, settings, lastID, generation := s.client, l.config, s.sessionID, s.generation
	l.runAsync(openTimeout, func(ctx context.Context) func() {
		client, session, err := l.openSession(ctx, client, settings, lastID)
		return func() {
			s.underWay = false
			if generation != s.generation || err == nil && l.stopping {
				l.leave(session, settings.RunnerScaleSetID)
			} else {
				l.opened(client, session, err)
			}
		}
	})
}

// leave gives up a session (or nil) whose client's configuration changed while it was being opened, or that comes too late. A
// session of the same scale set is closed before the next one is opened, or when the process ends, because GitHub grants one at a
// time.
func (l *loop) leave(session Session, scaleSetID int) {
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
func (l *loop) openSession(ctx context.Context, client GitHub, settings *config.Config, lastID string) (GitHub, Session, error) {
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

func (l *loop) opened(client GitHub, session Session, err error) {
	now := l.clock.Now()
	s := &l.session
	if err != nil {
		s.client = client
		l.openFailed(err)
		return
	}
	s.client, s.current, s.sessionID, s.failure, s.conflicts = client, session, session.ID(), nil, 0
	s.backoff.reset()
	l.polls.opened(now)
	l.refreshing.otherPoll()
	if !l.polls.doubted { // otherwise only a good poll proves that messages can be received
		l.health.polled(now)
		l.metrics.Polled(now)
	}
	l.log.Info("Session opened", "sessionID", s.sessionID, "scaleSetID", l.config.RunnerScaleSetID)
	if statistics := session.Statistics(); statistics != nil {
		l.observe(statistics, now)
	} else {
		l.refreshing.dueAt = now // missing statistics do not mean zero jobs
	}
	l.offers.search = search{session: session, due: true,
		backoff: backoff{initial: initialPause, max: maxSearchPause},
		unknown: backoff{initial: publishInterval, max: maxSearchPause},
	}
}

func (l *loop) openFailed(err error) {
	now := l.clock.Now()
	s := &l.session
	reason, err := explain(err)
	s.failure = s.failure.next(reason, err, now)
	s.retryAt = now.Add(s.pause(err, now))
	l.log.Error(err, "Session could not be opened, trying again", "reason", reason, "at", s.retryAt)
	if isRefusal(reason) || reason == v1alpha1.ReasonCredentialsInvalid {
		l.readConfig() // there may be new credentials already
		s.renew(now)
	}
}

// renew drops a client that GitHub refuses, so that the next attempt makes a new one. A token that the client got from GitHub may
// have been revoked in a way that the client does not recognize.
func (s *sessionState) renew(now time.Time) {
	if s.client == nil || now.Sub(s.renewedAt) < renewClientAfter {
		return
	}
	s.client.CloseIdleConnections()
	s.client, s.renewedAt = nil, now
}

// pause returns how long to wait after a failure to open a session.
func (s *sessionState) pause(err error, now time.Time) time.Duration {
	if errors.Is(err, actions.ErrSessionConflict) {
		pause := conflictPauses[min(s.conflicts, len(conflictPauses)-1)]
		s.conflicts++
		return pause
	}
	return max(s.backoff.next(), untilAllowed(err, now))
}

// untilAllowed returns the pause that GitHub, or a gateway in front of it, asked for, or 0 if it named no time.
func untilAllowed(err error, now time.Time) time.Duration {
	if limited, ok := errors.AsType[*actions.RateLimitedError](err); ok && limited.Assumed {
		return 0
	}
	return actions.RetryAt(err, now).Sub(now)
}

// dropSession stops using the session: GitHub does not know it, its polls are useless, or its client is being replaced.
func (l *loop) dropSession(now time.Time) {
	l.session.current = nil
	l.session.retryAt = now
	l.polls.unanswered, l.polls.unreached = false, false // reads from now on say nothing about the next session's polls
	l.health.lost()
	l.metrics.SessionLost()
	l.polls.cancel()
}

// reconnect drops client and session, so that new ones are made from the configuration: at once, or when an attempt that is under
// way has ended.
func (l *loop) reconnect(now time.Time) {
	s := &l.session
	s.generation++
	s.backoff.reset()
	s.conflicts = 0
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.client = nil
	l.offers.retryAt, l.polls.deleteNotBefore, l.refreshing.notBefore = time.Time{}, time.Time{}, time.Time{} // the old client's limits
	l.dropSession(now)
}

// closeSession closes the session of a scale set that is no longer used.
func (l *loop) closeSession(session Session) {
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		err := session.Close(ctx)
		return func() {
			if err != nil {
				l.log.V(1).Info("A session could not be closed", "sessionID", session.ID(), "cause", err.Error())
			}
		}
	})
}

// closeLastSession closes the session held, or else the last one, which GitHub may still hold although it refuses its polls.
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
