package listener

import (
	"context"
	"errors"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// entriesPerMessage is the most a message has: one that is full has a successor waiting.
	entriesPerMessage = 50
	// messagesUnderWay bounds what a crash makes the service deliver again, and the memory that reports take.
	messagesUnderWay = 8
	// gatherTime after a message about started and completed jobs only, the next poll goes out: the service fills
	// messages meanwhile, and nothing waits for these.
	gatherTime = 200 * time.Millisecond
	// pollLimit ends a poll: one attempt, a renewal of the queue token, one more attempt.
	pollLimit = 2*actions.PollTimeout + actions.CallTimeout
)

// polls is the state of the message queue.
type polls struct {
	// lastID is the last message received; it outlives sessions.
	lastID   int64
	underWay bool
	// stop ends the poll under way.
	stop context.CancelFunc
	// notBefore is when the next poll may go out.
	notBefore time.Time
	// underReport holds the messages that are on their way: received and not deleted.
	underReport map[int64]*deletion
	// waitFor is a message under report that the service delivered again: until it is deleted there is no use polling.
	waitFor int64
	backoff backoff
	// losses counts the sessions lost since a poll went well.
	losses  int
	trouble *trouble
}

func (p *polls) cancel() {
	if p.stop != nil {
		p.stop()
	}
}

// opened starts a new session's polling.
func (p *polls) opened(now time.Time) { p.notBefore, p.waitFor = now, 0 }

// blocked says that messages under report have to go before the next poll.
func (p *polls) blocked() bool {
	if _, waiting := p.underReport[p.waitFor]; waiting {
		return true
	}
	return len(p.underReport) >= messagesUnderWay
}

// poll starts the next poll if one may go out.
func (l *loop) poll(now time.Time) {
	p := &l.polls
	session := l.link.session
	if session == nil || p.underWay || l.stopping || p.blocked() || l.later(p.notBefore, now) {
		return
	}
	p.underWay = true
	lastID, capacity := p.lastID, l.capacity()
	p.stop = l.beside(pollLimit, func(ctx context.Context) func() {
		message, err := session.GetMessage(ctx, lastID, capacity)
		return func() { l.polled(session, message, err, now) }
	})
}

// polled takes a poll's answer. What a session brings that is not held any more is let go: it comes again.
func (l *loop) polled(session Session, message *actions.Message, err error, begun time.Time) {
	now := l.clock.Now()
	p := &l.polls
	p.underWay = false
	if session != l.link.session || l.stopping && err != nil {
		return
	}
	var malformed *actions.MalformedMessageError
	if errors.As(err, &malformed) && malformed.MessageID != 0 {
		l.log.Error(err, "Malformed message, using what could be read and deleting it", "messageID", malformed.MessageID)
		l.metrics.Dropped(reasonMalformedMessage)
		message, err = malformed.Message, nil
	}
	if err != nil {
		l.pollFailed(err, now)
		return
	}
	p.trouble = nil
	p.backoff.reset()
	p.losses = 0
	l.health.polled(now)
	l.metrics.Polled(now)
	if message == nil {
		// A service that answers at once although it has nothing is asked at the pace of gatherTime.
		p.notBefore = begun.Add(gatherTime)
		l.refreshing.at = now
		return
	}
	l.take(message, now)
}

func (l *loop) pollFailed(err error, now time.Time) {
	p := &l.polls
	reason, err := explain(err)
	p.trouble = p.trouble.again(reason, err, now)
	p.notBefore = now.Add(max(p.backoff.next(), untilAllowed(err, now)))
	l.log.Error(err, "Poll failed, trying again", "reason", reason, "at", p.notBefore)
	switch reason {
	case reasonSessionLost:
		l.sessionLost(now)
	case v1alpha1.ReasonScaleSetNotFound:
		l.lose(now)
		l.link.retryAt = p.notBefore
	case v1alpha1.ReasonUnauthorized:
		l.readConfig() // there may be new credentials already
		if l.link.session != nil {
			// A queue token that was renewed and refused again is a sign of a session that is gone.
			l.lose(now)
			l.link.retryAt = p.notBefore
		}
	}
}

// sessionLost opens the next session: at once, however many polls have failed before GitHub said so, but one that is lost
// again and again at the pace of failed polls.
func (l *loop) sessionLost(now time.Time) {
	p := &l.polls
	l.lose(now)
	if p.losses++; p.losses == 1 {
		return
	}
	if !p.notBefore.After(now) {
		p.notBefore = now.Add(p.backoff.next())
	}
	l.link.retryAt = p.notBefore
}

// take does the work for a message. What takes time is started by the loop afterwards, in its order.
func (l *loop) take(message *actions.Message, now time.Time) {
	p := &l.polls
	p.lastID = max(p.lastID, message.ID)
	p.notBefore = now
	if !urgent(message) {
		p.notBefore = now.Add(gatherTime)
	}
	l.refreshing.at = now.Add(settleTime)
	_, again := p.underReport[message.ID]
	if !again {
		l.scaler.remember(message, now)
		l.offers.update(message)
		l.metrics.Message(message)
	}
	reflected := l.scaler.desired.PatchID + 1 // the number of the next statistics, be they this message's or not
	if message.Statistics != nil {
		l.observe(message.Statistics, now)
	} else {
		l.refreshing.at = now
	}
	if again {
		p.waitFor = message.ID
		return
	}
	for _, kind := range message.Unknown {
		l.log.Info("Message has an entry of unknown type, ignored", "messageID", message.ID, "type", kind)
		l.metrics.Dropped("UnknownType")
	}
	left := &deletion{backoff: backoff{first: firstPause, most: longestPause}}
	p.underReport[message.ID] = left
	l.untold = append(l.untold, delivery{left, reportsOf(message, reflected, now)})
}

// urgent says that the next poll should go out at once: jobs wait, or more messages do.
func urgent(message *actions.Message) bool {
	return len(message.JobsAvailable) > 0 || len(message.JobsAssigned) > 0 || message.Entries >= entriesPerMessage
}
