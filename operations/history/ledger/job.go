package ledger

import (
	"cmp"
	"database/sql"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Job is the row of a job.
type Job = rows.Job

// The words of a job's row.
const (
	ResultUnknown       = rows.ResultUnknown
	ElsewherePods       = rows.ElsewherePods
	ElsewhereDocker     = rows.ElsewhereDocker
	ElsewhereContainers = rows.ElsewhereContainers
	EndingRunnerGone    = rows.EndingRunnerGone
	EndingUnseen        = rows.EndingUnseen
	EndingGaveUp        = rows.EndingGaveUp
)

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
	// smallest is for the attempt of a job that later attempts carry over.
	smallest merge = "CASE WHEN jobs.%[1]s IS NULL OR excluded.%[1]s < jobs.%[1]s THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// ofLatestPod is for facts about the latest of a runner's pods.
	ofLatestPod merge = "CASE WHEN excluded.%[1]s <> '' AND (jobs.placed IS NULL OR excluded.placed >= jobs.placed) " +
		"THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// realResult: GitHub's result counts more than none, and more than Unknown.
	realResult merge = "CASE WHEN jobs.%[1]s IN ('', '" + ResultUnknown +
		"') AND excluded.%[1]s <> '' THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// bestEnd is for an end and how it is known: GitHub's word counts most, and what nobody saw least.
	bestEnd merge = "CASE WHEN excluded.finished IS NOT NULL AND (jobs.finished IS NULL OR (jobs.ending <> '' AND " +
		"excluded.ending = '') OR (jobs.ending = '" + EndingUnseen + "' AND excluded.ending <> '" + EndingUnseen +
		"')) THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// longestLimit is for what is known of a limit: a ledger that has just begun knows the last part only.
	longestLimit merge = "CASE WHEN COALESCE(excluded.limited_assigned, 0) + COALESCE(excluded.limited_created, 0) + " +
		"COALESCE(excluded.limited_placed, 0) > COALESCE(jobs.limited_assigned, 0) + COALESCE(jobs.limited_created, 0) + " +
		"COALESCE(jobs.limited_placed, 0) THEN excluded.%[1]s ELSE jobs.%[1]s END"
	// longestText is for what a job requests besides CPU and memory: pods of container hooks add to it, and a larger number
	// of the same resource is longer, or comes later.
	longestText merge = "CASE WHEN LENGTH(excluded.%[1]s) > LENGTH(jobs.%[1]s) OR (LENGTH(excluded.%[1]s) = " +
		"LENGTH(jobs.%[1]s) AND excluded.%[1]s > jobs.%[1]s) THEN excluded.%[1]s ELSE jobs.%[1]s END"
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

// jobColumns has all of them. field returns a pointer to a field of a job: *string, *time.Time or **int64.
var jobColumns = []column{
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
	{"job_number", firstKnown, func(j *Job) any { return &j.JobNumber }},
	{"attempt", smallest, func(j *Job) any { return &j.Attempt }},
	{"event", firstText, func(j *Job) any { return &j.Event }},
	{"queued", firstKnown, func(j *Job) any { return &j.Queued }},
	{"assigned", firstKnown, func(j *Job) any { return &j.Assigned }},
	{"created", firstKnown, func(j *Job) any { return &j.Created }},
	{"registered", largest, func(j *Job) any { return &j.Registered }},
	{"placed", largest, func(j *Job) any { return &j.Placed }},
	{"image_pulled", largest, func(j *Job) any { return &j.ImagePulled }},
	{"container_up", largest, func(j *Job) any { return &j.ContainerUp }},
	{"started", firstKnown, func(j *Job) any { return &j.Started }},
	{"limited_reason", longestLimit, func(j *Job) any { return &j.LimitedReason }},
	{"limit_number", longestLimit, func(j *Job) any { return &j.LimitNumber }},
	{"limited_assigned", longestLimit, func(j *Job) any { return &j.LimitedAssigned }},
	{"limited_created", longestLimit, func(j *Job) any { return &j.LimitedCreated }},
	{"limited_placed", longestLimit, func(j *Job) any { return &j.LimitedPlaced }},
	{"finished", bestEnd, func(j *Job) any { return &j.Finished }},
	{"ending", bestEnd, func(j *Job) any { return &j.Ending }},
	{"result", realResult, func(j *Job) any { return &j.Result }},
	{"lost_cause", firstText, func(j *Job) any { return &j.LostCause }},
	{"rerun", furthest, func(j *Job) any { return &j.Rerun }},
	{"rerun_reason", firstText, func(j *Job) any { return &j.RerunReason }},
	{"rerun_attempt", firstKnown, func(j *Job) any { return &j.RerunAttempt }},
	{"node", ofLatestPod, func(j *Job) any { return &j.Node }},
	{"node_type", ofLatestPod, func(j *Job) any { return &j.NodeType }},
	{"node_labels", ofLatestPod, func(j *Job) any { return &j.NodeLabels }},
	{"extended_resources", longestText, func(j *Job) any { return &j.ExtendedResources }},
	{"elsewhere", firstText, func(j *Job) any { return &j.Elsewhere }},
	{"cpu_request_millis", largest, func(j *Job) any { return &j.CPURequestMillis }},
	{"memory_request_bytes", largest, func(j *Job) any { return &j.MemoryRequestBytes }},
	{"memory_limit_bytes", firstKnown, func(j *Job) any { return &j.MemoryLimitBytes }},
	{"peak_memory_bytes", largest, func(j *Job) any { return &j.PeakMemoryBytes }},
	{"cpu_microseconds", largest, func(j *Job) any { return &j.CPUMicroseconds }},
	{"cpu_periods", largest, func(j *Job) any { return &j.CPUPeriods }},
	{"throttled_periods", largest, func(j *Job) any { return &j.ThrottledPeriods }},
	{"oom_kills", largest, func(j *Job) any { return &j.OOMKills }},
}

var selectJobs = func() string {
	names := make([]string, len(jobColumns))
	for i := range jobColumns {
		names[i] = jobColumns[i].name
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM jobs"
}()

// scanJob reads a row with all columns.
func scanJob(rows *sql.Rows) (Job, error) {
	var job Job
	times := make([]sql.NullInt64, len(jobColumns))
	targets := make([]any, len(jobColumns))
	for i := range jobColumns {
		targets[i] = jobColumns[i].field(&job)
		if _, dated := targets[i].(*time.Time); dated {
			targets[i] = &times[i]
		}
	}
	if err := rows.Scan(targets...); err != nil {
		return job, err
	}
	for i := range jobColumns {
		if at, dated := jobColumns[i].field(&job).(*time.Time); dated {
			*at = timeOf(times[i])
		}
	}
	return job, nil
}

// Fill returns a report with those facts added that only an earlier report about the same job knows.
func Fill(newer, earlier Job) Job {
	end, ending := newer.Finished, newer.Ending
	if end.IsZero() || ending != "" && !earlier.Finished.IsZero() && earlier.Ending == "" {
		end, ending = earlier.Finished, earlier.Ending
	}
	limited := func(j *Job) int64 {
		return ptr.Deref(j.LimitedAssigned, 0) + ptr.Deref(j.LimitedCreated, 0) + ptr.Deref(j.LimitedPlaced, 0)
	}
	limit := newer
	if limited(&earlier) >= limited(&newer) {
		limit = earlier
	}
	for i := range jobColumns {
		known, was := jobColumns[i].field(&newer), jobColumns[i].field(&earlier)
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
	newer.Finished, newer.Ending = end, ending
	newer.LimitedReason, newer.LimitNumber = limit.LimitedReason, limit.LimitNumber
	newer.LimitedAssigned, newer.LimitedCreated, newer.LimitedPlaced = limit.LimitedAssigned, limit.LimitedCreated,
		limit.LimitedPlaced
	return newer
}

// Cut returns a report with texts as long as the database has them. Whoever may write a runner's status chooses them.
func Cut(job Job) Job {
	for i := range jobColumns {
		if text, is := jobColumns[i].field(&job).(*string); is {
			*text = Clean(*text)
		}
	}
	return job
}

// Bytes returns about how many bytes a report takes in memory.
func Bytes(job *Job) int {
	const numbers = 840 // 19 numbers behind pointers, 10 times, 18 headers of texts
	size := numbers
	for i := range jobColumns {
		if text, is := jobColumns[i].field(job).(*string); is {
			size += len(*text)
		}
	}
	return size
}

// Same reports whether two reports say the same.
func Same(a, b Job) bool {
	for i := range jobColumns {
		if value(jobColumns[i].field(&a)) != value(jobColumns[i].field(&b)) {
			return false
		}
	}
	return true
}
