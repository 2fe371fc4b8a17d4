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
	// underWay are being acquired; they are not added again.
	underWay []int64
	// singly is how many of the first are asked for one by one, because they were refused when asked for together.
	singly  int
	retryAt time.Time
	backoff backoff
	// failure is why they could not be acquired, nil if nothing is known to be wrong.
	failure *failure
	// search asks for the offers that stand.
	search search
}

// search is the state of the question which offers stand. It is asked at the beginning of each session, since offers may have
// been made while nobody listened, and again when there is a reason, each time until it is answered.
type search struct {
	// session is the one it is asked in.
	session Session
	due     bool
	// prune is set when offers that wait and that the answer lacks are to be dropped.
	prune    bool
	underWay bool
	// answered is set once the service has said in this session which offers stand. refused is set when it refused the call
	// itself and so will not answer in this session.
	answered  bool
	refused   bool
	notBefore time.Time
	backoff   backoff
}

// again has the question asked once more, with prune also about the offers that wait.
func (s *search) again(prune bool) {
	s.due = !s.refused
	s.prune = s.prune || prune
}

// keep drops those of doubted that still wait and are not among the available ones.
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

// update adds the jobs that a message offers and drops those that it shows to be assigned or completed.
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

// putBack moves what is under way back to the front.
func (o *offers) putBack() {
	o.waiting = append(o.underWay, o.waiting...)
	o.underWay = nil
}

// settle ends what is under way, whatever became of it.
func (o *offers) settle() {
	o.singly = max(0, o.singly-len(o.underWay))
	o.underWay, o.failure = nil, nil
	o.backoff.reset()
}

// refused handles the refusal of what is under way: offers that were asked for together are asked for one by one, and a single
// one is dropped. It reports whether one was dropped.
func (o *offers) refused() (dropped bool) {
	if len(o.underWay) == 1 {
		o.settle()
		return true
	}
	o.singly = len(o.underWay)
	o.putBack()
	return false
}

// acquireJobs starts to acquire as many offered jobs as there is room for, which is unknown without statistics. Jobs that the
// answer leaves out are dropped: they are withdrawn or somebody else's, or ours by an earlier answer that was lost, and then
// statistics will count them.
func (l *loop) acquireJobs(now time.Time) {
	session := l.session.current
	if len(l.offers.waiting) == 0 && l.offers.underWay == nil {
		l.offers.failure = nil // what could not be acquired is somebody else's
	}
	if session == nil || !l.scaler.known() || l.offers.underWay != nil || len(l.offers.waiting) == 0 || l.mustWait(l.offers.retryAt, now) {
		return
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

// roomForOffers returns how many of the offers that wait are to be acquired: as many as there is room for. A service that can't
// list its offers loses those that wait here when this process ends, so there all are acquired, and maxRunners limits the runners
// only; but not while the set can't run maxRunners: others may run them now.
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

// doubtOffers follows an answer that refuses jobs or leaves them out. They take up room until statistics tell whose they are, and
// those that wait may have been withdrawn as well: each would take up room in vain.
func (l *loop) doubtOffers(now time.Time) {
	l.refreshing.dueAt = now
	if len(l.offers.waiting) > 0 {
		l.offers.search.again(true)
	}
}

// acquisitionFailed keeps the offers for another attempt.
func (l *loop) acquisitionFailed(session Session, err error, now time.Time) {
	o := &l.offers
	o.putBack()
	o.retryAt = now.Add(o.backoff.next())
	if session == l.session.current { // the failures and rate limits of an earlier session say nothing about this one
		o.retryAt = latest(o.retryAt, now.Add(untilAllowed(err, now)))
		var reason string
		reason, err = explain(err)
		o.failure = o.failure.next(reason, err, now)
	}
	l.log.Error(err, "Jobs could not be acquired, trying again", "jobs", len(o.waiting), "at", o.retryAt)
}

// offerRefused keeps one offer that GitHub refuses from blocking the others. Its job may be ours nevertheless, by an earlier
// answer that was lost: it takes up room until there are new statistics.
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
	l.doubtOffers(now)
}

// wrongOffer reports whether GitHub refused the jobs that were asked for: not the session, the scale set or the credential, nor
// a call for a credential on the way.
func wrongOffer(err error) bool {
	return refusalOf(err, actions.EndpointAcquireJobs) != nil && !errors.Is(err, actions.ErrSessionNotFound) &&
		!errors.Is(err, actions.ErrScaleSetNotFound) && !errors.Is(err, actions.ErrUnauthorized)
}

// findOffers asks which offers stand, at most once per publishInterval: those that were made while nobody listened may not be
// made again. A service without this call is no failure: it assigns jobs by itself or repeats its offers.
func (l *loop) findOffers(now time.Time) {
	s := &l.offers.search
	if !s.due || s.session != l.session.current || s.underWay || l.stopping || l.mustWait(s.notBefore, now) {
		return
	}
	var doubted []int64 // what comes while the call is under way may be too new for its answer
	if s.prune {
		doubted = slices.Clone(l.offers.waiting)
	}
	s.due, s.prune, s.underWay, s.notBefore = false, false, true, now.Add(publishInterval)
	client, session, scaleSetID := l.session.client, s.session, l.config.RunnerScaleSetID
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		available, err := client.GetAcquirableJobs(ctx, scaleSetID)
		return func() {
			if session == l.offers.search.session { // otherwise the next session has its own search
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
		return // not all that stand: a list that lags, a page of it, or a service that lists none any more
	}
	before := len(l.offers.waiting)
	l.offers.keep(available, doubted)
	if withdrawn := before - len(l.offers.waiting); withdrawn > 0 {
		l.log.Info("Offers were withdrawn or taken by others", "jobs", withdrawn, "open", len(l.offers.waiting))
	}
}

// offersNotFound has the question asked again unless the service refuses to answer it: then every offer that waits may stand.
// A credential that is refused, or any call on the way, is no such refusal: it passes.
func (l *loop) offersNotFound(prune bool, err error) {
	now := l.clock.Now()
	s := &l.offers.search
	if refusalOf(err, actions.EndpointGetAcquirableJobs) != nil && !errors.Is(err, actions.ErrUnauthorized) {
		s.refused, s.due = true, false
		l.log.V(1).Info("Open offers are not known", "cause", err.Error())
		return
	}
	s.again(prune)
	s.notBefore = now.Add(max(s.backoff.next(), untilAllowed(err, now)))
	l.log.Error(err, "Open offers could not be read, trying again", "at", s.notBefore)
}

// refusalOf returns the answer that refused a call to endpoint for good; nil if there is none, or if it refused another call
// on the way, such as one for a credential.
func refusalOf(err error, endpoint string) *actions.Error {
	answer, ok := errors.AsType[*actions.Error](err)
	if !ok || !refusedForGood(err) || answer.Endpoint != endpoint {
		return nil
	}
	return answer
}

// refusedForGood reports whether the same call in the same session would be answered in the same way.
func refusedForGood(err error) bool {
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	answer, answered := errors.AsType[*actions.Error](err)
	if limited || !answered || isNetworkError(err) {
		return false
	}
	return actions.IsRejected(err) || answer.StatusCode == http.StatusNotImplemented
}
