package fakegithub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// restCaller is who makes a call of the REST API about a repository, and which one.
type restCaller struct{ app, owner, repo string }

// restCall wraps a handler of the REST API about a repository: the credential must be good, have the permission NAME=LEVEL and be within
// its limits. The handler runs under the lock.
func restCall(permission string, handle func(*Server, time.Time, restCaller, *request) reply) func(*Server, *request) reply {
	return func(s *Server, r *request) (rep reply) {
		s.do(func(now time.Time) {
			credential := bearer(r.Header.Get("Authorization"), "Bearer")
			if !s.tokens.acceptsREST(now, credential) {
				rep = restError(http.StatusUnauthorized, "Bad credentials")
				return
			}
			rep = s.tokens.limited(now, spender{credential, coreResource}, coreLimit, func() reply {
				if refused := s.tokens.permit(now, credential, permission, r.Method); refused != nil {
					return *refused
				}
				of := s.tokens.installation[credential]
				return handle(s, now, restCaller{app: of.app, owner: r.PathValue("owner"), repo: r.PathValue("repo")}, r)
			})
			rep.header["X-Accepted-GitHub-Permissions"] = permission
		})
		return rep
	}
}

// permit returns the refusal of a call that the credential may not make, nil if it may. A personal access token may do all but write checks.
func (t *tokens) permit(now time.Time, credential, permission, method string) *reply {
	name, level, _ := strings.Cut(permission, "=")
	who, isInstallation := t.installation[credential]
	refused := restError(http.StatusForbidden, "Resource not accessible by integration")
	switch has := who.permissions[name]; {
	case !isInstallation && permission == "checks=write":
		refused = restError(http.StatusForbidden, "You must authenticate via a GitHub App.")
	case isInstallation && who.permissions != nil && has != level && has != "write":
	case method != http.MethodGet && !t.mayCreate(now, who.app+"/"+credential[:min(4, len(credential))]):
		refused = restError(http.StatusForbidden, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
		refused.header = map[string]string{"Retry-After": "60"}
	default:
		return nil
	}
	return &refused
}

// restFailure is the REST API's answer to a refusal.
func restFailure(err error) reply {
	refused, ok := errors.AsType[*state.Error](err)
	if !ok || refused.Kind == state.RunNotFound {
		return restError(http.StatusNotFound, "Not Found")
	}
	return restError(http.StatusForbidden, refused.Message)
}

// runAnswer is a workflow run as the REST API writes it.
type runAnswer struct {
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	HeadSHA    string    `json:"head_sha"`
	RunNumber  int64     `json:"run_number"`
	Attempt    int       `json:"run_attempt"`
	Event      string    `json:"event"`
	Status     string    `json:"status"`
	Conclusion *string   `json:"conclusion"`
	CreatedAt  time.Time `json:"created_at"`
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

// orNull is nil for the zero value, which the REST API writes as null.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// headSHA is the commit of a run.
func headSHA(run *state.Run) string { return fmt.Sprintf("%040x", run.ID) }

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
	status, conclusion := run.Status()
	first := run.Jobs(false)[0].Job
	return restReply(http.StatusOK, runAnswer{
		ID: run.ID, Name: "CI", HeadSHA: headSHA(run), RunNumber: run.ID, Attempt: run.Attempt(), Event: first.Spec.Event,
		Status: status, Conclusion: orNull(conclusion), CreatedAt: run.CreatedAt.UTC().Truncate(time.Second),
	})
}

// listRunJobs answers one page of the jobs of a run's newest attempt, or with filter=all those of all attempts.
func listRunJobs(s *Server, _ time.Time, of restCaller, r *request) reply {
	run, err := s.pathRun(of, r)
	if err != nil {
		return restFailure(err)
	}
	query := r.URL.Query()
	jobs := run.Jobs(query.Get("filter") == "all")
	perPage := min(number(query.Get("per_page"), defaultPerPage), mostPerPage)
	from := min((number(query.Get("page"), 1)-1)*perPage, len(jobs))
	listed := []runJobAnswer{}
	for _, job := range jobs[from:min(from+perPage, len(jobs))] {
		status, conclusion := job.Status()
		view := job.Job.View()
		listed = append(listed, runJobAnswer{
			ID: job.ID, RunID: run.ID, Attempt: job.Attempt, HeadSHA: headSHA(run), Name: view.Name, Status: status,
			Conclusion: orNull(conclusion), RunnerID: orNull(view.RunnerID), RunnerName: orNull(view.Runner), Labels: view.Labels,
			StartedAt: orNull(view.StartedAt.UTC()), CompletedAt: orNull(view.CompletedAt.UTC()),
		})
	}
	return restReply(http.StatusOK, struct {
		TotalCount int            `json:"total_count"`
		Jobs       []runJobAnswer `json:"jobs"`
	}{len(jobs), listed})
}

func rerunJob(s *Server, now time.Time, of restCaller, r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("job"), 10, 64)
	if err != nil || id == 0 {
		return restFailure(err)
	}
	run, err := s.state.RunOfJob(of.owner, of.repo, id)
	if err == nil {
		err = s.state.Rerun(now, run, id)
	}
	return created(err)
}

func rerunFailedJobs(s *Server, now time.Time, of restCaller, r *request) reply {
	run, err := s.pathRun(of, r)
	if err == nil {
		err = s.state.Rerun(now, run, 0)
	}
	return created(err)
}

func created(err error) reply {
	if err != nil {
		return restFailure(err)
	}
	return restReply(http.StatusCreated, struct{}{})
}

// checkRunAnswer is a check run as the REST API writes it.
type checkRunAnswer struct {
	ID int64 `json:"id"`
	state.CheckRunContent
}

func listCheckRuns(s *Server, _ time.Time, of restCaller, r *request) reply {
	checks := s.state.CheckRunsOf(of.owner, of.repo, r.PathValue("sha"), r.URL.Query().Get("check_name"))
	listed := make([]checkRunAnswer, len(checks))
	for i, check := range checks {
		listed[i] = checkRunAnswer{check.ID, check.CheckRunContent}
	}
	return restReply(http.StatusOK, struct {
		TotalCount int              `json:"total_count"`
		CheckRuns  []checkRunAnswer `json:"check_runs"`
	}{len(listed), listed})
}

func createCheckRun(s *Server, now time.Time, of restCaller, r *request) reply {
	var content state.CheckRunContent
	if err := json.Unmarshal(r.body, &content); err != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	if content.Name == "" || content.HeadSHA == "" {
		return restError(http.StatusUnprocessableEntity, "Invalid request")
	}
	check := s.state.CreateCheckRun(now, of.app, of.owner, of.repo, content)
	return restReply(http.StatusCreated, checkRunAnswer{check.ID, check.CheckRunContent})
}

func updateCheckRun(s *Server, now time.Time, of restCaller, r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("check"), 10, 64)
	if err != nil {
		return restFailure(err)
	}
	var content state.CheckRunContent
	if err := json.Unmarshal(r.body, &content); err != nil {
		return restError(http.StatusBadRequest, "Problems parsing JSON")
	}
	check, err := s.state.UpdateCheckRun(now, of.app, of.owner, of.repo, id, content)
	if err != nil {
		return restFailure(err)
	}
	return restReply(http.StatusOK, checkRunAnswer{check.ID, check.CheckRunContent})
}
