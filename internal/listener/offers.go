package listener

import (
	"context"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// acquireLimit ends an attempt to acquire jobs. The offers stay and are tried again.
const acquireLimit = 10 * time.Second

// offers are jobs that GitHub offered and we did not acquire yet, oldest first, by request id.
type offers struct {
	waiting []int64
	// underWay are being acquired; an offer of one of them is no news.
	underWay []int64
	retryAt  time.Time
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
	o.underWay = slices.Clone(o.waiting[:count])
	o.waiting = slices.Delete(o.waiting, 0, count)
	return o.underWay
}

// putBack returns what could not be asked for to the front.
func (o *offers) putBack() {
	o.waiting = append(o.underWay, o.waiting...)
	o.underWay = nil
}

// acquireJobs starts to acquire as many offered jobs as there is room for, which without statistics nobody knows. What the answer leaves out is dropped: it is
// somebody else's, or ours by an answer that was lost, and then statistics will count it.
func (l *loop) acquireJobs(now time.Time) {
	session := l.link.session
	if session == nil || !l.scaler.known() || l.offers.underWay != nil || len(l.offers.waiting) == 0 || l.later(l.offers.retryAt, now) {
		return
	}
	requestIDs := l.offers.take(l.scaler.room(l.capacity()))
	if len(requestIDs) == 0 {
		l.offers.underWay = nil
		return
	}
	l.beside(acquireLimit, func(ctx context.Context) func() {
		acquired, err := session.AcquireJobs(ctx, requestIDs)
		return func() { l.acquiredJobs(acquired, err) }
	})
}

func (l *loop) acquiredJobs(acquired []int64, err error) {
	now := l.clock.Now()
	if err != nil {
		l.offers.putBack()
		l.offers.retryAt = now.Add(l.offers.backoff.next())
		l.log.Error(err, "Jobs could not be acquired, trying again", "jobs", len(l.offers.waiting), "at", l.offers.retryAt)
		return
	}
	l.log.Info("Jobs acquired", "asked", len(l.offers.underWay), "acquired", len(acquired))
	if len(acquired) < len(l.offers.underWay) {
		l.refreshing.at = now // until it is known whose they are, they take up room
	}
	l.scaler.acquire(len(l.offers.underWay), acquired, now)
	l.offers.underWay = nil
	l.offers.backoff.reset()
}

// findOffers asks once per session for offers that were made while nobody listened. A service without this call is no
// trouble: it assigns jobs by itself or offers them again.
func (l *loop) findOffers() {
	client, scaleSetID := l.link.client, l.config.RunnerScaleSetID
	l.beside(gitHubLimit, func(ctx context.Context) func() {
		available, err := client.GetAcquirableJobs(ctx, scaleSetID)
		return func() {
			if err != nil {
				l.log.V(1).Info("Open offers are not known", "cause", err.Error())
			}
			for _, job := range available {
				l.offers.add(job.RunnerRequestID)
			}
		}
	})
}
