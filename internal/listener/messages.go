package listener

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/reports"
)

// errDeletionsPaused is the failure of a message that is forgotten without an attempt to delete it.
var errDeletionsPaused = errors.New("GitHub accepts no deletions for longer than a message waits to be deleted")

// take updates the loop's state from a message. The loop then starts whatever takes time, in the order of step.
func (l *loop) take(message *actions.Message, now time.Time) {
	l.refreshing.dueAt = now.Add(refreshInterval)
	underWay, counted := l.messages.Receive(message)
	if !underWay {
		l.scaler.Remember(message, now)
		l.offers.Update(message)
		l.waiting.Update(message, now)
	}
	if !counted {
		l.metrics.Message(message)
	}
	reflected := l.scaler.Desired.PatchID + 1 // the patchID of the next statistics, in this message or later
	if message.Statistics != nil {
		l.observe(message.Statistics, now)
	} else {
		l.refreshing.dueAt = now
	}
	if underWay {
		return
	}
	for _, kind := range message.Unknown {
		l.log.Info("Message has an entry of unknown type, ignoring it", "messageID", message.ID, "type", kind)
		l.metrics.Dropped("UnknownType")
	}
	if len(message.JobsCompleted) > 0 {
		l.publication.owed = reflected
	}
	l.unsent = append(l.unsent, unsentReports{
		l.messages.Enqueue(message, reflected, errand.New(firstBackoff, longestBackoff)),
		reports.Of(message, reflected, now),
	})
}

// sendReports hands the reports of new messages to the reporter, but not while a publication is under way: the end of a
// job is reported to its runner only after the set has the count that goes with it, so that no slot is freed early.
func (l *loop) sendReports() {
	if l.publication.UnderWay {
		return
	}
	for _, unsent := range l.unsent {
		wait := l.reporter.Deliver(l.work, unsent.reports)
		l.runAsync(0, func(context.Context) func() {
			done := wait()
			return func() {
				if done {
					unsent.message.ReportedAt = l.clock.Now()
				}
			}
		})
	}
	l.unsent = nil
}

// deleteMessages starts to delete the messages whose effects are in the API server: their reports are done and the
// count is published. A message also waits while its offers are being acquired, or would be lost with this process.
func (l *loop) deleteMessages(now time.Time) {
	session := l.session.current
	if session == nil {
		return
	}
	p, allowedAt := &l.publication, l.messages.DeletionsAllowedAt
	kept := l.messages.Kept(l.offers.WouldBeLost)
	for _, m := range l.messages.Unacked {
		// Either the count that goes with the message was published, or the one published last is wanted.
		published := !p.lastAt.IsZero() && (p.last.PatchID >= m.PatchID || p.last.Replicas == l.scaler.Desired.Replicas)
		switch {
		case m.ReportedAt.IsZero(), m.UnderWay, l.offers.Acquires(m.Message):
			continue
		case slices.Contains(kept, m.ID):
			m.ReportedAt = now // the time to delete it begins when it is no longer kept
			continue
		case allowedAt.After(now) && l.messages.Expired(m, now):
			l.giveUpDeletion(m, errDeletionsPaused)
			continue
		case !published && l.mustWait(m.ReportedAt.Add(queue.DeletionTimeout), now),
			l.mustWait(latest(m.NotBefore, allowedAt), now):
			continue
		}
		m.Begin()
		l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
			err := session.DeleteMessage(ctx, m.ID)
			return func() { l.deleted(session == l.session.current, m, err) }
		})
	}
}

// deleted handles the result of a deletion. A message that could not be deleted within queue.DeletionTimeout is
// forgotten as well: it is delivered again in the next session, and handling it twice does no harm. A lost session may
// be noticed only here, because no poll goes out while there are queue.MaxUnacked messages.
func (l *loop) deleted(inSession bool, m *queue.Message, err error) {
	m.End()
	if err == nil {
		l.messages.Remove(m, true)
		return
	}
	now := l.clock.Now()
	if inSession {
		l.messages.DeletionsAllowedAt = latest(l.messages.DeletionsAllowedAt, m.AllowedAt(err, now))
		if _ = m.Fail(err, now); m.Failure.Reason == failure.ReasonSessionLost {
			l.sessionLost(now)
		}
	} else {
		m.Pause(now)
	}
	if l.messages.Expired(m, now) {
		l.giveUpDeletion(m, err)
		return
	}
	l.log.V(1).Info(
		"Message could not be deleted, trying again", "messageID", m.ID, "cause", err.Error(), "at", m.NotBefore,
	)
}

// giveUpDeletion forgets a message that could not be deleted.
func (l *loop) giveUpDeletion(m *queue.Message, err error) {
	l.log.Error(err, "Message could not be deleted and will come again", "messageID", m.ID)
	l.messages.Remove(m, false)
}
