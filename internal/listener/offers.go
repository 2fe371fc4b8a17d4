package listener

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// acquireLimit ends an attempt to acquire jobs. The offers stay and are tried again.
const acquireLimit = 10 * time.Second

// longestSearchPause is between questions for open offers: a service may have the call and never an answer.
const longestSearchPause = time.Minute

// offers are jobs that GitHub offered and we did not acquire yet, oldest first, by request id.
type offers struct {
	waiting []int64
	// underWay are being acquired; an offer of one of them is no news.
	underWay []int64
	// singly is how many of the first are asked for one by one, because all together were refused.
	singly  int
	retryAt time.Time
	backoff backoff
	// trouble is why they are not acquired, nil when nothing is in the way.
	trouble *trouble
	// search is for offers made while nobody listened.
	search search
}

// search is a question that is asked until it is answered, once per session.
type search struct {
	// session is the one it is asked for; nil when it needs no asking any more.
	session  Session
	underWay bool
	at       time.Time
	backoff  backoff
}

func (o *offers) add(requestID int64) {
	if !slices.Contains(o.waiting, requestID) && !slices.Contains(o.underWay, requestID) {
		o.waiting = append(o.waiting, requestID)
	}
}

func (o *offers) drop(requestID int64) {
	o.waiting = slices.DeleteFunc(o.waiting, func(id int64) bool { return id == requestID })
}

// update adds what a message offers and drops what it shows to be taken.
func (o *offers) update(message *actions.Message) {
	for _, job := range message.JobsAvailable {
		o.add(job.RunnerRequestID)
	}
	for _, job := range message.JobsAssigned {
		o.drop(job.RunnerRequestID)
	}
	for _, job := range message.JobsCompleted {
		o.drop(job.RunnerRequestID)
	}
}

// take moves up to room offers under way.
func (o *offers) take(room int) []int64 {
	count := max(0, min(room, len(o.waiting)))
	if o.singly > 0 {
		count = min(count, 1)
	}
	o.underWay = slices.Clone(o.waiting[:count])
	o.waiting = slices.Delete(o.waiting, 0, count)
	return o.underWay
}

// putBack returns what could not be asked for to the front.
func (o *offers) putBack() {
	o.waiting = append(o.underWay, o.waiting...)
	o.underWay = nil
}

// settle ends what was asked for, whatever became of it.
func (o *offers) settle() {
	o.singly = max(0, o.singly-len(o.underWay))
	o.underWay, o.trouble = nil, nil
	o.backoff.reset()
}

// refused deals with a request of which one offer is wrong: those that were asked for together are asked for one by one, and
// one alone is dropped.
func (o *offers) refused() (dropped bool) {
	if len(o.underWay) == 1 {
		o.settle()
		return true
	}
	o.singly = len(o.underWay)
	o.putBack()
	return false
}

// acquireJobs starts to acquire as many offered jobs as there is room for, which without statistics nobody knows. What the answer leaves out is dropped: it is
// somebody else's, or ours by an answer that was lost, and then statistics will count it.
func (l *loop) acquireJobs(now time.Time) {
	session := l.link.session
	if len(l.offers.waiting) == 0 && l.offers.underWay == nil {
		l.offers.trouble = nil // others have them
	}
	if session == nil || !l.scaler.known() || l.offers.underWay != nil || len(l.offers.waiting) == 0 || l.later(l.offers.retryAt, now) {
		return
	}
	requestIDs := l.offers.take(l.scaler.room(l.capacity()))
	if len(requestIDs) == 0 {
		l.offers.underWay, l.offers.trouble = nil, nil // no room for them
		return
	}
	l.beside(acquireLimit, func(ctx context.Context) func() {
		acquired, err := session.AcquireJobs(ctx, requestIDs)
		return func() { l.acquiredJobs(session, acquired, err) }
	})
}

func (l *loop) acquiredJobs(session Session, acquired []int64, err error) {
	now := l.clock.Now()
	switch {
	case err != nil && session == l.link.session && wrongOffer(err):
		l.offerRefused(err, now)
		return
	case err != nil:
		l.acquisitionFailed(session, err, now)
		return
	}
	l.log.Info("Jobs acquired", "asked", len(l.offers.underWay), "acquired", len(acquired))
	if len(acquired) < len(l.offers.underWay) {
		l.refreshing.at = now // until it is known whose they are, they take up room
	}
	l.scaler.acquire(len(l.offers.underWay), acquired, now)
	l.showDesired()
	l.offers.settle()
}

// acquisitionFailed leaves the offers for later.
func (l *loop) acquisitionFailed(session Session, err error, now time.Time) {
	o := &l.offers
	o.putBack()
	o.retryAt = now.Add(o.backoff.next())
	if session == l.link.session { // what the one before met is no trouble of this one, nor its limit
		o.retryAt = latest(o.retryAt, now.Add(untilAllowed(err, now)))
		var reason string
		reason, err = explain(err)
		o.trouble = o.trouble.again(reason, err, now)
	}
	l.log.Error(err, "Jobs could not be acquired, trying again", "jobs", len(o.waiting), "at", o.retryAt)
}

// offerRefused keeps one offer that GitHub wants nothing of from blocking the others. Its job may be ours nevertheless, by an
// answer that was lost: until statistics say it takes up room.
func (l *loop) offerRefused(err error, now time.Time) {
	jobs := l.offers.underWay
	dropped := l.offers.refused()
	if !dropped {
		l.log.Error(err, "Jobs could not be acquired together, asking for them one by one", "jobs", len(jobs))
		return
	}
	l.log.Error(err, "A job was offered and can't be acquired, letting it go", "requestID", jobs[0])
	l.metrics.Dropped("OfferRefused")
	l.scaler.acquire(len(jobs), nil, now)
	l.refreshing.at = now
}

// wrongOffer says that GitHub refuses what was asked for, and not who asks, nor a call for a credential on the way.
func wrongOffer(err error) bool {
	return refusalOf(err, actions.EndpointAcquireJobs) != nil && !errors.Is(err, actions.ErrSessionNotFound) && !errors.Is(err, actions.ErrScaleSetNotFound) && !errors.Is(err, actions.ErrUnauthorized)
}

// findOffers asks once per session for offers that were made while nobody listened, until there is an answer: such an offer
// need not come again. A service without this call is no trouble: it assigns jobs by itself or offers them again.
func (l *loop) findOffers(now time.Time) {
	s := &l.offers.search
	if s.session == nil || s.session != l.link.session || s.underWay || l.stopping || l.later(s.at, now) {
		return
	}
	s.underWay = true
	client, session, scaleSetID := l.link.client, s.session, l.config.RunnerScaleSetID
	l.beside(gitHubLimit, func(ctx context.Context) func() {
		available, err := client.GetAcquirableJobs(ctx, scaleSetID)
		return func() {
			if session == l.offers.search.session { // else another has begun, with the next session
				l.foundOffers(available, err)
			}
		}
	})
}

func (l *loop) foundOffers(available []actions.JobAvailable, err error) {
	s := &l.offers.search
	s.underWay = false
	if err != nil && !refusedForGood(err) {
		now := l.clock.Now()
		s.at = now.Add(max(s.backoff.next(), untilAllowed(err, now)))
		l.log.Error(err, "Open offers could not be read, trying again", "at", s.at)
		return
	}
	if err != nil {
		l.log.V(1).Info("Open offers are not known", "cause", err.Error())
	}
	for _, job := range available {
		l.offers.add(job.RunnerRequestID)
	}
	s.session = nil
}

// refusalOf is the answer by which a call to this endpoint was refused for good, nil where it was not, or one on its way was.
func refusalOf(err error, endpoint string) *actions.Error {
	var answer *actions.Error
	if !refusedForGood(err) || !errors.As(err, &answer) || answer.Endpoint != endpoint {
		return nil
	}
	return answer
}

// refusedForGood says that asking the same again, in the same session, gets the same answer.
func refusedForGood(err error) bool {
	var limited *actions.RateLimitedError
	var answer *actions.Error
	if errors.As(err, &limited) || isNetworkError(err) || !errors.As(err, &answer) {
		return false
	}
	return rejected(err) || answer.StatusCode == http.StatusNotImplemented
}
