package listener

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// errDeletionsLimited is why a message is not deleted that GitHub was not even asked to delete.
var errDeletionsLimited = errors.New("GitHub has limited the rate of deletions for longer than a message waits for its own")

// deletion is what is left to do for a message.
type deletion struct {
	message *actions.Message
	// toldAt is when its reports were done with, zero before.
	toldAt   time.Time
	underWay bool
	retryAt  time.Time
	backoff  backoff
}

// isFor says that a message is the one to be deleted, and not one to which the service has given the same id.
func (d *deletion) isFor(message *actions.Message) bool {
	if d == nil {
		return false
	}
	before, now := *d.message, *message
	before.Statistics, now.Statistics = nil, nil // those of the moment
	return reflect.DeepEqual(before, now)
}

// tell hands the messages taken to the reporter. It waits for a publication under way: runners are told of their jobs'
// ends after the set was told, so that no slot is free before the count that goes with it.
func (l *loop) tell() {
	if l.published.underWay {
		return
	}
	for _, taken := range l.untold {
		wait := l.reporter.deliver(l.work, taken.reports)
		l.beside(0, func(context.Context) func() {
			told := wait()
			return func() {
				if told {
					taken.left.toldAt = l.clock.Now()
				}
			}
		})
	}
	l.untold = nil
}

// deleteMessages starts to delete the messages whose effects are in the API server.
func (l *loop) deleteMessages(now time.Time) {
	session := l.link.session
	for messageID, left := range l.polls.underReport {
		if session == nil || left.toldAt.IsZero() || left.underWay {
			continue
		}
		if l.polls.deleteFrom.After(now) && l.outOfTime(left, now) {
			l.letGo(messageID, left, errDeletionsLimited)
			continue
		}
		if l.later(latest(left.retryAt, l.polls.deleteFrom), now) {
			continue
		}
		left.underWay = true
		l.beside(gitHubLimit, func(ctx context.Context) func() {
			err := session.DeleteMessage(ctx, messageID)
			return func() { l.deleted(session, messageID, left, err) }
		})
	}
}

// deleted lets go of a message. One that could not be deleted for reportLimit is let go as well: it comes again in
// the next session, and twice does no harm. A session that is lost may be found out here only: while as many messages are
// under way as may be, no poll goes out.
func (l *loop) deleted(session Session, messageID int64, left *deletion, err error) {
	now := l.clock.Now()
	left.underWay = false
	if err != nil && session == l.link.session {
		l.polls.deleteFrom = latest(l.polls.deleteFrom, now.Add(untilAllowed(err, now)))
		if reason, _ := explain(err); reason == reasonSessionLost {
			l.sessionLost(now)
		}
	}
	if err != nil && !l.outOfTime(left, now) {
		left.retryAt = latest(now.Add(left.backoff.next()), l.polls.deleteFrom)
		l.log.V(1).Info("Message could not be deleted, trying again", "messageID", messageID, "cause", err.Error(), "at", left.retryAt)
		return
	}
	l.letGo(messageID, left, err)
}

// outOfTime says that a message has waited for its deletion for reportLimit, or will have before GitHub wants to hear of
// deletions again while no poll goes out because so many wait.
func (l *loop) outOfTime(left *deletion, now time.Time) bool {
	full := len(l.polls.underReport) >= messagesUnderWay
	return now.Sub(left.toldAt) >= reportLimit || full && l.polls.deleteFrom.Sub(left.toldAt) >= reportLimit
}

// letGo forgets a message that was deleted, or could not be because of err.
func (l *loop) letGo(messageID int64, left *deletion, err error) {
	if err != nil {
		l.log.Error(err, "Message could not be deleted and will come again", "messageID", messageID)
	}
	if l.polls.underReport[messageID] == left { // another message may have the same id by now
		delete(l.polls.underReport, messageID)
	}
}
