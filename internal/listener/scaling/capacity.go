package scaling

import (
	"time"

	"k8s.io/utils/ptr"
)

const (
	// A set that places jobs and has not told yet for how many there is room announces at most firstCapacity jobs.
	firstCapacity = 10
	// The first poll of a session waits for the set's number until awaitTimeout; the set is read every awaitInterval.
	awaitTimeout  = 10 * time.Second
	awaitInterval = time.Second
	// While all that is announced is assigned, the set is read every raisedInterval for raisedGrace after a change,
	// and then every fullInterval: 12 reads a minute, and then 4. Each publication counts as one. Without them a burst
	// on free nodes would wait for the reads that an idle listener makes, 50 s apart.
	raisedInterval = 5 * time.Second
	raisedGrace    = time.Minute
	fullInterval   = 15 * time.Second
)

// Capacity has the number of jobs for which the set has room, as the set tells it.
type Capacity struct {
	// Places is set if the set always tells the number of jobs that its cluster places. Otherwise it tells a number only
	// while its runners fail.
	Places bool
	// said is the set's number, nil if it has told none. It was last seen at seenAt, and last changed at changedAt.
	said              *int
	seenAt, changedAt time.Time
	// The session was opened at openedAt, and the set last read at askedAt.
	openedAt, askedAt time.Time
}

// Opened remembers that a session has been opened.
func (c *Capacity) Opened(now time.Time) { c.openedAt, c.askedAt = now, time.Time{} }

// Ask remembers that the set is read.
func (c *Capacity) Ask(now time.Time) { c.askedAt = now }

// Observe takes in the number that the set tells, nil for none.
func (c *Capacity) Observe(said *int, now time.Time) {
	if !ptr.Equal(c.said, said) {
		c.said, c.changedAt = said, now
	}
	c.seenAt = now
}

// Jobs returns the number of jobs that GitHub may assign to the set, running ones included: the set's number, but
// always one more than run, because GitHub was seen never to offer again what was queued while a session announced 0.
// Assigned jobs that wait don't count, or a set that can't run jobs would draw the whole queue. maxRunners comes last:
// more jobs would be promised than runners are allowed.
func (c *Capacity) Jobs(s *Scaler) int {
	most, unsaid := s.MaxRunners, s.MaxRunners
	if c.Places {
		unsaid = firstCapacity
	}
	least := min(max(0, s.Statistics.TotalRunningJobs), most) + 1
	return min(max(ptr.Deref(c.said, unsaid), least), most)
}

// AwaitedUntil returns the time until which the session's first poll waits for the set's number, zero if it doesn't
// wait.
func (c *Capacity) AwaitedUntil() time.Time {
	if !c.Places || (c.said != nil && !c.seenAt.Before(c.openedAt)) {
		return time.Time{}
	}
	return c.openedAt.Add(awaitTimeout)
}

// ReadAt returns the time at which the set is to be read, zero if it need not be.
func (c *Capacity) ReadAt(s *Scaler, now time.Time) time.Time {
	announced := c.Jobs(s)
	switch {
	case now.Before(c.AwaitedUntil()):
		return c.askedAt.Add(awaitInterval)
	case !c.Places || announced >= s.MaxRunners || s.Desired.AssignedJobs < announced:
		return time.Time{}
	}
	last, interval := c.seenAt, fullInterval
	if c.askedAt.After(last) { // it could not be read
		last = c.askedAt
	}
	if now.Sub(c.changedAt) < raisedGrace {
		interval = raisedInterval
	}
	return last.Add(interval)
}
