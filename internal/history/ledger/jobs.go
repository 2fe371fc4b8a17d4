package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxJobs bounds a page of jobs.
const MaxJobs = 1000

// Page is a part of the jobs that a filter chooses, the youngest first.
type Page struct {
	Jobs []Job `json:"jobs"`
	// Next is where the next page begins, empty if this is the last.
	Next string `json:"next,omitempty"`
}

// Jobs returns the jobs that a filter chooses, the youngest first.
func (l *Ledger) Jobs(ctx context.Context, filter Filter) (Page, error) {
	limit := filter.Limit
	if limit <= 0 || limit > MaxJobs {
		limit = MaxJobs
	}
	q := &query{}
	q.add(selectJobs)
	q.between("at", filter.From, filter.To)
	q.same(&filter)
	for _, condition := range []struct{ column, value string }{
		{"runner_uid", filter.RunnerUID}, {"runner", filter.Runner}, {"job_id", filter.JobID}, {"event", filter.Event},
		{"result", filter.Result}, {"lost_cause", filter.LostCause}, {"node", filter.Node},
	} {
		if condition.value != "" {
			q.and(condition.column+" = ?", Clean(condition.value))
		}
	}
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
	if filter.After != "" {
		at, uid, _ := strings.Cut(filter.After, ".")
		unix, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return Page{}, &FilterError{"after", filter.After, "what a page of jobs has as next"}
		}
		q.and("(at, runner_uid) < (?, ?)", unix, Clean(uid))
	}
	q.add(" ORDER BY at DESC, runner_uid DESC LIMIT ?", limit+1)
	page := Page{Jobs: []Job{}}
	err := l.rows(ctx, q, func(rows *sql.Rows) error {
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
		page.Next = fmt.Sprintf("%d.%s", last.At.Unix(), last.RunnerUID)
	}
	return page, nil
}

// ErrNoJob says that the ledger has no job of a runner.
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

// pattern returns what LIKE finds a text with, wherever it stands.
func pattern(text string) string {
	escaped := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(Clean(text)))
	return "%" + escaped + "%"
}
