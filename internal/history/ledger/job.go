package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Job has the known facts about a job and the runner that had it. A zero time, an empty text or a nil number is not
// known.
type Job struct {
	RunnerUID string `json:"runnerUID"`
	// Cluster tells the clusters apart that share a database.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	// Runner is the name of the runner and its pod.
	Runner string `json:"runner"`
	// At is the start of the job or, if that is not known, the creation of its runner. Jobs are ordered by it, and kept
	// for the retention from it on.
	At time.Time `json:"at"`

	// Repository is OWNER/REPO, Workflow OWNER/REPO/PATH of the workflow's file, and Ref the ref that the run has taken
	// the file from.
	Repository string `json:"repository,omitempty"`
	Workflow   string `json:"workflow,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Name       string `json:"name,omitempty"`
	RunID      *int64 `json:"runID,omitempty"`
	// JobID is GitHub's word for the job in messages to runners; the number in the address of its page is another.
	JobID string `json:"jobID,omitempty"`
	// Attempt is known of lost jobs that were to be run again.
	Attempt *int64 `json:"attempt,omitempty"`
	Event   string `json:"event,omitempty"`

	Queued      time.Time `json:"queued,omitzero"`
	Assigned    time.Time `json:"assigned,omitzero"`
	Created     time.Time `json:"created,omitzero"`
	Registered  time.Time `json:"registered,omitzero"`
	Placed      time.Time `json:"placed,omitzero"`
	ImagePulled time.Time `json:"imagePulled,omitzero"`
	ContainerUp time.Time `json:"containerUp,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Finished    time.Time `json:"finished,omitzero"`

	// Result is succeeded, failed or canceled, as GitHub says it, or Unknown if the runner was gone before GitHub had
	// said anything.
	Result    string `json:"result,omitempty"`
	LostCause string `json:"lostCause,omitempty"`
	// Rerun is the state of the lost job's rerun: Wanted, Asked, Done or GivenUp.
	Rerun string `json:"rerun,omitempty"`

	Node     string `json:"node,omitempty"`
	NodeType string `json:"nodeType,omitempty"`

	// CPURequestMillis and MemoryRequestBytes are the pod's requests; MemoryLimitBytes and the fields after it are about
	// the runner's container.
	CPURequestMillis   *int64 `json:"cpuRequestMillis,omitempty"`
	MemoryRequestBytes *int64 `json:"memoryRequestBytes,omitempty"`
	MemoryLimitBytes   *int64 `json:"memoryLimitBytes,omitempty"`
	PeakMemoryBytes    *int64 `json:"peakMemoryBytes,omitempty"`
	CPUMicroseconds    *int64 `json:"cpuMicroseconds,omitempty"`
	CPUPeriods         *int64 `json:"cpuPeriods,omitempty"`
	ThrottledPeriods   *int64 `json:"throttledPeriods,omitempty"`
	OOMKills           *int64 `json:"oomKills,omitempty"`
}

// ResultUnknown is the result of a job whose runner was gone before GitHub had reported one.
const ResultUnknown = "Unknown"

// RunTime returns the time from the job's start to its end, 0 if that is not known. Clocks differ, so a job may seem to
// have ended before it began.
func (j *Job) RunTime() time.Duration {
	if j.Started.IsZero() || j.Finished.IsZero() {
		return 0
	}
	return max(0, j.Finished.Sub(j.Started))
}

// CPUAverageMillis returns the thousandths of a CPU that the job used on average, nil if they are not known.
func (j *Job) CPUAverageMillis() *int64 {
	seconds := int64(j.RunTime().Seconds())
	if j.CPUMicroseconds == nil || seconds == 0 {
		return nil
	}
	return new(*j.CPUMicroseconds / 1000 / seconds)
}

// ThrottledPercent returns the part of its working time, in percent, in which the job was held back by its CPU limit,
// nil if that is not known.
func (j *Job) ThrottledPercent() *int64 {
	if j.ThrottledPeriods == nil || j.CPUPeriods == nil || *j.CPUPeriods == 0 {
		return nil
	}
	return new(min(100, *j.ThrottledPeriods/max(1, *j.CPUPeriods/100)))
}

// merge is a rule by which two reports about a job become one. Each rule gives the same result whichever report comes
// first, as long as both report the same of a fact that never changes in the cluster.
type merge string

// The rules. %[1]s stands for the column.
const (
	// firstKnown is for facts that never change after they are known.
	firstKnown merge = "COALESCE(jobs.%[1]s, excluded.%[1]s)"
	firstText  merge = "CASE WHEN jobs.%[1]s = '' THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// largest is for times of the latest of a runner's pods, and for figures that grow.
	largest merge = "CASE WHEN jobs.%[1]s IS NULL OR excluded.%[1]s > jobs.%[1]s THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// ofLatestPod is for facts about the latest of a runner's pods.
	ofLatestPod merge = "CASE WHEN excluded.%[1]s <> '' AND (jobs.placed IS NULL OR excluded.placed >= jobs.placed) " +
		"THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// realResult: GitHub's result counts more than none, and more than Unknown.
	realResult merge = "CASE WHEN jobs.%[1]s IN ('', '" + ResultUnknown +
		"') AND excluded.%[1]s <> '' THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// furthest: Wanted, Asked, and at last Done or GivenUp.
	furthest merge = "CASE WHEN excluded.%[1]s = '' OR jobs.%[1]s IN ('Done', 'GivenUp') " +
		"OR (jobs.%[1]s = 'Asked' AND excluded.%[1]s = 'Wanted') THEN jobs.%[1]s ELSE excluded.%[1]s END"
	// startOrCreation follows the job's start as soon as that is known.
	startOrCreation merge = "COALESCE(jobs.started, excluded.started, jobs.%[1]s)"
)

// column is a column of the table jobs.
type column struct {
	name  string
	rule  merge // empty for the key
	field func(*Job) any
}

// columns has all of them. field returns a pointer to a field of a job: *string, *time.Time or **int64.
var columns = []column{
	{"runner_uid", "", func(j *Job) any { return &j.RunnerUID }},
	{"cluster", firstText, func(j *Job) any { return &j.Cluster }},
	{"namespace", firstText, func(j *Job) any { return &j.Namespace }},
	{"set_name", firstText, func(j *Job) any { return &j.Set }},
	{"runner", firstText, func(j *Job) any { return &j.Runner }},
	{"at", startOrCreation, func(j *Job) any { return &j.At }},
	{"repository", firstText, func(j *Job) any { return &j.Repository }},
	{"workflow", firstText, func(j *Job) any { return &j.Workflow }},
	{"ref", firstText, func(j *Job) any { return &j.Ref }},
	{"job_name", firstText, func(j *Job) any { return &j.Name }},
	{"run_id", firstKnown, func(j *Job) any { return &j.RunID }},
	{"job_id", firstText, func(j *Job) any { return &j.JobID }},
	{"attempt", largest, func(j *Job) any { return &j.Attempt }},
	{"event", firstText, func(j *Job) any { return &j.Event }},
	{"queued", firstKnown, func(j *Job) any { return &j.Queued }},
	{"assigned", firstKnown, func(j *Job) any { return &j.Assigned }},
	{"created", firstKnown, func(j *Job) any { return &j.Created }},
	{"registered", largest, func(j *Job) any { return &j.Registered }},
	{"placed", largest, func(j *Job) any { return &j.Placed }},
	{"image_pulled", largest, func(j *Job) any { return &j.ImagePulled }},
	{"container_up", largest, func(j *Job) any { return &j.ContainerUp }},
	{"started", firstKnown, func(j *Job) any { return &j.Started }},
	{"finished", firstKnown, func(j *Job) any { return &j.Finished }},
	{"result", realResult, func(j *Job) any { return &j.Result }},
	{"lost_cause", firstText, func(j *Job) any { return &j.LostCause }},
	{"rerun", furthest, func(j *Job) any { return &j.Rerun }},
	{"node", ofLatestPod, func(j *Job) any { return &j.Node }},
	{"node_type", ofLatestPod, func(j *Job) any { return &j.NodeType }},
	{"cpu_request_millis", firstKnown, func(j *Job) any { return &j.CPURequestMillis }},
	{"memory_request_bytes", firstKnown, func(j *Job) any { return &j.MemoryRequestBytes }},
	{"memory_limit_bytes", firstKnown, func(j *Job) any { return &j.MemoryLimitBytes }},
	{"peak_memory_bytes", largest, func(j *Job) any { return &j.PeakMemoryBytes }},
	{"cpu_microseconds", largest, func(j *Job) any { return &j.CPUMicroseconds }},
	{"cpu_periods", largest, func(j *Job) any { return &j.CPUPeriods }},
	{"throttled_periods", largest, func(j *Job) any { return &j.ThrottledPeriods }},
	{"oom_kills", largest, func(j *Job) any { return &j.OOMKills }},
}

// value returns the value of a field in the database.
func value(field any) any {
	switch f := field.(type) {
	case *string:
		return Clean(*f)
	case *time.Time:
		return seconds(*f)
	default:
		number := *field.(**int64)
		if number == nil || *number < 0 {
			return nil
		}
		return *number
	}
}

var selectJobs = func() string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM jobs"
}()

// scanJob reads a row with all columns.
func scanJob(rows *sql.Rows) (Job, error) {
	var job Job
	times := make([]sql.NullInt64, len(columns))
	targets := make([]any, len(columns))
	for i := range columns {
		targets[i] = columns[i].field(&job)
		if _, dated := targets[i].(*time.Time); dated {
			targets[i] = &times[i]
		}
	}
	if err := rows.Scan(targets...); err != nil {
		return job, err
	}
	for i := range columns {
		if at, dated := columns[i].field(&job).(*time.Time); dated {
			*at = timeOf(times[i])
		}
	}
	return job, nil
}

// Fill returns a report with those facts added that only an earlier report about the same job knows.
func Fill(newer, earlier Job) Job {
	for i := range columns {
		known, was := columns[i].field(&newer), columns[i].field(&earlier)
		switch to := known.(type) {
		case *string:
			*to = cmp.Or(*to, *was.(*string))
		case *time.Time:
			if to.IsZero() {
				*to = *was.(*time.Time)
			}
		default:
			if number := known.(**int64); *number == nil {
				*number = *was.(**int64)
			}
		}
	}
	return newer
}

// Cut returns a report with texts as long as the database has them. Whoever may write a runner's status chooses them.
func Cut(job Job) Job {
	for i := range columns {
		if text, is := columns[i].field(&job).(*string); is {
			*text = Clean(*text)
		}
	}
	return job
}

// Size returns about how many bytes a report takes in memory.
func (j *Job) Size() int {
	const numbers = 700 // 13 numbers behind pointers, 10 times, 15 headers of texts
	size := numbers
	for i := range columns {
		if text, is := columns[i].field(j).(*string); is {
			size += len(*text)
		}
	}
	return size
}

// Same reports whether two reports say the same.
func Same(a, b Job) bool {
	for i := range columns {
		if value(columns[i].field(&a)) != value(columns[i].field(&b)) {
			return false
		}
	}
	return true
}

// upsert writes a job, and merges it with the row that was written before.
var upsert = func() string {
	names, places, merges := make([]string, len(columns)), make([]string, len(columns)), []string{}
	for i, column := range columns {
		names[i], places[i] = column.name, fmt.Sprintf("$%d", i+1)
		if column.rule != "" {
			merges = append(merges, column.name+" = "+fmt.Sprintf(string(column.rule), column.name))
		}
	}
	return "INSERT INTO jobs (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(places, ", ") +
		") ON CONFLICT (runner_uid) DO UPDATE SET " + strings.Join(merges, ", ") + " RETURNING cluster, namespace, set_name, finished"
}()

// Put writes jobs, all of them or none. Jobs without a runner's UID or a time are left out.
func (l *Ledger) Put(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		statement, err := tx.PrepareContext(ctx, upsert)
		if err != nil {
			return err
		}
		defer statement.Close()
		// Two ledgers that write the same rows must do so in the same order, or they wait for each other.
		jobs := slices.SortedFunc(slices.Values(jobs),
			func(a, b Job) int { return strings.Compare(a.RunnerUID, b.RunnerUID) })
		sets, err := registered(ctx, tx, jobs)
		if err != nil {
			return err
		}
		stale := map[finish]bool{}
		values := make([]any, len(columns))
		for i := range jobs {
			if jobs[i].RunnerUID == "" || seconds(jobs[i].At) == nil {
				continue
			}
			jobs[i].Set = sets[setOf(&jobs[i])]
			for c := range columns {
				values[c] = value(columns[c].field(&jobs[i]))
			}
			var of finish
			var finished sql.NullInt64
			if err := statement.QueryRowContext(ctx, values...).Scan(&of.cluster, &of.namespace, &of.set,
				&finished); err != nil {
				return fmt.Errorf("write the job of runner %s/%s: %w", jobs[i].Namespace, jobs[i].Runner, err)
			}
			if of.at = finished.Int64; finished.Valid {
				stale[of] = true
			}
		}
		return markStale(ctx, tx, stale)
	})
}

// Running returns the UIDs of the runners of a cluster whose jobs have not finished, as far as the ledger knows; of one
// namespace, or of all if it is empty.
func (l *Ledger) Running(ctx context.Context, cluster, namespace string) (uids []string, err error) {
	q := &query{}
	q.add("SELECT runner_uid FROM jobs")
	q.and("finished IS NULL")
	q.and("cluster = ?", Clean(cluster))
	if namespace != "" {
		q.and("namespace = ?", Clean(namespace))
	}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var uid string
		err := rows.Scan(&uid)
		uids = append(uids, uid)
		return err
	})
	return uids, err
}

// Gone writes that runners are gone whose jobs have not finished as far as the ledger knows: the results of these jobs
// will never be known.
func (l *Ledger) Gone(ctx context.Context, uids []string, at time.Time) error {
	return l.transaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stale := map[finish]bool{}
		for _, uid := range slices.Sorted(slices.Values(uids)) {
			of := finish{at: at.Unix()}
			err := tx.QueryRowContext(ctx, "UPDATE jobs SET finished = $1, result = CASE WHEN result = '' THEN '"+
				ResultUnknown+"' ELSE result END WHERE runner_uid = $2 AND finished IS NULL "+
				"RETURNING cluster, namespace, set_name", seconds(at), uid).Scan(&of.cluster, &of.namespace, &of.set)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return fmt.Errorf("write that the runner with UID %s is gone: %w", uid, err)
			}
			stale[of] = true
		}
		return markStale(ctx, tx, stale)
	})
}
