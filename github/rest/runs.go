package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// Conclusions of runs and jobs that are of interest here. GitHub has others, and may add some.
const (
	ConclusionSuccess   = "success"
	ConclusionFailure   = "failure"
	ConclusionCancelled = "cancelled"
	ConclusionTimedOut  = "timed_out"
)

// statusCompleted is the status of runs and jobs that have ended. All other statuses, such as queued, in_progress,
// waiting, requested and pending, are of those that go on.
const statusCompleted = "completed"

// Run is a workflow run, in its newest attempt.
type Run struct {
	ID int64 `json:"id"`
	// Attempt is the number of the newest attempt; the first is 1.
	Attempt int    `json:"run_attempt"`
	Status  string `json:"status"`
	// Conclusion is empty while the attempt goes on.
	Conclusion string `json:"conclusion"`
	// Workflow is the name of the workflow, and Number that of the run among its runs.
	Workflow string `json:"name"`
	Number   int64  `json:"run_number"`
	// WorkflowID is GitHub's number for the workflow, and Event what began the run, such as push.
	WorkflowID int64  `json:"workflow_id"`
	Event      string `json:"event"`
	// HeadSHA is the commit that the run is about, Branch where it is, and HeadRepository in which repository: a pull
	// request may come from a fork. Either is empty if it is gone.
	HeadSHA        string `json:"head_sha"`
	Branch         string `json:"head_branch"`
	HeadRepository struct {
		FullName string `json:"full_name"`
	} `json:"head_repository"`
	// CreatedAt is the start of the first attempt.
	CreatedAt time.Time `json:"created_at"`
}

// Ended reports whether the newest attempt is over. Before that, GitHub runs nothing of the run again.
func (r *Run) Ended() bool { return r.Status == statusCompleted }

// Job is a job of a run's newest attempt. One that this attempt did not run again is there as it ended before.
type Job struct {
	// ID is the number by which GitHub's REST API knows the job. Messages of the Actions service don't have it.
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	// Attempt is the one that the job is of, 0 if GitHub does not say it.
	Attempt int `json:"run_attempt"`
	// RunnerName is the runner that has the job, or had it; empty if none has.
	RunnerName string `json:"runner_name"`
	// CompletedAt is the end of the job, zero while it goes on.
	CompletedAt time.Time `json:"completed_at"`
}

// Ended reports whether the job is over.
func (j *Job) Ended() bool { return j.Status == statusCompleted }

// FailedOrCancelled reports whether the job ended without success, so that "re-run failed jobs" runs it again.
func (j *Job) FailedOrCancelled() bool {
	return j.Conclusion == ConclusionFailure || j.Conclusion == ConclusionCancelled ||
		j.Conclusion == ConclusionTimedOut
}

// Limits of re-runs, from "Re-running workflows and jobs" at https://docs.github.com/actions: within 30 days of the
// first run, and 50 times.
const (
	rerunFor   = 30 * 24 * time.Hour
	mostReruns = 50
)

// Why GitHub does not run a job again, beside a missing permission.
var (
	// ErrRunGoesOn means that an attempt of the run goes on. It ends some day.
	ErrRunGoesOn = errors.New("the workflow run goes on")
	// ErrRunExpired means that the run is too old, or was run again too often.
	ErrRunExpired = errors.New("GitHub runs jobs again for 30 days, and at most 50 times")
	// ErrTooManyJobs means that a run has more jobs than are listed.
	ErrTooManyJobs = errors.New("the workflow run has too many jobs")
)

func runPath(run int64, rest ...string) []string {
	return append([]string{"actions", "runs", strconv.FormatInt(run, 10)}, rest...)
}

// maxCommit bounds the name of a commit, which is kept: 40 or 64 hexadecimal digits.
const maxCommit = 64

// GetRun returns a workflow run. It fails with ErrNotFound of package actions if there is none, or none that the
// credential may see.
func (c *Client) GetRun(ctx context.Context, in Repository, run int64) (*Run, error) {
	found := &Run{}
	err := c.call(
		ctx, in, actions.RESTRequest{Endpoint: actions.EndpointGetRun, Method: http.MethodGet, Path: runPath(run)},
		found,
	)
	if err != nil {
		return nil, err
	}
	if found.ID != run || found.Attempt < 1 || found.Status == "" || len(found.HeadSHA) > maxCommit {
		return nil, &actions.UnexpectedResponseError{
			Endpoint: actions.EndpointGetRun,
			Err:      errors.New("the answer is not the run"),
		}
	}
	return found, nil
}

const (
	// jobsPerPage is GitHub's default. A job with its steps has up to 25 kB; 30 of them stay below the limit of an
	// answer, 1 MiB.
	jobsPerPage = 30
	// mostJobPages bounds a list to 1,020 jobs, four times what a matrix may have.
	mostJobPages = 34
)

// ListJobs returns the jobs of the run's newest attempt. It fails with ErrTooManyJobs if there are more than a
// thousand.
func (c *Client) ListJobs(ctx context.Context, in Repository, run int64) ([]Job, error) {
	var jobs []Job
	for page := 1; page <= mostJobPages; page++ {
		var listed struct {
			Total int   `json:"total_count"`
			Jobs  []Job `json:"jobs"`
		}
		err := c.call(ctx, in, actions.RESTRequest{
			Endpoint: actions.EndpointListRunJobs, Method: http.MethodGet, Path: runPath(run, "jobs"),
			Query: url.Values{
				"filter":   {"latest"},
				"per_page": {strconv.Itoa(jobsPerPage)},
				"page":     {strconv.Itoa(page)},
			},
		}, &listed)
		if err != nil {
			return nil, err
		}
		// A server that sends more is not GitHub's.
		jobs = append(jobs, listed.Jobs[:min(len(listed.Jobs), jobsPerPage)]...)
		if len(listed.Jobs) < jobsPerPage || len(jobs) >= listed.Total {
			return jobs, nil
		}
	}
	return nil, fmt.Errorf("%s: run %d: %w", in, run, ErrTooManyJobs)
}

// RerunJob has GitHub run a job of the run's newest attempt again, and those that need it, in a new attempt. It fails
// with ErrRunGoesOn, ErrRunExpired, or an error of package actions; MayBeDone tells of that whether GitHub may have
// done it all the same.
func (c *Client) RerunJob(ctx context.Context, in Repository, run, job int64) error {
	return c.rerun(ctx, in, run, actions.RESTRequest{
		Endpoint: actions.EndpointRerunJob, Path: []string{"actions", "jobs", strconv.FormatInt(job, 10), "rerun"},
	})
}

// RerunFailedJobs has GitHub run all failed and cancelled jobs of the run's newest attempt again. It fails as RerunJob
// does.
func (c *Client) RerunFailedJobs(ctx context.Context, in Repository, run int64) error {
	return c.rerun(ctx, in, run, actions.RESTRequest{
		Endpoint: actions.EndpointRerunFailedJobs,
		Path:     runPath(run, "rerun-failed-jobs"),
	})
}

// rerun asks for a new attempt. GitHub answers 403 for a missing permission, for a run that goes on, and for a run that
// is too old, with no code to tell these apart. So the run itself is read.
func (c *Client) rerun(ctx context.Context, in Repository, run int64, r actions.RESTRequest) error {
	r.Method, r.Once = http.MethodPost, true
	refused := c.call(ctx, in, r, nil)
	if !isForbidden(refused) {
		return refused
	}
	found, err := c.GetRun(ctx, in, run)
	switch {
	case err != nil: // not known yet, and no end unless this is one
		return fmt.Errorf("%w; before that: %s", err, refused.Error())
	case !found.Ended():
		return fmt.Errorf("%s: run %d: attempt %d: %w", in, run, found.Attempt, ErrRunGoesOn)
	case c.github.Now().Sub(found.CreatedAt) > rerunFor || found.Attempt > mostReruns:
		return fmt.Errorf(
			"%s: run %d: created %s, attempt %d: %w", in, run, found.CreatedAt.UTC().Format(time.RFC3339),
			found.Attempt, ErrRunExpired,
		)
	}
	return refused
}

// isForbidden reports whether GitHub has refused what was asked with 403, and not because of a rate limit.
func isForbidden(err error) bool {
	answer, ok := errors.AsType[*actions.Error](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	return ok && !limited && answer.StatusCode == http.StatusForbidden
}
