package listener

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// errDeletionsPaused is why GitHub is not even asked to delete a message.
var errDeletionsPaused = errors.New("GitHub takes no deletions for longer than a message waits for its own")

// unackedMessage is a message that was received and not yet deleted. Deleting a message acknowledges it: a message that
// is not deleted is delivered again in the next session.
type unackedMessage struct {
	message *actions.Message
	// patchID is that of the statistics which it came with, or of the next ones.
	patchID int
	// reportedAt is when the last of its reports was written or given up, zero before.
	reportedAt time.Time
	underWay   bool
	retryAt    time.Time
	backoff    backoff
}

// isFor reports whether message is the one waiting to be deleted, not another that the service gave the same ID.
func (u *unackedMessage) isFor(message *actions.Message) bool {
	if u == nil {
		return false
	}
	before, now := *u.message, *message
	before.Statistics, now.Statistics = nil, nil // each delivery carries the statistics of its own moment
	return reflect.DeepEqual(before, now)
}

// sendReports hands the reports of the messages taken to the reporter, but not while a publication is under way: the end of
// a job is reported to its runner only after the set has got the count that goes with it, so that no slot is freed early.
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

// deleteMessages starts to delete the messages whose effects are in the API server: reports are done and the count is published.
// Some stay because of their offers; see kept.
func (l *loop) deleteMessages(now time.Time) {
	session := l.session.current
	kept := l.kept()
	for messageID, unacked := range l.polls.unacked {
		if session == nil || unacked.reportedAt.IsZero() || unacked.underWay {
			continue
		}
		if slices.Contains(kept, messageID) {
			unacked.reportedAt = now // it may be deleted from now on at the earliest
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

// kept returns the newest messages that stay because of their offers, at most maxKeptMessages. One that keeps polls waiting is
// none of them.
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

// keeps reports whether a message has offers that would be lost if it were deleted and this process were killed: they are being
// acquired, or they wait and the service has not shown that it can list them.
func (l *loop) keeps(unacked *unackedMessage) bool {
	return slices.ContainsFunc(unacked.message.JobsAvailable, func(job actions.JobAvailable) bool {
		id := job.RunnerRequestID
		return slices.Contains(l.offers.underWay, id) || !l.offers.search.answered && slices.Contains(l.offers.waiting, id)
	})
}

// deleted takes the result of a deletion. A message that could not be deleted within reportTimeout is forgotten as well: it
// is delivered again in the next session, and handling it twice does no harm. That a session is lost may show here only: no
// poll goes out while there are maxUnackedMessages.
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

// recall reports whether message is a forgotten one that has come again, which then is forgotten no longer.
func (p *polls) recall(message *actions.Message) bool {
	before := len(p.forgotten)
	p.forgotten = slices.DeleteFunc(p.forgotten, func(u *unackedMessage) bool { return u.isFor(message) })
	return len(p.forgotten) < before
}
