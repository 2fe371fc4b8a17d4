// Package times says which times of a job can be.
//
// Whoever may write the status of runners, or annotations of their pods, chooses the times in them: a tenant in his
// namespace, and the listener that he may have made. Nobody but the API server chooses when a runner was created, so the
// others are held against that and the ledger's clock. What can't be is not known: a time put in its place would be a
// lie, too.
package times

import (
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

const (
	// MaxAhead and maxBehind are how far clocks of GitHub and of nodes may be from those of API server and ledger.
	MaxAhead  = time.Hour
	maxBehind = 5 * time.Minute
	// LongestQueue is longer than GitHub keeps a job that waits, also for somebody who has to approve it.
	LongestQueue = 35 * 24 * time.Hour
)

// Believe leaves out of a report the times that can't be.
func Believe(job *ledger.Job, now time.Time) {
	last := now
	if job.Created.After(last) {
		last = job.Created // the ledger's clock is behind
	}
	last = last.Add(MaxAhead)
	drop := func(first time.Time, times ...*time.Time) {
		for _, at := range times {
			if at.After(last) || at.Before(first) {
				*at = time.Time{}
			}
		}
	}
	first := time.Time{}
	if !job.Created.IsZero() {
		first = job.Created.Add(-maxBehind)
	}
	drop(first, &job.Registered, &job.Placed, &job.ImagePulled, &job.ContainerUp, &job.Started, &job.Finished)
	if begun := beginOf(job); !begun.IsZero() {
		first = begun.Add(-LongestQueue)
	}
	drop(first, &job.Queued, &job.Assigned)
	switch {
	case job.Started.IsZero() && !job.Created.IsZero():
		job.At = job.Created
	case job.Ending == ledger.EndingGaveUp && job.Queued.IsZero() && job.Assigned.IsZero():
		job.At = job.Finished
	case job.At.After(last):
		job.At = now.UTC().Truncate(time.Second) // a row needs a place
	}
	if job.Finished.IsZero() {
		job.Ending = ""
		if job.Result == ledger.ResultUnknown {
			job.Result = ""
		}
	}
}

// beginOf returns the start of a job or, if that is not known, the creation of its runner, and of a job that gave up its
// end: that is when it ceased to wait.
func beginOf(job *ledger.Job) time.Time {
	switch {
	case job.Ending == ledger.EndingGaveUp:
		return job.Finished
	case job.Started.IsZero():
		return job.Created
	}
	return job.Started
}
