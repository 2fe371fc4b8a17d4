// Package offers has the jobs that GitHub has offered and that are not acquired yet, and decides when GitHub is to be
// asked for the open offers. It calls nobody.
package offers

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/errand"
)

const (
	// searchInterval is the shortest time between two searches for open offers.
	searchInterval = 3 * time.Second
	// countedInterval is the same for a search because GitHub counts more offers than are known here, or keeps refusing
	// those that it lists.
	countedInterval = time.Minute
	// refusedBackoff is the time until the next request after one for a single offer was refused: a service that
	// refuses every offer gets one request a second.
	refusedBackoff = time.Second
)

// Offers are the jobs that GitHub offered, by request ID. The errand is their acquisition. Make them with New.
type Offers struct {
	errand.Errand
	// Waiting are those to be requested, oldest first.
	Waiting []int64
	// Requested are those in the call under way. They are not added again.
	Requested []int64
	// most bounds the offers of a request since GitHub refused one, until it takes one; 0 while any number goes.
	most int
	// Search asks GitHub which offers are open.
	Search Search
	// pace is the errand of a search in a new session.
	pace errand.Errand
}

// Search is the state of asking which offers are open: at the beginning of each session, because offers may have been
// made while nobody listened, and again if there is a reason, each time until there is an answer.
type Search struct {
	errand.Errand
	// Due is set if there is a reason to ask.
	Due bool
	// Lacking is set if the service does not have the call, so that it is not asked again in this session.
	Lacking bool
	// answered is set when the service has listed open offers in this session.
	answered bool
	// lastAt is the start of the last search.
	lastAt time.Time
}

// New returns no offers. The errands pace acquisitions and searches.
func New(acquisition, search errand.Errand) Offers {
	return Offers{Errand: acquisition, pace: search}
}

// NewSession makes a search due, whatever an earlier session has shown.
func (o *Offers) NewSession() { o.Search = Search{Errand: o.pace, Due: true} }

// Forget forgets the offers of a scale set that is no longer used.
func (o *Offers) Forget() { o.Waiting, o.most, o.Failure, o.Search = nil, 0, nil, Search{} }

// Update adds the jobs that a message offers, and drops the jobs that it shows to be assigned or completed.
func (o *Offers) Update(message *actions.Message) {
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

func (o *Offers) add(requestID int64) {
	if !slices.Contains(o.Waiting, requestID) && !slices.Contains(o.Requested, requestID) {
		o.Waiting = append(o.Waiting, requestID)
	}
}

func (o *Offers) drop(requestID int64) {
	o.Waiting = slices.DeleteFunc(o.Waiting, func(id int64) bool { return id == requestID })
}

// Request begins to acquire the oldest offers, at most room of them, and returns them. Without room it does nothing.
func (o *Offers) Request(room int) []int64 {
	count := max(0, min(room, len(o.Waiting)))
	if count == 0 {
		o.Failure = nil // what failed before is of no interest while there is no room
		return nil
	}
	if o.most > 0 {
		count = min(count, o.most)
	}
	o.Begin()
	o.Requested = slices.Clone(o.Waiting[:count])
	o.Waiting = slices.Delete(o.Waiting, 0, count)
	return o.Requested
}

// PutBack ends a request that failed and moves its offers back to the front.
func (o *Offers) PutBack() {
	o.End()
	o.Waiting = append(o.Requested, o.Waiting...)
	o.Requested = nil
}

// Settle ends a request that GitHub answered and forgets its offers, whatever became of them.
func (o *Offers) Settle() {
	o.End()
	o.Requested, o.most = nil, 0
	o.Succeed()
}

// Refused ends a request that GitHub refused. GitHub doesn't name the one of several offers that it refuses: they are
// put back, and the next request has half as many, down to a single offer, which is dropped. Refused reports whether it
// was dropped. Offers that wait may have been withdrawn, so a search is due: immediately after the first refusal, later
// only if the last one is a minute old, because it lists what is refused.
func (o *Offers) Refused(now time.Time) (dropped bool) {
	dropped = len(o.Requested) == 1
	first, half := o.most == 0, max(1, len(o.Requested)/2)
	if dropped {
		o.Requested, o.NotBefore = nil, now.Add(refusedBackoff)
	}
	o.PutBack()
	o.Succeed()
	o.most = half
	if len(o.Waiting) > 0 && (first || now.Sub(o.Search.lastAt) >= countedInterval) {
		o.SearchAgain()
	}
	return dropped
}

// Acquires reports whether offers of a message are being acquired.
func (o *Offers) Acquires(message *actions.Message) bool {
	return slices.ContainsFunc(message.JobsAvailable, func(job actions.JobAvailable) bool {
		return slices.Contains(o.Requested, job.RunnerRequestID)
	})
}

// WouldBeLost reports whether offers of a message wait that a new process would not find again: the service has not
// shown that it lists open offers, so they would come only with their message.
func (o *Offers) WouldBeLost(message *actions.Message) bool {
	return !o.Search.answered && slices.ContainsFunc(message.JobsAvailable, func(job actions.JobAvailable) bool {
		return slices.Contains(o.Waiting, job.RunnerRequestID)
	})
}

// SearchAgain makes a search due, unless the service does not list open offers.
func (o *Offers) SearchAgain() { o.Search.Due = !o.Search.Lacking }

// Counted compares the number of known offers with GitHub's count of open ones. If GitHub counts more, a search is due:
// an offer that GitHub left out of an answer may be open again, and GitHub need not repeat it.
func (o *Offers) Counted(open int, now time.Time) {
	if open > len(o.Waiting)+len(o.Requested) && now.Sub(o.Search.lastAt) >= countedInterval {
		o.SearchAgain()
	}
}

// BeginSearch begins a search and returns the offers that its answer decides about: those that come during the call may
// be too new for it.
func (o *Offers) BeginSearch(now time.Time) (asked []int64) {
	s := &o.Search
	s.Begin()
	s.Due, s.lastAt, s.NotBefore = false, now, now.Add(searchInterval)
	return slices.Clone(o.Waiting)
}

// Found takes the answer to a search: open offers are added unless they are ours already, and asked offers that are not
// among them are dropped, because they were withdrawn or taken by others. Nothing is dropped if GitHub counts more
// offers than it lists: then the list lags or is one page. It returns the number of those that were dropped.
func (o *Offers) Found(
	open []actions.JobAvailable, asked []int64, ours func(requestID int64) bool, counted int,
) (withdrawn int) {
	o.Search.Succeed()
	o.Search.answered = true
	gone := map[int64]bool{}
	for _, id := range asked {
		gone[id] = true
	}
	for _, job := range open {
		delete(gone, job.RunnerRequestID)
		if !ours(job.RunnerRequestID) {
			o.add(job.RunnerRequestID)
		}
	}
	if len(open) < counted {
		return 0
	}
	before := len(o.Waiting)
	o.Waiting = slices.DeleteFunc(o.Waiting, func(id int64) bool { return gone[id] })
	return before - len(o.Waiting)
}

// RememberLacking remembers that the service does not list open offers: every waiting offer may be open.
func (o *Offers) RememberLacking() {
	o.Search.Succeed()
	o.Search.Lacking, o.Search.Due = true, false
}
