package fakegithub

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// runAnswer is a workflow run as the REST API writes it.
type runAnswer struct {
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	WorkflowID int64     `json:"workflow_id"`
	HeadSHA    string    `json:"head_sha"`
	HeadBranch string    `json:"head_branch"`
	RunNumber  int64     `json:"run_number"`
	Attempt    int       `json:"run_attempt"`
	Event      string    `json:"event"`
	Status     string    `json:"status"`
	Conclusion *string   `json:"conclusion"`
	CreatedAt  time.Time `json:"created_at"`

	HeadRepository repositoryAnswer `json:"head_repository"`
}

type repositoryAnswer struct {
	FullName string `json:"full_name"`
}

// runJobAnswer is a job of a run as the REST API writes it.
type runJobAnswer struct {
	ID          int64      `json:"id"`
	RunID       int64      `json:"run_id"`
	Attempt     int        `json:"run_attempt"`
	HeadSHA     string     `json:"head_sha"`
	Name        string     `json:"name"`
	Status      string     `json:"status"`
	Conclusion  *string    `json:"conclusion"`
	RunnerID    *int       `json:"runner_id"`
	RunnerName  *string    `json:"runner_name"`
	Labels      []string   `json:"labels"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
}

// pathRun returns the run in the path.
func (s *Server) pathRun(of restCaller, r *request) (*state.Run, error) {
	id, err := strconv.ParseInt(r.PathValue("run"), 10, 64)
	if err != nil {
		return nil, err
	}
	return s.state.Run(of.owner, of.repo, id)
}

func getRun(s *Server, _ time.Time, of restCaller, r *request) reply {
	run, err := s.pathRun(of, r)
	if err != nil {
		return restFailure(err)
	}
	return restReply(http.StatusOK, describeRun(run))
}

func describeRun(run *state.Run) runAnswer {
	status, conclusion := run.Status()
	origin := run.Origin()
	return runAnswer{
		ID: run.ID, Name: origin.Workflow, WorkflowID: origin.WorkflowID, HeadSHA: origin.Commit, HeadBranch: origin.Branch,
		HeadRepository: repositoryAnswer{origin.HeadRepository}, RunNumber: run.ID, Attempt: run.Attempt(),
		Event: origin.Event, Status: status, Conclusion: orNull(conclusion),
		CreatedAt: run.CreatedAt.UTC().Truncate(time.Second),
	}
}

// listWorkflowRuns answers one page of the runs of a workflow, the newest first, of a branch, an event or created after
// a time, if that is asked for.
func listWorkflowRuns(s *Server, _ time.Time, of restCaller, r *request) reply {
	workflow, err := strconv.ParseInt(r.PathValue("workflow"), 10, 64)
	if err != nil {
		return restFailure(err)
	}
	query := r.URL.Query()
	after, err := time.Parse(time.RFC3339, strings.TrimLeft(query.Get("created"), ">="))
	if query.Has("created") && err != nil {
		return restError(http.StatusUnprocessableEntity, "Invalid request")
	}
	found := []*state.Run{}
	for _, run := range s.state.RunsOf(of.owner, of.repo, workflow) {
		origin := run.Origin()
		if branch, event := query.Get("branch"), query.Get("event"); (branch != "" && branch != origin.Branch) ||
			(event != "" && event != origin.Event) || run.CreatedAt.Truncate(time.Second).Before(after) {
			continue
		}
		found = append(found, run)
	}
	listed := []runAnswer{}
	for _, run := range pageOf(found, r) {
		listed = append(listed, describeRun(run))
	}
	return restReply(http.StatusOK, struct {
		TotalCount   int         `json:"total_count"`
		WorkflowRuns []runAnswer `json:"workflow_runs"`
	}{len(found), listed})
}

// listRunJobs answers one page of the jobs of a run's newest attempt, or with filter=all those of all attempts.
func listRunJobs(s *Server, _ time.Time, of restCaller, r *request) reply {
	run, err := s.pathRun(of, r)
	if err != nil {
		return restFailure(err)
	}
	jobs := run.RunJobs(r.URL.Query().Get("filter") == "all")
	listed := []runJobAnswer{}
	for _, job := range pageOf(jobs, r) {
		status, conclusion := job.Status()
		view := job.Job.View()
		listed = append(listed, runJobAnswer{
			ID: job.ID, RunID: run.ID, Attempt: job.Attempt, HeadSHA: run.Origin().Commit, Name: view.Name, Status: status,
			Conclusion: orNull(conclusion), RunnerID: orNull(view.RunnerID), RunnerName: orNull(view.Runner),
			Labels:    view.Labels,
			StartedAt: orNull(view.StartedAt.UTC()), CompletedAt: orNull(view.CompletedAt.UTC()),
		})
	}
	return restReply(http.StatusOK, struct {
		TotalCount int            `json:"total_count"`
		Jobs       []runJobAnswer `json:"jobs"`
	}{len(jobs), listed})
}

// rerun begins another attempt: with the job in the path, or with all jobs that failed in the run there.
func rerun(s *Server, now time.Time, of restCaller, r *request) reply {
	run, err := s.pathRun(of, r)
	id, _ := strconv.ParseInt(r.PathValue("job"), 10, 64)
	if id != 0 {
		run, err = s.state.RunOfJob(of.owner, of.repo, id)
	}
	var asked struct {
		Debug bool `json:"enable_debug_logging"`
	}
	if len(r.body) > 0 && json.Unmarshal(r.body, &asked) != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	by := state.Again{Actor: state.Person, Debug: asked.Debug}
	if of.app != "" {
		by.Actor = "app-" + of.app + "[bot]"
	}
	if err == nil {
		err = s.state.Rerun(now, run, id, by)
	}
	if err != nil {
		return restFailure(err)
	}
	return restReply(http.StatusCreated, struct{}{})
}
