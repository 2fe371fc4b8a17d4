package listener

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// maxMessageEntries is how many entries a message has at most. After a full message the next one is already waiting.
	maxMessageEntries = 50
	// maxUnackedMessages bounds what the service redelivers after a crash, and the memory that reports take: with 50 entries of
	// 1 KiB each, 2.5 MiB. Once it is reached, no poll goes out, and offers and statistics wait too. So it is more than reports need
	// while the API server keeps up.
	maxUnackedMessages = 50
	// maxKeptMessages is how many messages are kept until their offers are acquired. The other half is for messages whose reports
	// take time, so that offers never keep polls waiting.
	maxKeptMessages = maxUnackedMessages / 2
	// heldAtLeast is the shortest time after which a poll counts as held by the service. GitHub holds a poll for pollHoldPeriod;
	// proxies end one after half a minute or more.
	heldAtLeast = 10 * time.Second
	// pollTimeout ends a poll. It covers one attempt, a renewal of the queue token, and one more attempt.
	pollTimeout = 2*actions.PollTimeout + actions.CallTimeout
	// replaceSessionAfter is how long a session is kept whose polls get only useless answers, or none although the service answers
	// other calls. GitHub may have lost the session, or moved its queue, whose address comes with the session. A new session costs
	// two calls.
	replaceSessionAfter = 2 * time.Minute
)

// polls is the state of the message queue.
type polls struct {
	// lastID is the highest ID of a message received in this session. A new session begins at 0: a service restored from a
	// backup may count from the start, and unacked shows which messages are redelivered.
	lastID   int64
	underWay bool
	// stop ends the poll under way.
	stop context.CancelFunc
	// capacity is the capacity that the poll under way carries. renewed is set if that poll was ended because it has changed.
	capacity int
	renewed  bool
	// notBefore is when the next poll may go out.
	notBefore time.Time
	// unacked holds the messages that were received and are not yet deleted, by ID.
	unacked map[int64]*unackedMessage
	// forgotten are the last messages that could not be deleted, at most maxUnackedMessages. They are delivered and handled
	// again, but their jobs are not counted again.
	forgotten []*unackedMessage
	// waitForID is an unacked message that the service redelivered although the poll asked for later ones: until it is
	// deleted, every poll would return it again.
	waitForID int64
	// deleteNotBefore is until when GitHub accepts no deletions.
	deleteNotBefore time.Time
	gathering       gathering
	backoff         backoff
	// unreadable paces polls while one message after the other can't be read, which a queue of nothing else delivers at once.
	unreadable backoff
	// unanswered is set if the last poll was held and then ended without an answer.
	unanswered bool
	// unreached is set if the last poll did not reach the queue.
	unreached bool
	// firstUselessAt is when the first of this session's useless polls in a row ended, zero if the last was not useless.
	firstUselessAt time.Time
	// doubted is set from the replacement of a session because of useless answers until the next good poll.
	doubted bool
	// losses counts the sessions lost since the last good poll.
	losses int
	// failure is why the last poll failed, nil if it did not.
	failure *failure
}

func (p *polls) cancel() {
	if p.stop != nil {
		p.stop()
	}
}

// opened prepares for the polls of a new session.
func (p *polls) opened(now time.Time) {
	p.notBefore, p.firstUselessAt, p.waitForID, p.lastID = now, time.Time{}, 0, 0
}

// blocked reports whether the next poll must wait for the deletion of unacked messages.
func (p *polls) blocked() bool {
	if _, waiting := p.unacked[p.waitForID]; waiting {
		return true
	}
	return len(p.unacked) >= maxUnackedMessages
}

// poll starts the next poll if one may go out.
func (l *loop) poll(now time.Time) {
	p := &l.polls
	session := l.session.current
	if p.underWay && l.capacity() != p.capacity && !p.renewed {
		// The service assigns as many jobs as the capacity of the poll allows, and may hold the poll for a minute. The capacity changes
		// with maxRunners; only in a set that can't run as many it changes with the number of running jobs too.
		p.renewed = true
		p.cancel()
	}
	if session == nil || p.underWay || l.stopping || !l.takesJobs() || p.blocked() || l.mustWait(p.notBefore, now) {
		return
	}
	p.underWay, p.renewed = true, false
	lastID, capacity := p.lastID, l.capacity()
	p.capacity = capacity
	p.stop = l.runAsync(pollTimeout, func(ctx context.Context) func() {
		message, err := session.GetMessage(ctx, lastID, capacity)
		return func() { l.polled(session, message, err, now) }
	})
}

// polled handles the answer to a poll. It ignores an answer in a session that is no longer held: the message is redelivered.
func (l *loop) polled(session Session, message *actions.Message, err error, begun time.Time) {
	now := l.clock.Now()
	p := &l.polls
	p.underWay = false
	if session != l.session.current || l.stopping && err != nil {
		return
	}
	if p.renewed && errors.Is(err, context.Canceled) {
		p.notBefore = begun.Add(gatherPeriod)
		return
	}
	malformed, ok := errors.AsType[*actions.MalformedMessageError](err)
	unreadable := ok && malformed.MessageID != 0
	if unreadable {
		l.log.Error(err, "Malformed message, using what could be read and deleting it", "messageID", malformed.MessageID)
		l.metrics.Dropped(reasonMalformedMessage)
		message, err = malformed.Message, nil
		l.offers.search.again(false) // the unreadable part may be offers
	}
	switch {
	case endedWhileHeld(err, now.Sub(begun)):
		l.pollUnanswered(err, now)
		return
	case err != nil:
		l.pollFailed(err, now)
		return
	}
	l.pollSucceeded(now)
	if !unreadable {
		p.unreadable.reset()
	}
	if message == nil {
		// A service that answers at once even if it has no message is polled once per gatherPeriod.
		p.notBefore = begun.Add(gatherPeriod)
		l.refreshing.dueAt = now
		l.refreshing.emptyPoll(begun, now)
		return
	}
	l.refreshing.otherPoll()
	p.gathering.received(message, now.Sub(begun) < gatherPeriod)
	l.take(message, now)
	if unreadable {
		p.notBefore = now.Add(p.unreadable.next())
	}
}

func (l *loop) pollSucceeded(now time.Time) {
	p := &l.polls
	p.failure, p.unanswered, p.unreached = nil, false, false
	p.backoff.reset()
	p.losses, p.firstUselessAt, p.doubted = 0, time.Time{}, false
	l.health.polled(now)
	l.metrics.Polled(now)
}

// pollUnanswered handles a poll that ended without an answer while it was held: the next poll goes out at once, and the statistics
// are read as after an empty poll. If they can be read, GitHub is within reach, and the poll counts as a good one.
func (l *loop) pollUnanswered(err error, now time.Time) {
	p := &l.polls
	reason, err := explain(err)
	p.failure, p.unanswered, p.unreached = p.failure.next(reason, err, now), true, false
	p.backoff.reset()
	p.notBefore, p.firstUselessAt = now, time.Time{}
	l.refreshing.dueAt = now
	l.refreshing.otherPoll()
	l.log.Info("Poll ended without an answer while it was held, polling again", "reason", reason, "cause", err.Error())
}

// endedWhileHeld reports whether a poll reached the service and was ended by a proxy, the network or its own deadline. A failure to
// connect does not count, however long it took.
func endedWhileHeld(err error, took time.Duration) bool {
	if took < heldAtLeast {
		return false
	}
	if answer, ok := errors.AsType[*actions.Error](err); ok {
		statuses := []int{http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout}
		return answer.Endpoint == actions.EndpointGetMessage && slices.Contains(statuses, answer.StatusCode)
	}
	network, ok := errors.AsType[*actions.NetworkError](err)
	if !ok || network.Endpoint != actions.EndpointGetMessage {
		return false
	}
	_, timedOut := errors.AsType[*actions.TimeoutError](err)
	return timedOut || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

func (l *loop) pollFailed(err error, now time.Time) {
	p := &l.polls
	reason, err := explain(err)
	p.failure, p.unanswered = p.failure.next(reason, err, now), false
	p.notBefore = now.Add(max(p.backoff.next(), untilAllowed(err, now)))
	p.noteUse(err, now)
	l.refreshing.otherPoll()
	l.log.Error(err, "Poll failed, trying again", "reason", reason, "at", p.notBefore)
	if isRefusal(reason) {
		l.readConfig()        // there may be new credentials already
		l.replaceSession(now) // a queue token that is refused after its renewal suggests that the session is gone
		return
	}
	switch reason {
	case reasonSessionLost:
		l.sessionLost(now)
	case v1alpha1.ReasonScaleSetNotFound, v1alpha1.ReasonSessionConflict, v1alpha1.ReasonRefusedByGitHub:
		l.replaceSession(now) // how a service answers after it has ended a session is not documented, and a new session costs little
	case v1alpha1.ReasonGitHubUnavailable, v1alpha1.ReasonTimeout, reasonMalformedMessage:
		l.refreshing.dueAt = now // shows whether anything can be reached; the count must follow demand while the queue is away
		if !p.firstUselessAt.IsZero() && now.Sub(p.firstUselessAt) >= replaceSessionAfter {
			p.doubted = true
			l.replaceSession(now)
		}
	}
}

// replaceSession drops the session, so that a new one is opened when the next poll would be due. If no session is held, one is being
// opened already, after a change of the configuration.
func (l *loop) replaceSession(now time.Time) {
	if l.session.current == nil {
		return
	}
	l.dropSession(now)
	l.session.retryAt = l.polls.notBefore
}

// noteUse notes whether a failed poll was useless. If it did not reach the queue, the next read of the statistics decides.
func (p *polls) noteUse(err error, now time.Time) {
	if p.unreached = isNetworkError(err); !p.unreached {
		p.noteUseless(useless(err), now)
	}
}

// noteUseless notes when useless polls began, or that they have ended.
func (p *polls) noteUseless(useless bool, now time.Time) {
	switch {
	case !useless:
		p.firstUselessAt = time.Time{}
	case p.firstUselessAt.IsZero():
		p.firstUselessAt = now
	}
}

// useless reports whether GitHub itself answered a poll with an internal error or with content that can't be read. Answers from a
// proxy or gateway on the way, and rate limits, say nothing about the session.
func useless(err error) bool {
	if errors.Is(err, actions.ErrForeignAnswer) || isNetworkError(err) {
		return false
	}
	if answer, ok := errors.AsType[*actions.Error](err); ok {
		return answer.StatusCode == http.StatusInternalServerError || answer.StatusCode == http.StatusNotImplemented
	}
	_, unexpected := errors.AsType[*actions.UnexpectedResponseError](err)
	_, malformed := errors.AsType[*actions.MalformedMessageError](err)
	return unexpected || malformed
}

func isNetworkError(err error) bool {
	_, is := errors.AsType[*actions.NetworkError](err)
	return is
}

// sessionLost drops the session. The next one is opened at once, however many polls failed before GitHub said that the session is
// lost; after further losses without a good poll in between, at the pace of failed polls.
func (l *loop) sessionLost(now time.Time) {
	p := &l.polls
	l.dropSession(now)
	if p.losses++; p.losses == 1 {
		return
	}
	if !p.notBefore.After(now) {
		p.notBefore = now.Add(p.backoff.next())
	}
	l.session.retryAt = p.notBefore
}

// take updates the loop's state from a message. The loop then starts whatever takes time, in its own order.
func (l *loop) take(message *actions.Message, now time.Time) {
	p := &l.polls
	askedFor := message.ID > p.lastID
	p.lastID = max(p.lastID, message.ID)
	p.notBefore = now
	if p.gathering.waits {
		p.notBefore = now.Add(gatherPeriod)
	}
	l.refreshing.dueAt = now.Add(refreshAfter)
	redelivered := p.unacked[message.ID].isFor(message)
	if !redelivered {
		l.scaler.remember(message, now)
		l.offers.update(message)
		if !p.recall(message) {
			l.metrics.Message(message)
		}
	}
	reflected := l.scaler.desired.PatchID + 1 // the patchID of the next statistics, in this message or later
	if message.Statistics != nil {
		l.observe(message.Statistics, now)
	} else {
		l.refreshing.dueAt = now
	}
	if redelivered {
		if !askedFor { // otherwise a new session begins with it, and the next poll asks for later ones
			p.waitForID = message.ID
		}
		return
	}
	for _, kind := range message.Unknown {
		l.log.Info("Message has an entry of unknown type, ignoring it", "messageID", message.ID, "type", kind)
		l.metrics.Dropped("UnknownType")
	}
	unacked := &unackedMessage{message: message, patchID: reflected, backoff: backoff{initial: initialPause, max: maxPause}}
	p.unacked[message.ID] = unacked
	l.unsent = append(l.unsent, delivery{unacked, reportsOf(message, reflected, now)})
}
