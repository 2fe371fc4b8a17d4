package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// By is what usage is added up by.
type By string

// What usage can be added up by.
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

// Prices are what a CPU and a GiB of memory cost for an hour, in a currency that only the user knows.
type Prices struct{ CPUHour, GiBHour float64 }

// Usage is what jobs that have finished come to.
type Usage struct {
	// Of these are set those that it is added up by; Day for ByDay.
	Cluster    string    `json:"cluster,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Set        string    `json:"set,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Workflow   string    `json:"workflow,omitempty"`
	Name       string    `json:"name,omitempty"`
	Day        time.Time `json:"day,omitzero"`

	Jobs      int64 `json:"jobs"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
	Lost      int64 `json:"lost"`

	// RunHours are from the start of jobs to their end. The requested hours are what their pods requested, times that.
	RunHours           float64 `json:"runHours"`
	CPUHoursRequested  float64 `json:"cpuHoursRequested"`
	GiBHoursRequested  float64 `json:"gibHoursRequested"`
	CPUHoursUsed       float64 `json:"cpuHoursUsed"`
	JobsWithKnownUsage int64   `json:"jobsWithKnownUsage"`

	// Waits is how many seconds jobs waited on average until they reached a phase, from the phase before;
	// JobsWithKnownWait is of how many that is known.
	Waits             map[string]float64 `json:"waits,omitempty"`
	JobsWithKnownWait int64              `json:"jobsWithKnownWait"`

	// Cost is what was requested, by the prices of the call; 0 without prices.
	Cost float64 `json:"cost"`
}

// MaxGroups bounds the answers of Usage and Sizes; the largest are kept.
const MaxGroups = 1000

// UsageBy returns what the jobs come to that the filter chooses, the largest cost or run time first. From and To are
// widened to whole hours.
func (l *Ledger) UsageBy(ctx context.Context, by By, filter Filter, prices Prices) ([]Usage, error) {
	group, known := groups[by]
	if !known {
		return nil, &FilterError{"by", string(by), "set, repository, workflow, job or day"}
	}
	q, err := l.periods(ctx, "SELECT "+group+", "+summedColumns+" FROM usage_periods", &filter)
	if err != nil {
		return nil, err
	}
	q.add(" GROUP BY " + group)
	usage := []Usage{}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		u, err := scanUsage(rows, by, prices)
		usage = append(usage, u)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs come to: %w", err)
	}
	slices.SortStableFunc(usage, func(a, b Usage) int {
		if by == ByDay {
			return a.Day.Compare(b.Day)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.RunHours, a.RunHours),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	return usage[:min(len(usage), MaxGroups)], nil
}

// summedColumns are the sums of all numbers, in the order of sums.numbers; of requests it is the largest.
var summedColumns = func() string {
	names := strings.Split(numberColumns, ", ")
	for i, name := range names {
		function := "SUM"
		if strings.HasSuffix(name, "_request_millis") || strings.HasSuffix(name, "_request_bytes") {
			function = "MAX"
		}
		names[i] = "CAST(" + function + "(" + name + ") AS BIGINT)"
	}
	return strings.Join(names, ", ")
}()

func scanUsage(rows *sql.Rows, by By, prices Prices) (Usage, error) {
	var u Usage
	var s sums
	var started int64
	targets := map[By][]any{
		BySet: {&u.Cluster, &u.Namespace, &u.Set}, ByRepository: {&u.Repository}, ByWorkflow: {&u.Repository, &u.Workflow},
		ByJob: {&u.Repository, &u.Workflow, &u.Name}, ByDay: {&started},
	}[by]
	for _, number := range s.numbers() {
		targets = append(targets, number)
	}
	if err := rows.Scan(targets...); err != nil {
		return u, err
	}
	if by == ByDay {
		u.Day = time.Unix(started, 0).UTC()
	}
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
	u.Cost = u.CPUHoursRequested*prices.CPUHour + u.GiBHoursRequested*prices.GiBHour
	return u, nil
}

// periods begins a query of the periods that cover the filter's time: days as far as they are added up, and hours at
// its ends.
func (l *Ledger) periods(ctx context.Context, text string, filter *Filter) (*query, error) {
	unready := &query{}
	unready.add("SELECT started FROM stale_periods")
	unready.and("span = ?", day)
	stale := map[int64]bool{}
	if err := l.rows(ctx, unready, func(rows *sql.Rows) error {
		var started int64
		err := rows.Scan(&started)
		stale[started] = true
		return err
	}); err != nil {
		return nil, fmt.Errorf("read which days are not added up: %w", err)
	}
	q := &query{}
	q.add(text)
	var parts []string
	var bounds []any
	for _, part := range cover(filter.From, filter.To, stale) {
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

// part is a time that is read from periods of one span.
type part struct{ span, from, to int64 }

// cover returns the periods that make up a time: whole days where they are added up, and else hours. Its ends are
// widened to whole hours.
func cover(from, to time.Time, stale map[int64]bool) (parts []part) {
	last := int64(latest)
	if !to.IsZero() {
		last = to.Unix() + (hour-to.Unix()%hour)%hour
	}
	next := int64(0)
	if !from.IsZero() {
		next = max(0, from.Unix()-from.Unix()%hour)
	}
	breaks := slices.Sorted(func(yield func(int64) bool) {
		for started := range stale {
			if started+day > next && started < last && !yield(started) {
				return
			}
		}
	})
	hours := func(until int64) {
		if until > next {
			parts = append(parts, part{hour, next, until})
			next = until
		}
	}
	days := func(until int64) {
		if until > next {
			parts = append(parts, part{day, next, until})
			next = until
		}
	}
	whole := func(until int64) { // from next, as many whole days as there are
		hours(min(until, next+(day-next%day)%day))
		days(until - until%day)
		hours(until)
	}
	for _, started := range breaks {
		whole(max(next, min(started, last)))
		hours(min(started+day, last))
	}
	whole(last)
	return parts
}
