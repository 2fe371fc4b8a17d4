package sums

import (
	"maps"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// waitPhases are the parts of a wait, in the order of their columns: the phases that it can end in, and the time during
// which the scale set was at its limit.
var waitPhases = [...]string{"assigned", "created", "registered", "placed", "imagePulled", "containerUp", "started",
	phases.Limited}

// wholeWait is the place of the whole wait in wait_times, behind those of the phases. Limits have a text of their own.
const wholeWait = len(waitPhases) - 1

// newWaitTimes returns the histograms of the seconds that jobs waited: one for each phase, in the order of waitPhases,
// and one for the whole wait.
func newWaitTimes() histogram.List { return histogram.NewList(wholeWait + 1) }

// Waits are the waits of the jobs of a group.
type Waits struct {
	// waited is the number of jobs, seconds what they waited for each of waitPhases.
	waited  int64
	seconds [len(waitPhases)]int64
	times   histogram.List
	limits  limitTimes
}

// WaitRules say how the waits of an answer are bounded. A group counts by its jobs.
var WaitRules = fold.Rules[*Waits]{
	New: func() *Waits { return &Waits{times: newWaitTimes(), limits: limitTimes{}} },
	Merge: func(into, from *Waits) {
		into.plus(from.waited, &from.seconds)
		into.times.Include(from.times)
		into.limits.include(from.limits)
	},
	Weight: (*Waits).Jobs,
}

// WaitRow has the waits of jobs in the form that the database has.
type WaitRow struct {
	waited        int64
	seconds       [len(waitPhases)]int64
	times, limits string
}

// Columns returns the columns of a row, in the order of WaitColumns.
func (r *WaitRow) Columns() []any {
	columns := []any{&r.waited}
	for i := range r.seconds {
		columns = append(columns, &r.seconds[i])
	}
	return append(columns, &r.times, &r.limits)
}

// Add adds a row.
func (s *Waits) Add(row *WaitRow) {
	s.plus(row.waited, &row.seconds)
	s.times.Merge(row.times)
	s.limits.merge(row.limits)
}

func (s *Waits) plus(waited int64, seconds *[len(waitPhases)]int64) {
	s.waited = plus(s.waited, waited)
	for i := range seconds {
		s.seconds[i] = plus(s.seconds[i], seconds[i])
	}
}

// WaitColumns has the columns of a WaitRow.
var WaitColumns = func() string {
	all := strings.Split(NumberColumns, ", ")
	first := slices.Index(all, "waited")
	return strings.Join(all[first:first+1+len(waitPhases)], ", ") + ", wait_times, limit_times"
}()

// Jobs is the number of jobs of which it is known how long they waited.
func (s *Waits) Jobs() int64 { return s.times[wholeWait].Count() }

// P95Seconds is what 95 of 100 jobs waited at most.
func (s *Waits) P95Seconds() int64 { return s.times[wholeWait].Quantile(0.95) }

// Rows returns a row for each limit, each phase and the whole wait.
func (s *Waits) Rows(of rows.Group) (waits []rows.Wait) {
	add := func(phase string, times histogram.Histogram, seconds int64) *rows.Wait {
		if times.Count() == 0 {
			return &rows.Wait{}
		}
		waits = append(waits, rows.Wait{Group: of, Phase: phase, Jobs: times.Count(),
			MeanSeconds: float64(seconds) / float64(max(1, s.waited)),
			P50Seconds:  times.Quantile(0.5), P95Seconds: times.Quantile(0.95)})
		return &waits[len(waits)-1]
	}
	for _, at := range slices.SortedFunc(maps.Keys(s.limits), limit.compare) {
		row := add(phases.Limited, s.limits[at].times, s.limits[at].seconds)
		if row.LimitedReason = at.reason; at.number >= 0 {
			row.LimitNumber = &at.number
		}
	}
	whole := int64(0)
	for i, phase := range waitPhases {
		whole = plus(whole, s.seconds[i])
		if i < wholeWait {
			add(phase, s.times[i], s.seconds[i])
		}
	}
	add(rows.WholeWait, s.times[wholeWait], whole)
	return waits
}
