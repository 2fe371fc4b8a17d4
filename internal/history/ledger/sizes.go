package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/harrier-ci/harrier/internal/history/fold"
	"github.com/harrier-ci/harrier/internal/history/histogram"
)

// Size has the requests of a workflow's job, and what it uses of them by the figures that feedback.jobLog has left of
// its runs.
type Size struct {
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace"`
	Set        string `json:"set"`
	Repository string `json:"repository"`
	Workflow   string `json:"workflow"`
	Name       string `json:"name"`

	// Jobs is the number of jobs that have finished, Measured of those whose use is known.
	Jobs     int64   `json:"jobs"`
	Measured int64   `json:"measured"`
	RunHours float64 `json:"runHours"`

	// The requests are the largest that a pod of these jobs had.
	CPURequestMillis   int64 `json:"cpuRequestMillis"`
	MemoryRequestBytes int64 `json:"memoryRequestBytes"`

	// The 95th percentiles, at most 5 % too large, nil if nothing is known.
	PeakMemoryBytes  *int64 `json:"peakMemoryBytesP95,omitempty"`
	CPUAverageMillis *int64 `json:"cpuAverageMillisP95,omitempty"`
	ThrottledPercent *int64 `json:"throttledPercentP95,omitempty"`

	// With requests as large as those percentiles the same time would have cost less by Saving, by the prices of the call.
	// Saving is negative for jobs that use more than they request, and 0 if nothing is known.
	Saving float64 `json:"saving"`
}

// kindOfJob has what is common to jobs whose use is told together.
type kindOfJob struct{ cluster, namespace, set, repository, workflow, name string }

// sizedKinds bounds the rows of a period that Sizes looks at, which are those of the largest kinds of each scale set.
// Each row has several histograms to be read: 5 µs. Of each set minSizedKinds are read, however many sets there are.
const (
	sizedKinds    = 3000
	minSizedKinds = 20
)

// Sizes returns the use of each job of a workflow that the filter chooses, the largest saving first. Kinds that are
// folded are left out: no size suits all of them.
func (l *Ledger) Sizes(ctx context.Context, filter Filter, prices Prices) ([]Size, error) {
	q, err := l.periods(ctx, "SELECT "+kindColumns+", "+numberColumns+", "+histogramColumns+" FROM usage_periods", &filter,
		ByJob)
	if err != nil {
		return nil, err
	}
	sets, err := l.setsIn(ctx, &filter)
	if err != nil {
		return nil, err
	}
	q.and("position < ?", max(minSizedKinds, sizedKinds/max(1, sets)))
	q.and("job_name <> ?", fold.Others)
	all := fold.NewGroups[kindOfJob](MaxGroups, nil, sumRules)
	err = l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var kind kindOfJob
		var part sums
		var texts histograms
		targets := []any{&kind.cluster, &kind.namespace, &kind.set, &kind.repository, &kind.workflow, &kind.name}
		for _, number := range part.numbers() {
			targets = append(targets, number)
		}
		if err := rows.Scan(append(targets, texts.columns()...)...); err != nil {
			return err
		}
		texts.times = "" // no waits are asked for
		of := all.Of(kind)
		of.mergeNumbers(&part)
		of.mergeHistograms(&texts)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs use: %w", err)
	}
	sizes := []Size{}
	for _, kind := range all.Largest(func(a, b *sums) int { return cmp.Compare(b.cost(prices), a.cost(prices)) }) {
		sizes = append(sizes, sizeOf(kind, all.Sums(kind), prices))
	}
	slices.SortFunc(sizes, func(a, b Size) int {
		return cmp.Or(cmp.Compare(b.Saving, a.Saving), cmp.Compare(b.RunHours, a.RunHours),
			cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	return sizes, nil
}

func sizeOf(kind kindOfJob, s *sums, prices Prices) Size {
	enough := func(h histogram.Histogram) *int64 {
		if h.Count() == 0 {
			return nil
		}
		return new(h.Quantile(0.95))
	}
	size := Size{
		Cluster: kind.cluster, Namespace: kind.namespace, Set: kind.set, Repository: kind.repository,
		Workflow: kind.workflow, Name: kind.name,
		Jobs: s.jobs, Measured: s.measured, RunHours: float64(s.runSeconds) / float64(hour),
		CPURequestMillis: s.cpuRequest, MemoryRequestBytes: s.memoryRequest,
		PeakMemoryBytes: enough(s.peakMemory), CPUAverageMillis: enough(s.cpuAverage),
		ThrottledPercent: enough(s.throttled),
	}
	seconds := float64(s.runSeconds)
	if average := size.CPUAverageMillis; average != nil {
		unused := float64(s.cpuRequested) - seconds*float64(*average)
		size.Saving += unused / 1000 / float64(hour) * prices.CPUHour
	}
	if peak := size.PeakMemoryBytes; peak != nil {
		unused := float64(s.memoryRequested) - seconds*float64(*peak>>20)
		size.Saving += unused / 1024 / float64(hour) * prices.GiBHour
	}
	return size
}
