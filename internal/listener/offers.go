package listener

import (
	"context"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/failure"
)

// acquireTimeout ends an attempt to acquire jobs. The offers are kept and tried again.
const acquireTimeout = 10 * time.Second

// findOffers asks which offers are open: offers that were made while nobody listened may not be made again.
func (l *loop) findOffers(now time.Time) {
	s, session := &l.offers.Search, l.session.current
	if session == nil || !s.Due || s.UnderWay || l.stopping || l.mustWait(s.NotBefore, now) {
		return
	}
	asked := l.offers.BeginSearch(now)
	client, scaleSetID := l.session.client, l.config.RunnerScaleSetID
	l.runAsync(gitHubTimeout, func(ctx context.Context) func() {
		open, err := client.GetAcquirableJobs(ctx, scaleSetID)
		return func() {
			if session == l.session.current { // otherwise a new session has a search of its own
				l.foundOffers(open, asked, err)
			}
		}
	})
}

// foundOffers handles the answer to a search. A service without this call is not a failure.
func (l *loop) foundOffers(open []actions.JobAvailable, asked []int64, err error) {
	o := &l.offers
	o.Search.End()
	switch {
	case err == nil:
		withdrawn := o.Found(open, asked, l.scaler.Has, l.scaler.Statistics.TotalAvailableJobs)
		if withdrawn > 0 {
			l.log.Info("Offers were withdrawn or taken by others", "jobs", withdrawn, "open", len(o.Waiting))
		}
	case failure.LacksSearch(err):
		o.RememberLacking()
		l.log.V(1).Info("The service does not list open offers", "cause", err.Error())
	default:
		o.SearchAgain()
		_ = o.Search.Fail(err, l.clock.Now())
		l.log.Error(err, "Open offers could not be read, trying again", "at", o.Search.NotBefore)
	}
}

// acquireJobs starts to acquire as many offered jobs as there is room for, which is unknown without statistics.
func (l *loop) acquireJobs(now time.Time) {
	o, session := &l.offers, l.session.current
	if o.UnderWay {
		return
	}
	if len(o.Waiting) == 0 {
		o.Failure = nil // the jobs that could not be acquired are somebody else's
		return
	}
	if session == nil || !l.scaler.Known() || l.mustWait(o.NotBefore, now) {
		return
	}
	if l.polls.Failure == nil { // otherwise there may be messages about the jobs that can't be received
		l.mustWait(l.scaler.ExpireAcquisitions(now), now)
	}
	capacity := l.capacity()
	room := l.scaler.Room(capacity)
	if o.Search.Lacking && l.takesJobs() && capacity == l.scaler.MaxRunners {
		// An offer that waits here would be lost with this process, so all are acquired, and maxRunners limits only the
		// runners. But not while the set can't run maxRunners: others may run the jobs now.
		room = len(o.Waiting)
	}
	requestIDs := o.Request(room)
	if len(requestIDs) == 0 {
		return
	}
	l.runAsync(acquireTimeout, func(ctx context.Context) func() {
		acquired, err := session.AcquireJobs(ctx, requestIDs)
		return func() { l.acquiredJobs(session == l.session.current, acquired, err) }
	})
}

// acquiredJobs handles the answer to a request for jobs. Jobs that are missing in it are dropped: they were withdrawn,
// or taken by somebody else, or they are ours by an earlier answer that was lost. In that case statistics will count
// them, so until then no other job gets their place. The same goes for a job that GitHub refuses alone. Offers that
// wait may have been withdrawn too, so GitHub is asked.
func (l *loop) acquiredJobs(inSession bool, acquired []int64, err error) {
	now, o := l.clock.Now(), &l.offers
	requested := len(o.Requested)
	switch {
	case err == nil:
		l.log.Info("Jobs acquired", "asked", requested, "acquired", len(acquired))
		o.Settle()
		if len(acquired) < requested && len(o.Waiting) > 0 {
			o.SearchAgain()
		}
	case inSession && failure.OffersRefused(err):
		requestIDs := o.Requested
		if !o.Refused(now) {
			l.log.Info("Offered jobs can't be acquired together, trying fewer", "jobs", requested, "cause", err.Error())
			return
		}
		l.log.Error(err, "An offered job can't be acquired, dropping it", "requestID", requestIDs[0])
		l.metrics.Dropped("OfferRefused")
	default:
		o.PutBack()
		if inSession { // failures and rate limits of an earlier session say nothing about this one
			err = o.Fail(err, now)
		} else {
			o.Pause(now)
		}
		l.log.Error(err, "Jobs could not be acquired, trying again", "jobs", len(o.Waiting), "at", o.NotBefore)
		return
	}
	if len(acquired) < requested {
		l.refreshing.dueAt = now
	}
	l.scaler.Acquire(requested, acquired, now)
	l.showDesired()
}
