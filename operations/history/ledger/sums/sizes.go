package sums

import (
	"math"
	"time"

	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// An advice about memory is fitMargin percent above the largest peak that was seen, of fitJobs jobs at least and of
// FitTime: a limit that is too small kills a job, and one that is too large costs a little.
const (
	fitMargin = 20
	fitJobs   = 20
	// FitTime is how long the time must be that the sums are of. Size can't know that, and its caller drops the advice.
	FitTime = 14 * 24 * time.Hour
)

// Size returns the row of a kind of jobs, without its names.
func (s *Sums) Size(at *prices.Lookup) rows.Size {
	enough := func(h histogram.Histogram) *int64 {
		if h.Count() == 0 {
			return nil
		}
		return new(h.Quantile(0.95))
	}
	size := rows.Size{
		Jobs: s.jobs, Measured: s.measured, RunHours: float64(s.runSeconds) / float64(period.Hour),
		CPURequestMillis: s.cpuRequest, MemoryRequestBytes: s.memoryRequest,
		PeakMemoryBytes: enough(s.peakMemory), CPUAverageMillis: enough(s.cpuAverage),
		ThrottledPercent: enough(s.throttled), ShortOfMemory: s.shortOfMemory,
		MemoryFitBytes: s.fit(),
	}
	if size.Elsewhere = s.elsewhere; size.Elsewhere > 0 {
		size.Measured, size.PeakMemoryBytes, size.CPUAverageMillis, size.ThrottledPercent = 0, nil, nil, nil
	}
	s.each(func(machine prices.Machine, of amounts) {
		price := at.Of(machine)
		if price == nil {
			return // what costs nobody knows how much saves nobody knows how much
		}
		seconds := float64(of[ofRun])
		if average := size.CPUAverageMillis; average != nil {
			unused := float64(of[ofCPU]) - seconds*float64(*average)
			size.Saving += unused / 1000 / float64(period.Hour) * price.CPUHour
		}
		if peak := size.PeakMemoryBytes; peak != nil {
			unused := float64(of[ofMemory]) - seconds*float64(*peak>>20)
			size.Saving += unused / 1024 / float64(period.Hour) * price.GiBHour
		}
	})
	return size
}

// fit returns the request of memory that fits all jobs, nil if that can't be known.
func (s *Sums) fit() *int64 {
	if s.measured < fitJobs || s.measured < s.jobs-s.lost-s.canceled || s.elsewhere > 0 || s.shortOfMemory > 0 {
		return nil
	}
	most := s.peakMemory.Quantile(1)
	if most <= 0 || most > math.MaxInt64/(100+fitMargin) {
		return nil
	}
	return new(most * (100 + fitMargin) / 100)
}
