package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/internal/history/histogram"
)

const (
	hour int64 = 60 * 60
	day  int64 = 24 * hour
	week int64 = 7 * day
)

// spans are those of periods, in seconds, in UTC. A job counts in the periods in which it finished. An hour is added up
// from its jobs, and a longer period from those of the span before. Weeks begin on Thursdays, as 1970 did. With them a
// question about 90 days reads 8 rows of each kind of job on average, and 13 at most, in place of 90.
var spans = []int64{hour, day, week, 4 * week}

// daysOfSets is the span of days in which the jobs of a scale set are added up together, for questions by day. It is
// negative to differ from that of days.
const daysOfSets = -day

// kindOfJob has what is common to jobs that are added up together.
type kindOfJob struct{ cluster, namespace, set, repository, workflow, name string }

// sums are those of the jobs of one kind. They are written in the order of numbers.
type sums struct {
	jobs, succeeded, failed, canceled, lost, measured int64
	runSeconds                                        int64
	// cpuRequested and cpuUsed are thousandths of a CPU times seconds, memoryRequested MiB times seconds.
	cpuRequested, memoryRequested, cpuUsed int64
	// waited is the number of jobs with known waits; waits are their seconds by phase, in the order of waitPhases.
	waited int64
	waits  [7]int64
	// The largest requests.
	cpuRequest, memoryRequest int64

	peakMemory, cpuAverage, throttled histogram.Histogram
	times                             histogram.List
}

const numberColumns = "jobs, succeeded, failed, canceled, lost, measured, run_seconds, cpu_requested, " +
	"memory_requested, cpu_used, waited, " +
	"wait_assigned, wait_created, wait_registered, wait_placed, wait_image_pulled, wait_container_up, wait_started, " +
	"cpu_request_millis, memory_request_bytes"

// numbers returns the columns of numbers, in the order of numberColumns.
func (s *sums) numbers() []*int64 {
	numbers := []*int64{&s.jobs, &s.succeeded, &s.failed, &s.canceled, &s.lost, &s.measured, &s.runSeconds,
		&s.cpuRequested, &s.memoryRequested,
		&s.cpuUsed, &s.waited}
	for i := range s.waits {
		numbers = append(numbers, &s.waits[i])
	}
	return append(numbers, &s.cpuRequest, &s.memoryRequest)
}

// Limits of the figures of one job: its own pod states its requests, and sums must not overflow. They are beyond the
// largest machines, and 35 days are the longest that GitHub lets a workflow run take.
const (
	maxCPUMillis  = 10_000_000 // ten thousand CPUs
	maxMemoryMiB  = 64 << 20   // 64 TiB
	maxRunSeconds = 35 * day
)

// plus adds without overflow.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func newSums() *sums { return &sums{times: newWaitTimes()} }

// count counts a job.
func (s *sums) count(job *Job) {
	s.jobs++
	switch job.Result {
	case "succeeded":
		s.succeeded++
	case "failed":
		s.failed++
	case "canceled":
		s.canceled++
	}
	if job.LostCause != "" {
		s.lost++
	}
	run := min(int64(job.RunTime().Seconds()), maxRunSeconds)
	s.runSeconds += run
	cpu, memory := min(ptr.Deref(job.CPURequestMillis, 0), maxCPUMillis), ptr.Deref(job.MemoryRequestBytes, 0)
	s.cpuRequested = plus(s.cpuRequested, cpu*run)
	s.memoryRequested = plus(s.memoryRequested, min(memory>>20, maxMemoryMiB)*run)
	s.cpuRequest, s.memoryRequest = max(s.cpuRequest, cpu), max(s.memoryRequest, memory)
	if job.CPUMicroseconds != nil {
		s.cpuUsed = plus(s.cpuUsed, min(*job.CPUMicroseconds/1000, maxCPUMillis*maxRunSeconds))
	}
	if job.PeakMemoryBytes != nil {
		s.measured++
		s.peakMemory.Add(*job.PeakMemoryBytes)
	}
	if average := job.CPUAverageMillis(); average != nil {
		s.cpuAverage.Add(*average)
	}
	if throttled := job.ThrottledPercent(); throttled != nil {
		s.throttled.Add(*throttled)
	}
	waits := job.Waits()
	if len(waits) > 0 {
		s.waited++
	}
	whole := int64(0)
	for _, wait := range waits {
		i, seconds := slices.Index(waitPhases[:], wait.Phase), int64(wait.Took.Seconds())
		if i < 0 {
			continue
		}
		s.waits[i] += seconds
		s.times[i].Add(seconds)
		whole += seconds
	}
	if len(waits) > 0 {
		s.times[len(waitPhases)].Add(whole)
	}
}

// AddUp adds up the periods whose jobs have changed since the last AddUp, also periods that are not over. Until then
// questions about many jobs have their former answers.
func (l *Ledger) AddUp(ctx context.Context) error {
	for i, span := range spans {
		q := &query{}
		q.add("SELECT started FROM stale_periods")
		q.and("span = ?", span)
		q.add(" ORDER BY started")
		var stale []int64
		if err := l.rows(ctx, q, func(rows *sql.Rows) error {
			var started int64
			err := rows.Scan(&started)
			stale = append(stale, started)
			return err
		}); err != nil {
			return fmt.Errorf("read which periods have changed: %w", err)
		}
		for _, started := range stale {
			if err := l.transaction(ctx, func(tx *sql.Tx) error { return addUp(ctx, tx, i, started) }); err != nil {
				return fmt.Errorf("add up the jobs since %s: %w", time.Unix(started, 0).UTC().Format(time.RFC3339), err)
			}
		}
	}
	return nil
}

// markStale marks the periods in which jobs have finished at these times, so that they are added up again.
func markStale(ctx context.Context, tx *sql.Tx, finished map[int64]bool) error {
	periods := map[int64]bool{}
	for at := range finished {
		periods[at-at%hour] = true
	}
	for _, started := range slices.Sorted(maps.Keys(periods)) {
		if err := mark(ctx, tx, hour, started); err != nil {
			return err
		}
	}
	return nil
}

// mark has a period added up. If the period is marked already, a ledger that is about to add it up waits for the end of
// this transaction, and then sees what the transaction has written.
func mark(ctx context.Context, tx *sql.Tx, span, started int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO stale_periods (span, started) VALUES ($1, $2) "+
		"ON CONFLICT (span, started) DO UPDATE SET span = excluded.span", span, started)
	return err
}

// addUp writes the sums of one period of the span with this index, and marks the longer period that contains it. The
// period's own mark goes first, so that a job that another ledger writes meanwhile marks it again.
func addUp(ctx context.Context, tx *sql.Tx, i int, started int64) error {
	span := spans[i]
	if _, err := tx.ExecContext(ctx, "DELETE FROM stale_periods WHERE span = $1 AND started = $2", span,
		started); err != nil {
		return err
	}
	summed := map[kindOfJob]*sums{}
	of := func(kind kindOfJob) *sums {
		if summed[kind] == nil {
			summed[kind] = newSums()
		}
		return summed[kind]
	}
	read, text, values := addJob, selectJobs+" WHERE finished >= $1 AND finished < $2", []any{started, started + span}
	if i > 0 {
		read, text = addPeriod, selectPeriods+" WHERE started >= $1 AND started < $2 AND span = $3"
		values = append(values, spans[i-1])
	}
	rows, err := tx.QueryContext(ctx, text, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows, of); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := writePeriod(ctx, tx, span, started, summed); err != nil || i+1 == len(spans) {
		return err
	}
	longer := spans[i+1]
	return mark(ctx, tx, longer, started-started%longer)
}

const (
	kindColumns      = "cluster, namespace, set_name, repository, workflow, job_name"
	histogramColumns = "peak_memory, cpu_average, throttled, wait_times"
	selectPeriods    = "SELECT " + kindColumns + ", " + numberColumns + ", " + histogramColumns + " FROM usage_periods"
)

func (k *kindOfJob) texts() []*string {
	return []*string{&k.cluster, &k.namespace, &k.set, &k.repository, &k.workflow, &k.name}
}

func addJob(rows *sql.Rows, of func(kindOfJob) *sums) error {
	job, err := scanJob(rows)
	if err != nil {
		return err
	}
	of(kindOfJob{job.Cluster, job.Namespace, job.Set, job.Repository, job.Workflow, job.Name}).count(&job)
	return nil
}

func addPeriod(rows *sql.Rows, of func(kindOfJob) *sums) error {
	var kind kindOfJob
	var part sums
	var peakMemory, cpuAverage, throttled, times string
	var targets []any
	for _, text := range kind.texts() {
		targets = append(targets, text)
	}
	for _, number := range part.numbers() {
		targets = append(targets, number)
	}
	if err := rows.Scan(append(targets, &peakMemory, &cpuAverage, &throttled, &times)...); err != nil {
		return err
	}
	of(kind).merge(&part, peakMemory, cpuAverage, throttled, times)
	return nil
}

var insertPeriod = func() string {
	const columns = "span, started, " + kindColumns + ", " + numberColumns + ", " + histogramColumns
	places := make([]string, strings.Count(columns, ",")+1)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	return "INSERT INTO usage_periods (" + columns + ") VALUES (" + strings.Join(places, ", ") + ")"
}()

// writePeriod replaces the sums of a period, and those of a day's sets.
func writePeriod(ctx context.Context, tx *sql.Tx, span, started int64, summed map[kindOfJob]*sums) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM usage_periods WHERE span = $1 AND started = $2", span,
		started); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, insertPeriod)
	if err != nil {
		return err
	}
	defer insert.Close()
	for kind, sums := range summed {
		values := []any{span, started}
		for _, text := range kind.texts() {
			values = append(values, *text)
		}
		for _, number := range sums.numbers() {
			values = append(values, *number)
		}
		values = append(values, sums.peakMemory.String(), sums.cpuAverage.String(), sums.throttled.String(),
			sums.times.String())
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	if span != day {
		return nil
	}
	sets := map[kindOfJob]*sums{}
	for kind, of := range summed {
		set := kindOfJob{cluster: kind.cluster, namespace: kind.namespace, set: kind.set}
		if sets[set] == nil {
			sets[set] = newSums()
		}
		sets[set].merge(of, of.peakMemory.String(), of.cpuAverage.String(), of.throttled.String(), of.times.String())
	}
	return writePeriod(ctx, tx, daysOfSets, started, sets)
}
