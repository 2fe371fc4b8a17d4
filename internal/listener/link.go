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
	// gitHubLimit ends a call to GitHub. The client's own limit is 30 s and comes first; this one is for what may be
	// around the call.
	gitHubLimit = actions.CallTimeout + 5*time.Second
	// openLimit is for closing the last session, creating the next, and renewing credentials on the way.
	openLimit = 3 * gitHubLimit
	// clientPatience is how long a client is used that is refused again and again; a new one registers anew, which costs two calls.
	clientPatience = 5 * time.Minute
)

// conflictPauses are how long to wait after a 409: an abandoned session was refused for 60 s and free after 91 s.
var conflictPauses = []time.Duration{1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second}

// link is the connection to GitHub: a client and the one session of the scale set.
type link struct {
	// client is made anew from the configuration when it is nil.
	client  GitHub
	session Session
	// sessionID is that of the session held or held last, also by a process before this one.
	sessionID string
	underWay  bool
	retryAt   time.Time
	backoff   backoff
	conflicts int
	// trouble is why there is no session, nil if nothing is known to be wrong.
	trouble *trouble
	// renewedAt is when a client was last made anew because it was refused.
	renewedAt time.Time
	// generation grows when the configuration of the client changes: what an older one brings is let go.
	generation int
}

// open starts to open a session if there is none.
func (l *loop) open(now time.Time) {
	k := &l.link
	if k.session != nil || k.underWay || l.stopping || l.later(k.retryAt, now) {
		return
	}
	k.underWay = true
	client, settings, left, generation := k.client, l.config, k.sessionID, k.generation
	l.beside(openLimit, func(ctx context.Context) func() {
		client, session, err := l.openSession(ctx, client, settings, left)
		return func() { l.opened(client, session, generation, err) }
	})
}

// openSession makes a client if there is none, closes what a process before this one, or this one itself, has left
// open, and creates a session.
func (l *loop) openSession(ctx context.Context, client GitHub, settings *config.Config, left string) (GitHub, Session, error) {
	if client == nil {
		var err error
		if client, err = l.connect(settings, l.metrics.Request); err != nil {
			return nil, nil, err
		}
	}
	if left != "" {
		if err := client.DeleteSession(ctx, settings.RunnerScaleSetID, left); err != nil {
			l.log.V(1).Info("The last session could not be closed", "sessionID", left, "cause", err.Error())
		}
	}
	session, err := client.CreateSession(ctx, settings.RunnerScaleSetID, l.owner)
	return client, session, err
}

func (l *loop) opened(client GitHub, session Session, generation int, err error) {
	now := l.clock.Now()
	k := &l.link
	k.underWay = false
	switch {
	case generation != k.generation || err == nil && l.stopping:
		if err == nil {
			l.closeSession(session)
		}
		return
	case err != nil:
		k.client = client
		l.openFailed(err)
		return
	}
	k.client, k.session, k.sessionID, k.trouble, k.conflicts = client, session, session.ID(), nil, 0
	k.backoff.reset()
	l.polls.opened(now)
	l.refreshing.quiet = false
	if !l.polls.doubted { // else a session is not as good as a poll
		l.health.polled(now)
		l.metrics.Polled(now)
	}
	l.log.Info("Session opened", "sessionID", k.sessionID, "scaleSetID", l.config.RunnerScaleSetID)
	if statistics := session.Statistics(); statistics != nil {
		l.observe(statistics, now)
	} else {
		l.refreshing.at = now // zero jobs must not be concluded from silence
	}
	l.offers.search = search{session: session, backoff: backoff{first: firstPause, most: longestSearchPause}}
}

func (l *loop) openFailed(err error) {
	now := l.clock.Now()
	k := &l.link
	reason, err := explain(err)
	k.trouble = k.trouble.again(reason, err, now)
	k.retryAt = now.Add(k.pause(err, now))
	l.log.Error(err, "No session yet, trying again", "reason", reason, "at", k.retryAt)
	if reason == v1alpha1.ReasonUnauthorized || reason == v1alpha1.ReasonCredentialsInvalid {
		l.readConfig() // there may be new credentials already
		k.renew(now)
	}
}

// renew has the next attempt made with a client of its own: a credential that the refused one got from GitHub may have been
// revoked, and GitHub may say so in a way that makes the client keep it.
func (k *link) renew(now time.Time) {
	if k.client == nil || now.Sub(k.renewedAt) < clientPatience {
		return
	}
	k.client.CloseIdleConnections()
	k.client, k.renewedAt = nil, now
}

// pause is how long to wait after a failure to open a session.
func (k *link) pause(err error, now time.Time) time.Duration {
	if errors.Is(err, actions.ErrSessionConflict) {
		pause := conflictPauses[min(k.conflicts, len(conflictPauses)-1)]
		k.conflicts++
		return pause
	}
	return max(k.backoff.next(), untilAllowed(err, now))
}

// untilAllowed is how long GitHub wants to be left alone, 0 unless it says so itself.
func untilAllowed(err error, now time.Time) time.Duration {
	var limited *actions.RateLimitedError
	if errors.As(err, &limited) && !limited.Assumed {
		return limited.Until.Sub(now)
	}
	return 0
}

// lose drops the session because GitHub does not know it any more, or the client because its configuration changed.
func (l *loop) lose(now time.Time) {
	l.link.session = nil
	l.link.retryAt = now
	l.health.lost()
	l.metrics.SessionLost()
	l.polls.cancel()
}

// reconnect makes a new client from the configuration and a new session with it, at once.
func (l *loop) reconnect(now time.Time) {
	k := &l.link
	k.generation++
	k.backoff.reset()
	k.conflicts = 0
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
	k.client = nil
	l.offers.retryAt, l.polls.deleteFrom, l.refreshing.notBefore = time.Time{}, time.Time{}, time.Time{} // limits of the old one
	l.lose(now)
}

// closeSession closes a session that is not wanted. Failing that it is closed when the next one is opened.
func (l *loop) closeSession(session Session) {
	l.beside(gitHubLimit, func(ctx context.Context) func() {
		err := session.Close(ctx)
		return func() {
			if err != nil {
				l.log.V(1).Info("A session could not be closed", "sessionID", session.ID(), "cause", err.Error())
			}
		}
	})
}
