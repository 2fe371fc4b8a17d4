package feedback

import (
	"context"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/rest"
)

// Listing has the jobs of a run's newest attempt, as GitHub listed them at a moment.
type Listing struct {
	jobs []rest.Job
	at   time.Time
}

// ListJobs reads the jobs of a run, to find out where their logs are. It fails with *SpentError if half of what may be
// read is spent, or with the errors of package rest.
func ListJobs(ctx context.Context, from *rest.Client, budget *Budget, run Run) (*Listing, error) {
	client := from.Paying(func() error { return budget.SpendLink(from.Account(), from.Now()) })
	repository, err := client.Repository(run.Repository)
	if err != nil {
		return nil, err
	}
	at := client.Now()
	jobs, err := client.ListJobs(ctx, repository, run.ID)
	if err != nil {
		return nil, err
	}
	return &Listing{jobs, at}, nil
}

// JobOf returns the job of a runner, nil if the list doesn't tell which it is. It is the one that was on the runner, or,
// if no runner had it yet, the only one of its name; but not if it was queued after the list: it is another attempt's,
// or one that needs others.
func (l *Listing) JobOf(runner, name string, queued time.Time) (found *rest.Job) {
	for i := range l.jobs {
		if job := &l.jobs[i]; strings.EqualFold(job.RunnerName, runner) {
			return job
		}
	}
	if name == "" || queued.IsZero() || queued.After(l.at) {
		return nil
	}
	for i := range l.jobs {
		job := &l.jobs[i]
		switch {
		case job.Name != name:
			continue
		case found != nil:
			return nil
		}
		found = job
	}
	if found == nil || found.RunnerName != "" || found.Ended() {
		return nil
	}
	return found
}
