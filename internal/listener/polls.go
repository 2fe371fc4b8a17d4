package listener

import (
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/github"
	"github.com/harrier-ci/harrier/internal/listener/queue"
)

const (
	// pollTimeout ends a poll. It covers one attempt, a renewal of the queue token, and one more attempt.
	pollTimeout = 2*actions.PollTimeout + actions.CallTimeout
	// A session is replaced if for this time its polls get only useless answers, or none although the service answers
	// other calls. GitHub may have lost the session, or moved its queue, whose address comes with the session. A new
	// session costs two calls.
	uselessSessionTimeout = 2 * time.Minute
)

// poll starts the next poll if one may go out.
func (l *loop) poll(now time.Time) {
	p, session, capacity := &l.polls, l.session.current, l.capacity()
	if p.UnderWay && capacity != p.capacity && !p.renewed {
		// The service assigns as many jobs as the capacity of the poll allows, and may hold the poll for a minute. The
		// capacity changes with maxRunners; only in a set that can't run as many it changes with the number of running
		// jobs too.
		p.renewed = true
		p.cancel()
	}
	if session == nil || p.UnderWay || l.stopping || !l.takesJobs() || l.messages.Blocked() ||
		l.mustWait(latest(p.NotBefore, l.room.AwaitedUntil()), now) {
		return
	}
	p.Begin()
	p.renewed, p.capacity = false, capacity
	lastID := l.messages.LastID()
	p.stop = l.runAsync(pollTimeout, func(ctx context.Context) func() {
		message, err := session.GetMessage(ctx, lastID, capacity)
		return func() { l.polled(session, message, err, now) }
	})
}

// polled handles the answer to a poll. It ignores an answer in a session that is no longer held: the message is
// redelivered.
func (l *loop) polled(session github.Session, message *actions.Message, err error, begun time.Time) {
	now := l.clock.Now()
	p := &l.polls
	p.End()
	if session != l.session.current || (l.stopping && err != nil) {
		return
	}
	if p.renewed && errors.Is(err, context.Canceled) {
		p.NotBefore = begun.Add(queue.GatherInterval)
		return
	}
	malformed, ok := errors.AsType[*actions.MalformedMessageError](err)
	unreadable := ok && malformed.MessageID != 0
	switch {
	case unreadable:
		l.log.Error(
			err, "Malformed message, using what could be read and deleting it", "messageID", malformed.MessageID,
		)
		l.metrics.Dropped(failure.ReasonMalformedMessage)
		message = malformed.Message
		l.offers.SearchAgain() // the unreadable part may be offers
	case failure.EndedWhileHeld(err, now.Sub(begun)):
		l.pollUnanswered(err, now)
		return
	case err != nil:
		l.pollFailed(err, now)
		return
	}
	l.pollSucceeded(now)
	if message == nil {
		// A service that answers immediately even if it has no message is polled a single time per interval.
		p.NotBefore = begun.Add(queue.GatherInterval)
		p.unreadable.Succeed()
		l.refreshing.dueAt = now
		if p.emptySince.IsZero() {
			p.emptySince = begun
		}
		p.quiet = now.Sub(p.emptySince) >= publishInterval // if the service does not hold polls, several add up
		return
	}
	p.notQuiet()
	p.gathering.Received(message, now.Sub(begun) < queue.GatherInterval)
	l.take(message, now)
	switch {
	case unreadable:
		p.unreadable.Pause(now)
		p.NotBefore = p.unreadable.NotBefore
		return
	case p.gathering.Waits:
		p.NotBefore = now.Add(queue.GatherInterval)
	default:
		p.NotBefore = now
	}
	p.unreadable.Succeed()
}

func (l *loop) pollSucceeded(now time.Time) {
	p := &l.polls
	p.Succeed()
	p.unanswered, p.unreached = false, false
	p.losses, p.firstUselessAt, p.doubted = 0, time.Time{}, false
	l.health.Polled(now)
	l.metrics.Polled(now)
}

// pollUnanswered handles a poll that ended without an answer while it was held: the next poll goes out immediately, and
// the statistics are read as after an empty poll. If they can be read, GitHub is within reach, and the poll counts as a
// good one.
func (l *loop) pollUnanswered(err error, now time.Time) {
	p := &l.polls
	_ = p.Remember(err, now)
	p.ResetPauses()
	p.unanswered, p.unreached = true, false
	p.NotBefore, p.firstUselessAt = now, time.Time{}
	l.refreshing.dueAt = now
	p.notQuiet()
	l.log.Info(
		"Poll ended without an answer while it was held, polling again",
		"reason", p.Failure.Reason, "cause", p.Failure.Message,
	)
}

func (l *loop) pollFailed(err error, now time.Time) {
	p := &l.polls
	err = p.Fail(err, now)
	reason := p.Failure.Reason
	p.unanswered = false
	if p.unreached = failure.Unreached(err); !p.unreached { // otherwise the next read of the statistics decides
		p.rememberUseless(failure.Useless(err), now)
	}
	p.notQuiet()
	l.log.Error(err, "Poll failed, trying again", "reason", reason, "at", p.NotBefore)
	if failure.IsRefusal(reason) {
		l.rereadConfig()
		l.replaceSession(now) // a queue token that is refused after its renewal suggests that the session is gone
		return
	}
	switch reason {
	case failure.ReasonSessionLost:
		l.sessionLost(now)
	case v1alpha1.ReasonScaleSetNotFound, v1alpha1.ReasonSessionConflict, v1alpha1.ReasonRefusedByGitHub:
		// How a service answers after it has ended a session is not documented, and a new session costs little.
		l.replaceSession(now)
	case v1alpha1.ReasonGitHubUnavailable, v1alpha1.ReasonHostNotFound, v1alpha1.ReasonTimeout, failure.ReasonMalformedMessage:
		// Shows whether anything can be reached; the count must follow demand while the queue is away.
		l.refreshing.dueAt = now
		if !p.firstUselessAt.IsZero() && now.Sub(p.firstUselessAt) >= uselessSessionTimeout {
			p.doubted = true
			l.replaceSession(now)
		}
	}
}
