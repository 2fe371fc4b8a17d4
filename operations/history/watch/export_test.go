package watch

import (
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// Waiting returns the number of jobs that are not written yet, and about how many bytes they take.
func (r *Recorder) Waiting() (number, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlog.number(), r.backlog.size()
}

// Minutes is what is remembered of the last minutes.
type Minutes struct{ minutes }

func (m *Minutes) Saw(looks ledger.Sample, at time.Time) { m.saw(looks, at) }

func (m *Minutes) In(begin time.Time, looks ledger.Sample) ledger.Sample { return m.in(begin, looks) }

// GaveUp is the row of a job that ended before a runner had it.
var GaveUp = gaveUp
