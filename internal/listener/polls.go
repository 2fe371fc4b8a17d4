package listener

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// entriesPerMessage is the most a message has: one that is full has a successor waiting.
	entriesPerMessage = 50
	// messagesUnderWay bounds what a crash makes the service deliver again, and the memory that reports take: with 50 entries
	// of 1 KiB each, 2.5 MiB. Offers and statistics come behind, so it is more than reports need that keep up.
	messagesUnderWay = 50
	// gatherTime after a message about started and completed jobs only, the next poll goes out: the service fills
	// messages meanwhile, and nothing waits for these.
	gatherTime = 200 * time.Millisecond
	// pollLimit ends a poll: one attempt, a renewal of the queue token, one more attempt.
	pollLimit = 2*actions.PollTimeout + actions.CallTimeout
	// sessionPatience is how long polls of one session may get nothing but useless answers before another session is tried: it may
	// be this one that GitHub can't serve any more, and another costs two calls.
	sessionPatience = 2 * time.Minute
)

// polls is the state of the message queue.
type polls struct {
	// lastID is the last message received in this session. The next session begins at 0: a service that was restored from a
	// backup may count anew, and what was not deleted is known when it comes again.
	lastID   int64
	underWay bool
	// stop ends the poll under way, which asks for so much capacity; renewed says that it was ended for a greater one.
	stop     context.CancelFunc
	capacity int
	renewed  bool
	// notBefore is when the next poll may go out.
	notBefore time.Time
	// underReport holds the messages that are on their way: received and not deleted.
	underReport map[int64]*deletion
	// waitFor is a message under report that the service delivered again: until it is deleted there is no use polling.
	waitFor int64
	// deleteFrom is until when GitHub wants no message deleted.
	deleteFrom time.Time
	backoff    backoff
	// uselessSince is since when this session's polls get useless answers, zero for not; doubted says that another one's did
	// before, and that none went well since.
	uselessSince time.Time
	doubted      bool
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
func (p *polls) opened(now time.Time) {
	p.notBefore, p.uselessSince, p.waitFor, p.lastID = now, time.Time{}, 0, 0
}

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
	if p.underWay && l.capacity() > p.capacity && !p.renewed {
		// The service gives no more than the poll asked for, and may hold it for a minute.
		p.renewed = true
		p.cancel()
	}
	if session == nil || p.underWay || l.stopping || p.blocked() || l.later(p.notBefore, now) {
		return
	}
	p.underWay, p.renewed = true, false
	lastID, capacity := p.lastID, l.capacity()
	p.capacity = capacity
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
	if p.renewed && errors.Is(err, context.Canceled) {
		p.notBefore = begun.Add(gatherTime)
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
	p.losses, p.uselessSince, p.doubted = 0, time.Time{}, false
	l.health.polled(now)
	l.metrics.Polled(now)
	if message == nil {
		// A service that answers at once although it has nothing is asked at the pace of gatherTime.
		p.notBefore = begun.Add(gatherTime)
		l.refreshing.at, l.refreshing.quiet = now, now.Sub(begun) >= publishInterval
		return
	}
	l.refreshing.quiet = false
	l.take(message, now)
}

func (l *loop) pollFailed(err error, now time.Time) {
	p := &l.polls
	reason, err := explain(err)
	p.trouble = p.trouble.again(reason, err, now)
	p.notBefore = now.Add(max(p.backoff.next(), untilAllowed(err, now)))
	p.noteUse(err, now)
	l.refreshing.quiet = false
	l.log.Error(err, "Poll failed, trying again", "reason", reason, "at", p.notBefore)
	switch reason {
	case reasonSessionLost:
		l.sessionLost(now)
	case v1alpha1.ReasonScaleSetNotFound:
		l.replaceSession(now)
	case v1alpha1.ReasonUnauthorized:
		l.readConfig()        // there may be new credentials already
		l.replaceSession(now) // a queue token that was renewed and refused again is a sign of a session that is gone
	case v1alpha1.ReasonGitHubUnavailable, v1alpha1.ReasonSessionConflict, reasonMalformedMessage:
		tooLong := !p.uselessSince.IsZero() && now.Sub(p.uselessSince) >= sessionPatience
		p.doubted = p.doubted || tooLong
		if tooLong || rejected(err) {
			l.replaceSession(now)
		}
	}
}

// replaceSession has a new session opened when the next poll would be due, unless a new configuration has one opened anyway.
func (l *loop) replaceSession(now time.Time) {
	if l.link.session == nil {
		return
	}
	l.lose(now)
	l.link.retryAt = l.polls.notBefore
}

// rejected says that GitHub wants no poll of this kind and another will not do better: what a service answers when it has
// ended a session is written nowhere, and a new session costs little. 408 is a proxy's word about a poll that was held.
func rejected(err error) bool {
	var answer *actions.Error
	return errors.As(err, &answer) && answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusRequestTimeout &&
		!errors.Is(err, actions.ErrForeignAnswer)
}

// noteUse notes since when answers are useless.
func (p *polls) noteUse(err error, now time.Time) {
	switch {
	case !useless(err):
		p.uselessSince = time.Time{}
	case p.uselessSince.IsZero():
		p.uselessSince = now
	}
}

// useless says that GitHub itself answered, and nothing that a poll can be answered with: an error of its own, or what can't be read. A
// proxy or gateway on the way, and a limit, say nothing about the session.
func useless(err error) bool {
	var answer *actions.Error
	var unexpected *actions.UnexpectedResponseError
	var malformed *actions.MalformedMessageError
	switch {
	case errors.Is(err, actions.ErrForeignAnswer) || isNetworkError(err):
		return false
	case errors.As(err, &answer):
		return answer.StatusCode == http.StatusInternalServerError || answer.StatusCode == http.StatusNotImplemented
	}
	return errors.As(err, &unexpected) || errors.As(err, &malformed)
}

func isNetworkError(err error) bool {
	var network *actions.NetworkError
	return errors.As(err, &network)
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
	askedFor := message.ID > p.lastID
	p.lastID = max(p.lastID, message.ID)
	p.notBefore = now
	if !urgent(message) {
		p.notBefore = now.Add(gatherTime)
	}
	l.refreshing.at = now.Add(settleTime)
	again := p.underReport[message.ID].isFor(message)
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
		if !askedFor { // else it is what a new session begins with, and the next poll asks for what follows
			p.waitFor = message.ID
		}
		return
	}
	for _, kind := range message.Unknown {
		l.log.Info("Message has an entry of unknown type, ignored", "messageID", message.ID, "type", kind)
		l.metrics.Dropped("UnknownType")
	}
	left := &deletion{message: message, backoff: backoff{first: firstPause, most: longestPause}}
	p.underReport[message.ID] = left
	l.untold = append(l.untold, delivery{left, reportsOf(message, reflected, now)})
}

// urgent says that the next poll should go out at once: jobs wait, or more messages do.
func urgent(message *actions.Message) bool {
	return len(message.JobsAvailable) > 0 || len(message.JobsAssigned) > 0 || message.Entries >= entriesPerMessage
}
