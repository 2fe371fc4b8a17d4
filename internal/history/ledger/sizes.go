package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/internal/history/histogram"
)

// Size is what a job of a workflow uses of what it requests, by the figures that feedback.jobLog has left of its runs.
type Size struct {
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace"`
	Set        string `json:"set"`
	Repository string `json:"repository"`
	Workflow   string `json:"workflow"`
	Name       string `json:"name"`

	// Jobs is how many have finished, Measured of how many the use is known.
	Jobs     int64   `json:"jobs"`
	Measured int64   `json:"measured"`
	RunHours float64 `json:"runHours"`

	// The requests are the largest that a pod of these jobs had.
	CPURequestMillis   int64 `json:"cpuRequestMillis"`
	MemoryRequestBytes int64 `json:"memoryRequestBytes"`

	// The 95th percentiles, at most 5 % too large. 0 if nothing is known.
	PeakMemoryBytes  int64 `json:"peakMemoryBytesP95"`
	CPUAverageMillis int64 `json:"cpuAverageMillisP95"`
	ThrottledPercent int64 `json:"throttledPercentP95"`

	// Saving is what the time would have cost less with requests as large as those percentiles, by the prices of the
	// call. It is negative for jobs that use more than they request, and 0 if nothing is known.
	Saving float64 `json:"saving"`
}

// Sizes returns the use of each job of a workflow that the filter chooses, the largest saving first.
func (l *Ledger) Sizes(ctx context.Context, filter Filter, prices Prices) ([]Size, error) {
	q, err := l.periods(ctx, "SELECT "+kindColumns+
		", jobs, measured, run_seconds, cpu_request_millis, memory_request_bytes, "+
		"cpu_requested, memory_requested, "+histogramColumns+" FROM usage_periods", &filter)
	if err != nil {
		return nil, err
	}
	all := map[kindOfJob]*sums{}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var kind kindOfJob
		var part sums
		var peakMemory, cpuAverage, throttled string
		if err := rows.Scan(&kind.cluster, &kind.namespace, &kind.set, &kind.repository, &kind.workflow, &kind.name,
			&part.jobs, &part.measured,
			&part.runSeconds, &part.cpuRequest, &part.memoryRequest, &part.cpuRequested, &part.memoryRequested,
			&peakMemory, &cpuAverage, &throttled); err != nil {
			return err
		}
		if all[kind] == nil {
			all[kind] = newSums()
		}
		all[kind].merge(&part, peakMemory, cpuAverage, throttled)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs use: %w", err)
	}
	sizes := make([]Size, 0, len(all))
	for kind, sums := range all {
		sizes = append(sizes, sizeOf(kind, sums, prices))
	}
	slices.SortFunc(sizes, func(a, b Size) int {
		return cmp.Or(cmp.Compare(b.Saving, a.Saving), cmp.Compare(b.RunHours, a.RunHours),
			cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	return sizes[:min(len(sizes), MaxGroups)], nil
}

func sizeOf(kind kindOfJob, s *sums, prices Prices) Size {
	const enough = 0.95
	size := Size{
		Cluster: kind.cluster, Namespace: kind.namespace, Set: kind.set, Repository: kind.repository,
		Workflow: kind.workflow, Name: kind.name,
		Jobs: s.jobs, Measured: s.measured, RunHours: float64(s.runSeconds) / float64(hour),
		CPURequestMillis: s.cpuRequest, MemoryRequestBytes: s.memoryRequest,
		PeakMemoryBytes: s.peakMemory.Quantile(enough), CPUAverageMillis: s.cpuAverage.Quantile(enough),
		ThrottledPercent: s.throttled.Quantile(enough),
	}
	seconds := float64(s.runSeconds)
	if s.cpuAverage.Count() > 0 {
		unused := float64(s.cpuRequested) - seconds*float64(size.CPUAverageMillis)
		size.Saving += unused / 1000 / float64(hour) * prices.CPUHour
	}
	if s.peakMemory.Count() > 0 {
		unused := float64(s.memoryRequested) - seconds*float64(size.PeakMemoryBytes>>20)
		size.Saving += unused / 1024 / float64(hour) * prices.GiBHour
	}
	return size
}

// merge adds sums, whose histograms are in the form that the database has.
func (s *sums) merge(part *sums, peakMemory, cpuAverage, throttled string) {
	cpu, memory := max(s.cpuRequest, part.cpuRequest), max(s.memoryRequest, part.memoryRequest)
	numbers := s.numbers()
	for i, number := range part.numbers() {
		*numbers[i] = plus(*numbers[i], *number)
	}
	s.cpuRequest, s.memoryRequest = cpu, memory
	for h, text := range map[*histogram.Histogram]string{&s.peakMemory: peakMemory, &s.cpuAverage: cpuAverage,
		&s.throttled: throttled} {
		h.Merge(text)
	}
}
