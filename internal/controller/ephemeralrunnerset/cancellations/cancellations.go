// Package cancellations remembers the jobs of a set that were cancelled before a runner had taken them, until each is
// set against a runner that it has left without a job. It is pure.
//
// Such a runner is too many, exits with code 0 because the job that it was given is gone, or hangs with it. This is
// nobody's fault, of as many runners as there were such jobs, and of those only that existed then: which runner a job
// was meant for, nobody says. The count of jobs is the listener's, from GitHub's messages. Whoever else may write it in
// the set's spec excuses his own runners.
package cancellations

import (
	"slices"
	"time"
)

const (
	// At most kept cancellations are remembered, for so long: a runner that is too many may be kept for hours.
	kept   = 32
	memory = 24 * time.Hour
	// Those that are seen within together are one.
	together = 10 * time.Second
)

// Memory has the cancellations that have not been set against a runner yet. The zero value is that of a manager that
// has just started: it counts all jobs that were ever cancelled as cancelled then, because the runners that it finds
// may be theirs.
type Memory struct {
	total  int
	recent []cancellation // oldest first
}

type cancellation struct {
	at   time.Time
	jobs int // for which no runner has been excused
}

// Note takes in the number of jobs that were ever cancelled. It is less than before if the listener or somebody else
// begins anew.
func (m *Memory) Note(total int, now time.Time) {
	more := total - m.total
	m.total = total
	m.recent = slices.DeleteFunc(m.recent, func(one cancellation) bool {
		return one.jobs <= 0 || now.Sub(one.at) >= memory
	})
	if more <= 0 {
		return
	}
	if n := len(m.recent); n > 0 && now.Sub(m.recent[n-1].at) < together {
		m.recent[n-1] = cancellation{now, m.recent[n-1].jobs + more}
		return
	}
	m.recent = append(m.recent, cancellation{now, more})
	m.recent = m.recent[max(0, len(m.recent)-kept):]
}

// Take sets a job that was cancelled between two moments against a runner. It returns false if there is none.
func (m *Memory) Take(from, to time.Time) bool {
	for i := range m.recent {
		if one := &m.recent[i]; one.jobs > 0 && !one.at.Before(from) && !one.at.After(to) {
			one.jobs--
			return true
		}
	}
	return false
}

// Latest returns the time of the newest cancellation, zero if there is none.
func (m *Memory) Latest() time.Time {
	if n := len(m.recent); n > 0 {
		return m.recent[n-1].at
	}
	return time.Time{}
}
