package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/history/fold"
	"github.com/harrier-ci/harrier/internal/history/histogram"
)

// By is a property of jobs by which their usage is added up.
type By string

// The properties by which usage can be added up.
const (
	BySet        By = "set"
	ByRepository By = "repository"
	ByWorkflow   By = "workflow"
	ByJob        By = "job"
	ByDay        By = "day"
)

// groups are the columns of each.
var groups = map[By]string{
	BySet: "cluster, namespace, set_name", ByRepository: "repository", ByWorkflow: "repository, workflow",
	ByJob: "repository, workflow, job_name", ByDay: "started - started % 86400",
}

// Group has what is common to jobs that are added up together. Only the fields by which they are added up are set; Day
// for ByDay.
type Group struct {
	Cluster    string    `json:"cluster,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Set        string    `json:"set,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Workflow   string    `json:"workflow,omitempty"`
	Name       string    `json:"name,omitempty"`
	Day        time.Time `json:"day,omitzero"`
}

// Folded reports whether the group has jobs whose names are not kept.
func (g *Group) Folded() bool {
	return slices.Contains([]string{g.Set, g.Repository, g.Workflow, g.Name}, fold.Others)
}

// scan reads a row that begins with the columns of a group.
func (g *Group) scan(rows *sql.Rows, by By, more ...any) error {
	var started int64
	targets := map[By][]any{
		BySet: {&g.Cluster, &g.Namespace, &g.Set}, ByRepository: {&g.Repository}, ByWorkflow: {&g.Repository, &g.Workflow},
		ByJob: {&g.Repository, &g.Workflow, &g.Name}, ByDay: {&started},
	}[by]
	err := rows.Scan(append(targets, more...)...)
	if by == ByDay {
		g.Day = time.Unix(started, 0).UTC()
	}
	return err
}

// Usage is the sum of jobs that have finished.
type Usage struct {
	Group

	Jobs      int64 `json:"jobs"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
	Lost      int64 `json:"lost"`

	// RunHours are from the start of jobs to their end. The requested hours are these hours times the requests of the
	// pods.
	RunHours           float64 `json:"runHours"`
	CPUHoursRequested  float64 `json:"cpuHoursRequested"`
	GiBHoursRequested  float64 `json:"gibHoursRequested"`
	CPUHoursUsed       float64 `json:"cpuHoursUsed"`
	JobsWithKnownUsage int64   `json:"jobsWithKnownUsage"`

	// Waits has the seconds that jobs waited on average until they reached a phase, from the phase before;
	// JobsWithKnownWait is the number of jobs of which that is known.
	Waits             map[string]float64 `json:"waits,omitempty"`
	JobsWithKnownWait int64              `json:"jobsWithKnownWait"`

	// Cost is that of the requests, by the prices of the call; 0 without prices.
	Cost float64 `json:"cost"`
}

// MaxGroups bounds the answers of Usage, Waits and Sizes. The largest are kept; further ones of Usage and Waits are
// together in a group whose names are fold.Others.
const MaxGroups = 1000

// othersOf are the groups in which groups beyond MaxGroups count. There are never so many days.
var othersOf = map[By]*Group{
	BySet:        {Cluster: fold.Others, Namespace: fold.Others, Set: fold.Others},
	ByRepository: {Repository: fold.Others}, ByWorkflow: {Repository: fold.Others, Workflow: fold.Others},
	ByJob: {Repository: fold.Others, Workflow: fold.Others, Name: fold.Others},
}

// UsageBy returns the usage of the jobs that the filter chooses, the largest cost or run time first. From and To are
// widened to whole hours.
func (l *Ledger) UsageBy(ctx context.Context, by By, filter Filter, prices Prices) ([]Usage, error) {
	group, known := groups[by]
	if !known {
		return nil, &FilterError{"by", string(by), "set, repository, workflow, job or day"}
	}
	all := fold.NewGroups(MaxGroups, othersOf[by], sumRules)
	read, apart := 0, newSums()
	err := l.sums(ctx, by, &filter, group, prices, func(of Group, part *sums) {
		read++
		apart.mergeNumbers(part)
		all.Of(of).mergeNumbers(part)
	})
	if err == nil && read > MaxGroups { // the smallest were not read
		err = l.sums(ctx, by, &filter, "", prices, func(_ Group, whole *sums) {
			numbers := whole.numbers()
			for i, number := range apart.numbers() {
				*numbers[i] = max(0, *numbers[i]-*number) // a job may have finished since these were read
			}
			all.Of(*othersOf[by]).mergeNumbers(whole)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read what jobs come to: %w", err)
	}
	usage := []Usage{}
	for _, of := range all.Largest(func(a, b *sums) int {
		return cmp.Or(cmp.Compare(b.cost(prices), a.cost(prices)), cmp.Compare(b.runSeconds, a.runSeconds))
	}) {
		usage = append(usage, usageOf(of, all.Sums(of), prices))
	}
	slices.SortStableFunc(usage, func(a, b Usage) int {
		if by == ByDay {
			return a.Day.Compare(b.Day)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.RunHours, a.RunHours),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	return usage, nil
}

// sums calls do with each of the groups with the largest cost or run time, one more than are answered, or, without
// groups, with the sums of all. To read 80,000 groups takes as long as to add them up.
func (l *Ledger) sums(
	ctx context.Context, by By, filter *Filter, group string, prices Prices, do func(of Group, part *sums),
) error {
	columns := summedColumns
	if group != "" {
		columns = group + ", " + columns
	}
	q, err := l.periods(ctx, "SELECT "+columns+" FROM usage_periods", filter, by)
	if err != nil {
		return err
	}
	if group != "" && by != ByDay {
		q.add(" GROUP BY "+group+" ORDER BY "+summed("cpu_requested")+" * CAST(? AS DOUBLE PRECISION) + "+
			summed("memory_requested")+" * CAST(? AS DOUBLE PRECISION) DESC, "+summed("run_seconds")+" DESC, "+group+
			" LIMIT ?", prices.CPUHour/1000, prices.GiBHour/1024, MaxGroups+1)
	} else if group != "" {
		q.add(" GROUP BY " + group)
	}
	return l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var of Group
		numbers := make([]sql.NullFloat64, strings.Count(numberColumns, ",")+1)
		var targets []any
		for i := range numbers {
			targets = append(targets, &numbers[i])
		}
		if group == "" {
			err = rows.Scan(targets...)
		} else {
			err = of.scan(rows, by, targets...)
		}
		if err != nil {
			return err
		}
		var part sums
		for i, number := range part.numbers() {
			*number = int64(min(numbers[i].Float64, math.MaxInt64/2))
		}
		do(of, &part)
		return nil
	})
}

func usageOf(of Group, s *sums, prices Prices) Usage {
	u := Usage{Group: of}
	u.Jobs, u.Succeeded, u.Failed, u.Canceled, u.Lost = s.jobs, s.succeeded, s.failed, s.canceled, s.lost
	u.RunHours = float64(s.runSeconds) / float64(hour)
	u.CPUHoursRequested = float64(s.cpuRequested) / 1000 / float64(hour)
	u.GiBHoursRequested = float64(s.memoryRequested) / 1024 / float64(hour)
	u.CPUHoursUsed = float64(s.cpuUsed) / 1000 / float64(hour)
	u.JobsWithKnownUsage, u.JobsWithKnownWait = s.measured, s.waited
	if s.waited > 0 {
		u.Waits = map[string]float64{}
		for i, phase := range waitPhases {
			u.Waits[phase] = float64(s.waits[i]) / float64(s.waited)
		}
	}
	u.Cost = s.cost(prices)
	return u
}

// periods begins a query of the periods that cover the filter's time: the longest that fit, and shorter ones at its
// ends. For a question by day no period is longer than a day. A question that tells only scale sets apart reads the
// sums of whole sets.
func (l *Ledger) periods(ctx context.Context, text string, filter *Filter, by By) (*query, error) {
	q := &query{}
	q.add(text)
	fitting := spans
	if by == ByDay {
		fitting = spans[:2]
	}
	whole := false
	if filter.Repository+filter.Workflow+filter.Name == "" && (by == ByDay || by == BySet || by == "") {
		var err error
		if whole, err = l.allFolded(ctx); err != nil {
			return nil, err
		}
	}
	var parts []string
	var bounds []any
	for _, part := range cover(filter.From, filter.To, fitting) {
		if whole {
			part.span = ofSets(part.span)
		}
		parts = append(parts, "(span = ? AND started >= ? AND started < ?)")
		bounds = append(bounds, part.span, part.from, part.to)
	}
	if len(parts) == 0 {
		parts = []string{"1 = 0"}
	}
	q.and("("+strings.Join(parts, " OR ")+")", bounds...)
	q.same(filter)
	return q, nil
}

// allFolded reports whether there are sums of whole sets for all periods.
func (l *Ledger) allFolded(ctx context.Context) (bool, error) {
	if l.folded.Load() {
		return true, nil
	}
	folded := true
	q := &query{}
	q.add("SELECT 1 FROM unfolded_periods LIMIT 1")
	if err := l.rows(ctx, q, func(*sql.Rows) error {
		folded = false
		return nil
	}); err != nil {
		return false, fmt.Errorf("read whether all periods are folded: %w", err)
	}
	l.folded.Store(folded) // it stays so: no version of the ledger that folds writes other periods
	return folded, nil
}

// part is a time that is read from periods of one span.
type part struct{ span, from, to int64 }

// cover returns the periods that make up a time, of these spans. Its ends are widened to whole hours.
func cover(from, to time.Time, spans []int64) (parts []part) {
	last, next := int64(latest), int64(0)
	if !to.IsZero() {
		last = to.Unix() + (hour-to.Unix()%hour)%hour
	}
	if !from.IsZero() {
		next = max(0, from.Unix()-from.Unix()%hour)
	}
	read := func(span, until int64) {
		if until = min(until, last-last%span); until > next {
			parts = append(parts, part{span, next, until})
			next = until
		}
	}
	for i, longer := range spans[1:] { // to where the first longer period begins
		read(spans[i], next+(longer-next%longer)%longer)
	}
	for _, span := range slices.Backward(spans) {
		read(span, last)
	}
	return parts
}

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
	counted, sets := &query{}, 0
	counted.add("SELECT COUNT(*) FROM scale_sets")
	counted.same(&Filter{Cluster: filter.Cluster, Namespace: filter.Namespace, Set: filter.Set})
	if err := l.rows(ctx, counted, func(rows *sql.Rows) error { return rows.Scan(&sets) }); err != nil {
		return nil, fmt.Errorf("count scale sets: %w", err)
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
