package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/trends"
)

// MaxJobs bounds a page of jobs.
const MaxJobs = 1000

// Page is a part of the jobs that a filter chooses, the youngest first.
type Page struct {
	Jobs []Job `json:"jobs"`
	// Next is the place at which the next page begins, empty if this is the last page.
	Next string `json:"next,omitempty"`
	// LookedTo is the time of the last job that was looked at, if the page ends there without being full.
	LookedTo time.Time `json:"lookedTo,omitzero"`
}

// Place reports whether a job is in the cluster, namespace and scale set that the filter chooses.
func (f *Filter) Place(job *Job) bool {
	return f.place(job.Cluster, job.Namespace, job.Set)
}

// maxLookedAt bounds the jobs that a page looks at if no index leads to those that the filter chooses: 20,000 take 50
// ms, and a million would take seconds.
const maxLookedAt = 20_000

// Jobs returns the jobs that a filter chooses, the youngest first.
func (l *Ledger) Jobs(ctx context.Context, filter Filter) (Page, error) {
	limit := filter.Limit
	if limit <= 0 || limit > MaxJobs {
		limit = MaxJobs
	}
	edge, at, err := l.edge(ctx, &filter)
	if err != nil {
		return Page{}, err
	}
	q := &query{}
	q.add(selectJobs)
	q.between("at", filter.From, filter.To)
	q.same(&filter)
	if err := q.beside(edge, ">="); err != nil {
		return Page{}, err
	}
	for _, condition := range []struct{ column, value string }{
		{"runner_uid", filter.RunnerUID}, {"runner", filter.Runner}, {"job_id", filter.JobID}, {"event", filter.Event},
		{"result", filter.Result}, {"lost_cause", filter.LostCause}, {"node", filter.Node},
	} {
		if condition.value != "" {
			q.and(condition.column+" = ?", Clean(condition.value))
		}
	}
	q.on(filter.Branch)
	if filter.RunID != 0 {
		q.and("run_id = ?", filter.RunID)
	}
	if filter.Text != "" {
		q.and("LOWER(job_name || ' ' || workflow || ' ' || repository || ' ' || runner) LIKE ? ESCAPE '\\'",
			pattern(filter.Text))
	}
	if filter.Lost || filter.LostCause != "" {
		q.and("lost_cause <> ''") // has the index of lost jobs used
	}
	if filter.Running {
		q.and("finished IS NULL")
	}
	if err := q.beside(filter.After, "<"); err != nil {
		return Page{}, err
	}
	q.add(" ORDER BY at DESC, runner_uid DESC LIMIT ?", limit+1)
	page := Page{Jobs: []Job{}, Next: edge, LookedTo: at}
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		job, err := scanJob(rows)
		page.Jobs = append(page.Jobs, job)
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("read jobs: %w", err)
	}
	if len(page.Jobs) > limit {
		page.Jobs = page.Jobs[:limit]
		last := &page.Jobs[limit-1]
		page.Next, page.LookedTo = cursor(last.At.Unix(), last.RunnerUID), time.Time{}
	}
	return page, nil
}

// on chooses the jobs of a branch, all if that is empty.
func (q *query) on(branch string) {
	switch ref, prefix := trends.RefsOf(branch); {
	case branch == "":
	case prefix == "":
		q.and("ref = ?", Clean(ref))
	default:
		q.and("SUBSTR(ref, 1, ?) = ?", len(prefix), prefix)
	}
}

// cursor is a place in the order of jobs.
func cursor(at int64, runnerUID string) string { return fmt.Sprintf("%d.%s", at, runnerUID) }

// beside chooses the jobs on one side of a place, all if that is empty.
func (q *query) beside(place, side string) error {
	if place == "" {
		return nil
	}
	at, uid, _ := strings.Cut(place, ".")
	unix, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return &FilterError{"after", place, "what a page of jobs has as next"}
	}
	q.and("(at, runner_uid) "+side+" (?, ?)", unix, Clean(uid))
	return nil
}

// edge returns the place and time of the last job that a page looks at, and has the filter begin at that time: SQLite
// uses the bound of a single column of an index, and not that of a row of values. It returns nothing if there are fewer
// jobs than maxLookedAt, or if an index leads to those that the filter chooses.
func (l *Ledger) edge(ctx context.Context, filter *Filter) (place string, at time.Time, err error) {
	few := filter.RunnerUID+filter.Runner+filter.JobID+filter.LostCause != "" || filter.RunID != 0 ||
		filter.Lost || filter.Running
	others := filter.Cluster+filter.Name+filter.Branch+filter.Event+filter.Result+filter.Node+filter.Text != "" ||
		(filter.Namespace != "" && filter.Set == "")
	if few || !others {
		return "", at, nil
	}
	q := &query{}
	q.add("SELECT at, runner_uid FROM jobs")
	q.between("at", filter.From, filter.To)
	indexed := Filter{Repository: filter.Repository, Workflow: filter.Workflow}
	if filter.Set != "" {
		indexed.Namespace, indexed.Set = filter.Namespace, filter.Set
	}
	q.same(&indexed)
	if err := q.beside(filter.After, "<"); err != nil {
		return "", at, err
	}
	q.add(" ORDER BY at DESC, runner_uid DESC LIMIT 1 OFFSET ?", maxLookedAt-1)
	err = l.rows(ctx, q, func(rows *sql.Rows) error {
		var unix int64
		var uid string
		err := rows.Scan(&unix, &uid)
		place, at = cursor(unix, uid), time.Unix(unix, 0).UTC()
		return err
	})
	if err != nil {
		return "", at, fmt.Errorf("find the last job that a page looks at: %w", err)
	}
	if place != "" {
		filter.From = at
	}
	return place, at, nil
}

// ErrNoJob reports that the ledger has no job of a runner.
var ErrNoJob = errors.New("the ledger has no such job: it is kept for as long as history.retention says, and from " +
	"when history was enabled")

// Job returns the job of the runner with a UID, or ErrNoJob.
func (l *Ledger) Job(ctx context.Context, runnerUID string) (Job, error) {
	if runnerUID == "" {
		return Job{}, ErrNoJob
	}
	page, err := l.Jobs(ctx, Filter{RunnerUID: runnerUID, Limit: 1})
	if err != nil {
		return Job{}, err
	}
	if len(page.Jobs) == 0 {
		return Job{}, ErrNoJob
	}
	return page.Jobs[0], nil
}

// pattern returns the pattern with which LIKE finds a text at any place.
func pattern(text string) string {
	escaped := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(Clean(text)))
	return "%" + escaped + "%"
}
