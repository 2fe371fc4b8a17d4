package listener

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// errDeletionsPaused is why a message is forgotten without an attempt to delete it.
var errDeletionsPaused = errors.New("GitHub accepts no deletions for longer than a message waits to be deleted")

// unackedMessage is a message that was received and not yet deleted. Deleting a message acknowledges it: a message that
// is not deleted is delivered again in the next session.
type unackedMessage struct {
	message *actions.Message
	// patchID is the patchID of the statistics in the message, or of the next ones if it has none.
	patchID int
	// reportedAt is when the last of its reports was written or given up, zero before that.
	reportedAt time.Time
	underWay   bool
	retryAt    time.Time
	backoff    backoff
}

// isFor reports whether message is the one that waits to be deleted, not another message with the same ID.
func (u *unackedMessage) isFor(message *actions.Message) bool {
	if u == nil {
		return false
	}
	before, now := *u.message, *message
	before.Statistics, now.Statistics = nil, nil // each delivery carries the statistics of its own moment
	return reflect.DeepEqual(before, now)
}

// sendReports hands the reports of new messages to the reporter, but not while a publication is under way: the end of a job is
// reported to its runner only after the set has the count that goes with it, so that no slot is freed early.
func (l *loop) sendReports() {
	if l.publication.underWay {
		return
	}
	for _, taken := range l.unsent {
		wait := l.reporter.deliver(l.work, taken.reports)
		l.runAsync(0, func(context.Context) func() {
			done := wait()
			return func() {
				if done {
					taken.message.reportedAt = l.clock.Now()
				}
			}
		})
	}
	l.unsent = nil
}

// deleteMessages starts to delete the messages whose effects are in the API server: their reports are done and the count is
// published. Some messages stay because of their offers; see kept.
func (l *loop) deleteMessages(now time.Time) {
	session := l.session.current
	kept := l.kept()
	for messageID, unacked := range l.polls.unacked {
		if session == nil || unacked.reportedAt.IsZero() || unacked.underWay {
			continue
		}
		if slices.Contains(kept, messageID) {
			unacked.reportedAt = now // the time to delete it begins when it is no longer kept
			continue
		}
		if l.polls.deleteNotBefore.After(now) && l.deletionExpired(unacked, now) {
			l.forgetMessage(messageID, unacked, errDeletionsPaused)
			continue
		}
		if !l.publication.shows(unacked.patchID, l.scaler.desired) && l.mustWait(unacked.reportedAt.Add(reportTimeout), now) {
			continue
		}
		if l.mustWait(latest(unacked.retryAt, l.polls.deleteNotBefore), now) {
			continue
		}
		unacked.underWay = true
		l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
			err := session.DeleteMessage(ctx, messageID)
			return func() { l.deleted(session, messageID, unacked, err) }
		})
	}
}

// kept returns the newest messages that stay because of their offers, at most maxKeptMessages, and never the message that
// polls wait for.
func (l *loop) kept() []int64 {
	var kept []int64
	for messageID, unacked := range l.polls.unacked {
		if !unacked.underWay && messageID != l.polls.waitForID && l.keeps(unacked) {
			kept = append(kept, messageID)
		}
	}
	slices.Sort(kept)
	return kept[max(0, len(kept)-maxKeptMessages):]
}

// keeps reports whether a message has offers that would be lost if it were deleted and this process were killed: offers that are
// being acquired, or that wait while the service has not shown that it can list them.
func (l *loop) keeps(unacked *unackedMessage) bool {
	return slices.ContainsFunc(unacked.message.JobsAvailable, func(job actions.JobAvailable) bool {
		id := job.RunnerRequestID
		return slices.Contains(l.offers.underWay, id) || !l.offers.search.answered && slices.Contains(l.offers.waiting, id)
	})
}

// deleted handles the result of a deletion. A message that could not be deleted within reportTimeout is forgotten as well: it
// is delivered again in the next session, and handling it twice does no harm. A lost session may be noticed only here, because
// no poll goes out while there are maxUnackedMessages.
func (l *loop) deleted(session Session, messageID int64, unacked *unackedMessage, err error) {
	now := l.clock.Now()
	unacked.underWay = false
	if err != nil && session == l.session.current {
		l.polls.deleteNotBefore = latest(l.polls.deleteNotBefore, now.Add(untilAllowed(err, now)))
		if reason, _ := explain(err); reason == reasonSessionLost {
			l.sessionLost(now)
		}
	}
	if err != nil && !l.deletionExpired(unacked, now) {
		unacked.retryAt = latest(now.Add(unacked.backoff.next()), l.polls.deleteNotBefore)
		l.log.V(1).Info("Message could not be deleted, trying again", "messageID", messageID, "cause", err.Error(), "at", unacked.retryAt)
		return
	}
	l.forgetMessage(messageID, unacked, err)
}

// deletionExpired reports whether a message has waited for its deletion for reportTimeout, or will have when GitHub allows
// deletions again. The latter counts only while no poll goes out because there are maxUnackedMessages.
func (l *loop) deletionExpired(unacked *unackedMessage, now time.Time) bool {
	full := len(l.polls.unacked) >= maxUnackedMessages
	return now.Sub(unacked.reportedAt) >= reportTimeout || full && l.polls.deleteNotBefore.Sub(unacked.reportedAt) >= reportTimeout
}

// forgetMessage forgets a message that was deleted or, if err is not nil, could not be.
func (l *loop) forgetMessage(messageID int64, unacked *unackedMessage, err error) {
	if err != nil {
		l.log.Error(err, "Message could not be deleted and will come again", "messageID", messageID)
		l.polls.forgotten = append(l.polls.forgotten, unacked)
		l.polls.forgotten = l.polls.forgotten[max(0, len(l.polls.forgotten)-maxUnackedMessages):]
	}
	if l.polls.unacked[messageID] == unacked { // another message may have the same ID by now
		delete(l.polls.unacked, messageID)
	}
}

// recall reports whether message is a forgotten message that was delivered again, and removes it from forgotten.
func (p *polls) recall(message *actions.Message) bool {
	before := len(p.forgotten)
	p.forgotten = slices.DeleteFunc(p.forgotten, func(u *unackedMessage) bool { return u.isFor(message) })
	return len(p.forgotten) < before
}
