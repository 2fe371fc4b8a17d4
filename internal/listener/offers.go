package listener

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// acquireTimeout ends an attempt to acquire jobs. The offers are kept and tried again.
const acquireTimeout = 10 * time.Second

// maxSearchPause bounds the pauses between searches for open offers: a service may have the call and never answer it.
const maxSearchPause = time.Minute

// offers are the jobs that GitHub offered and that are not acquired yet, by request ID, oldest first.
type offers struct {
	waiting []int64
	// underWay are the offers that are being acquired. They are not added again.
	underWay []int64
	// singly is how many of the first are requested one by one, because they were refused when requested together.
	singly  int
	retryAt time.Time
	backoff backoff
	// failure is why offers could not be acquired, nil if nothing is known to be wrong.
	failure *failure
	search  search
}

// search is the state of asking which offers are open. The listener asks at the beginning of each session, because offers may have
// been made while nobody listened, and again if there is a reason, each time until it gets an answer.
type search struct {
	// session is the session in which the search takes place.
	session Session
	due     bool
	// prune is set if offers that wait and are missing in the answer must be dropped.
	prune    bool
	underWay bool
	// answered is set once the service has answered in this session. refused is set if it refused the call itself and so will
	// not answer in this session.
	answered  bool
	refused   bool
	notBefore time.Time
	backoff   backoff
	// unknownAfter is when GitHub's count of open offers, if it is more than are known here, may make the next search due, and unknown
	// has the pauses between such searches.
	unknownAfter time.Time
	unknown      backoff
}

// again makes a search due. With prune, it also covers the offers that wait.
func (s *search) again(prune bool) {
	s.due = !s.refused
	s.prune = s.prune || prune
}

// keep drops the doubted offers that still wait and are not available.
func (o *offers) keep(available []actions.JobAvailable, doubted []int64) {
	gone := map[int64]bool{}
	for _, id := range doubted {
		gone[id] = true
	}
	for _, job := range available {
		delete(gone, job.RunnerRequestID)
	}
	o.waiting = slices.DeleteFunc(o.waiting, func(id int64) bool { return gone[id] })
	o.singly = min(o.singly, len(o.waiting))
}

func (o *offers) add(requestID int64) {
	if !slices.Contains(o.waiting, requestID) && !slices.Contains(o.underWay, requestID) {
		o.waiting = append(o.waiting, requestID)
	}
}

func (o *offers) drop(requestID int64) {
	o.waiting = slices.DeleteFunc(o.waiting, func(id int64) bool { return id == requestID })
}

// update adds the jobs that a message offers, and drops the jobs that it shows to be assigned or completed.
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

// take moves the oldest offers, at most room of them, to underWay and returns them.
func (o *offers) take(room int) []int64 {
	count := max(0, min(room, len(o.waiting)))
	if o.singly > 0 {
		count = min(count, 1)
	}
	o.underWay = slices.Clone(o.waiting[:count])
	o.waiting = slices.Delete(o.waiting, 0, count)
	return o.underWay
}

// putBack moves the offers under way back to the front.
func (o *offers) putBack() {
	o.waiting = append(o.underWay, o.waiting...)
	o.underWay = nil
}

// settle forgets the offers under way, whatever became of them.
func (o *offers) settle() {
	o.singly = max(0, o.singly-len(o.underWay))
	o.underWay, o.failure = nil, nil
	o.backoff.reset()
}

// refused handles a refusal of the offers under way: offers that were requested together will be requested one by one, and a
// single offer is dropped. It reports whether an offer was dropped.
func (o *offers) refused() (dropped bool) {
	if len(o.underWay) == 1 {
		o.settle()
		return true
	}
	o.singly = len(o.underWay)
	o.putBack()
	return false
}

// acquireJobs starts to acquire as many offered jobs as there is room for, which is unknown without statistics. Jobs that are
// missing in the answer are dropped: they were withdrawn, or taken by somebody else, or they are ours by an earlier answer that was
// lost. In that case statistics will count them.
func (l *loop) acquireJobs(now time.Time) {
	session := l.session.current
	if len(l.offers.waiting) == 0 && l.offers.underWay == nil {
		l.offers.failure = nil // the jobs that could not be acquired are somebody else's
	}
	if session == nil || !l.scaler.known() || l.offers.underWay != nil || len(l.offers.waiting) == 0 || l.mustWait(l.offers.retryAt, now) {
		return
	}
	if l.polls.failure == nil { // otherwise there may be messages about the jobs that can't be received
		l.mustWait(l.scaler.expireAcquisitions(now), now)
	}
	requestIDs := l.offers.take(l.roomForOffers())
	if len(requestIDs) == 0 {
		l.offers.underWay, l.offers.failure = nil, nil // no room for them
		return
	}
	l.runAsync(acquireTimeout, func(ctx context.Context) func() {
		acquired, err := session.AcquireJobs(ctx, requestIDs)
		return func() { l.acquiredJobs(session, acquired, err) }
	})
}

// roomForOffers returns how many of the waiting offers to acquire: as many as there is room for. If the service can't list open
// offers, those that wait here would be lost with this process. Then all are acquired, and maxRunners limits only the runners. But
// not while the set can't run maxRunners: others may run the jobs now.
func (l *loop) roomForOffers() int {
	capacity := l.capacity()
	if l.offers.search.refused && capacity > 0 && capacity == l.scaler.maxRunners {
		return len(l.offers.waiting)
	}
	return l.scaler.room(capacity)
}

func (l *loop) acquiredJobs(session Session, acquired []int64, err error) {
	now := l.clock.Now()
	switch {
	case err != nil && session == l.session.current && wrongOffer(err):
		l.offerRefused(err, now)
		return
	case err != nil:
		l.acquisitionFailed(session, err, now)
		return
	}
	l.log.Info("Jobs acquired", "asked", len(l.offers.underWay), "acquired", len(acquired))
	if len(acquired) < len(l.offers.underWay) {
		l.doubtOffers(now)
	}
	l.scaler.acquire(len(l.offers.underWay), acquired, now)
	l.showDesired()
	l.offers.settle()
}

// doubtOffers follows an answer that refuses jobs or leaves them out. These take up room until statistics show whose they are, so
// statistics are read. Offers that wait may have been withdrawn too and would take up room in vain, so they are checked.
func (l *loop) doubtOffers(now time.Time) {
	l.refreshing.dueAt = now
	if len(l.offers.waiting) > 0 {
		l.offers.search.again(true)
	}
}

// findUnknownOffers makes a search due if GitHub counts more open offers than are known here: an offer that it refused, or left out of
// an answer, may be open again, and GitHub need not repeat it.
func (l *loop) findUnknownOffers(now time.Time) {
	s, open := &l.offers.search, l.scaler.statistics.TotalAvailableJobs
	if open == 0 {
		s.unknown.reset()
	}
	if open > len(l.offers.waiting)+len(l.offers.underWay) && !now.Before(s.unknownAfter) {
		s.unknownAfter = now.Add(s.unknown.next())
		s.again(false)
	}
}

// acquisitionFailed keeps the offers for another attempt.
func (l *loop) acquisitionFailed(session Session, err error, now time.Time) {
	o := &l.offers
	o.putBack()
	o.retryAt = now.Add(o.backoff.next())
	if session == l.session.current { // failures and rate limits of an earlier session say nothing about this one
		o.retryAt = latest(o.retryAt, now.Add(untilAllowed(err, now)))
		var reason string
		reason, err = explain(err)
		o.failure = o.failure.next(reason, err, now)
	}
	l.log.Error(err, "Jobs could not be acquired, trying again", "jobs", len(o.waiting), "at", o.retryAt)
}

// offerRefused keeps an offer that GitHub refuses from blocking the others. Its job may still be ours, by an earlier answer that was
// lost, so it takes up room until there are new statistics.
func (l *loop) offerRefused(err error, now time.Time) {
	jobs := l.offers.underWay
	dropped := l.offers.refused()
	if !dropped {
		l.log.Error(err, "Jobs could not be acquired together, trying one by one", "jobs", len(jobs))
		return
	}
	l.log.Error(err, "An offered job can't be acquired, dropping it", "requestID", jobs[0])
	l.metrics.Dropped("OfferRefused")
	l.scaler.acquire(len(jobs), nil, now)
	l.doubtOffers(now)
}

// wrongOffer reports whether GitHub refused the requested jobs, rather than the session, the scale set, the credential or a call to
// renew that.
func wrongOffer(err error) bool {
	return refusalOf(err, actions.EndpointAcquireJobs) != nil && !errors.Is(err, actions.ErrSessionNotFound) &&
		!errors.Is(err, actions.ErrScaleSetNotFound) && !errors.Is(err, actions.ErrUnauthorized)
}

// findOffers asks which offers are open, at most once per publishInterval: offers that were made while nobody listened may not be
// made again. A service without this call is not a failure: it assigns jobs by itself or repeats its offers.
func (l *loop) findOffers(now time.Time) {
	s := &l.offers.search
	if !s.due || s.session != l.session.current || s.underWay || l.stopping || l.mustWait(s.notBefore, now) {
		return
	}
	var doubted []int64 // offers that come during the call may be too new for its answer
	if s.prune {
		doubted = slices.Clone(l.offers.waiting)
	}
	s.due, s.prune, s.underWay, s.notBefore = false, false, true, now.Add(publishInterval)
	client, session, scaleSetID := l.session.client, s.session, l.config.RunnerScaleSetID
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		available, err := client.GetAcquirableJobs(ctx, scaleSetID)
		return func() {
			if session == l.offers.search.session { // otherwise a new session has a search of its own
				l.foundOffers(available, doubted, err)
			}
		}
	})
}

func (l *loop) foundOffers(available []actions.JobAvailable, doubted []int64, err error) {
	s := &l.offers.search
	s.underWay = false
	if err != nil {
		l.offersNotFound(len(doubted) > 0, err)
		return
	}
	s.answered = true
	s.backoff.reset()
	for _, job := range available {
		if !l.scaler.has(job.RunnerRequestID) {
			l.offers.add(job.RunnerRequestID)
		}
	}
	if len(available) < l.scaler.statistics.TotalAvailableJobs {
		return // the list is incomplete: it lags or is one page, or the service lists none any more
	}
	before := len(l.offers.waiting)
	l.offers.keep(available, doubted)
	if withdrawn := before - len(l.offers.waiting); withdrawn > 0 {
		l.log.Info("Offers were withdrawn or taken by others", "jobs", withdrawn, "open", len(l.offers.waiting))
	}
}

// offersNotFound makes a new search due, unless the service refuses the call: then every waiting offer may be open. A refused
// credential, or any refused call on the way, does not count as a refusal, because it passes.
func (l *loop) offersNotFound(prune bool, err error) {
	now := l.clock.Now()
	s := &l.offers.search
	if refusalOf(err, actions.EndpointGetAcquirableJobs) != nil && !errors.Is(err, actions.ErrUnauthorized) {
		s.refused, s.due = true, false
		l.log.V(1).Info("The service does not list open offers", "cause", err.Error())
		return
	}
	s.again(prune)
	s.notBefore = now.Add(max(s.backoff.next(), untilAllowed(err, now)))
	l.log.Error(err, "Open offers could not be read, trying again", "at", s.notBefore)
}

// refusalOf returns the answer that refused a call to endpoint for good. It returns nil if there is none, or if the answer
// refused another call on the way, such as one for a credential.
func refusalOf(err error, endpoint string) *actions.Error {
	answer, ok := errors.AsType[*actions.Error](err)
	if !ok || !refusedForGood(err) || answer.Endpoint != endpoint {
		return nil
	}
	return answer
}

// refusedForGood reports whether the same call in the same session would get the same answer.
func refusedForGood(err error) bool {
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	if limited || !answered || isNetworkError(err) {
		return false
	}
	return actions.IsRejected(err) || answer.StatusCode == http.StatusNotImplemented
}
