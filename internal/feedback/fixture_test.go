package feedback_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// run is a workflow run on a GitHub that knows only this one. It implements rest.GitHub, with what GitHub's
// documentation says.
type run struct {
	now     time.Time
	config  *actions.ConfigURL
	created time.Time
	// attempts has the jobs of each attempt.
	attempts [][]job
	lastID   int64
	// refuse is the error of each rerun, lose loses the answers of as many.
	refuse error
	lose   int
	// reruns are the jobs that were asked for, by name, and asked counts the calls.
	reruns map[string]int
	asked  int
}

type job struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	RunnerName string `json:"runner_name"`

	CompletedAt time.Time `json:"completed_at,omitzero"`
}

func newRun(now time.Time, jobs ...job) *run {
	config, err := actions.ParseConfigURL("https://github.com/acme")
	if err != nil {
		panic(err)
	}
	r := &run{now: now, created: now, config: config, reruns: map[string]int{}}
	r.begin(jobs)
	return r
}

// begin begins an attempt with these jobs, each of which gets another number.
func (r *run) begin(jobs []job) {
	for i := range jobs {
		r.lastID++
		jobs[i].ID = r.lastID
	}
	r.attempts = append(r.attempts, jobs)
}

func (r *run) jobs() []job { return r.attempts[len(r.attempts)-1] }

func (r *run) ended() bool {
	return !slices.ContainsFunc(r.jobs(), func(j job) bool { return j.Status != "completed" })
}

// rerun begins an attempt in which some jobs run on new runners.
func (r *run) rerun(which func(job) bool) {
	next := slices.Clone(r.jobs())
	for i := range next {
		if which(next[i]) {
			next[i].Status, next[i].Conclusion = "in_progress", ""
			next[i].RunnerName += "-again"
		}
	}
	r.begin(next)
}

func failed(j job) bool { return j.Conclusion != "success" }

// end lets all jobs that run end well.
func (r *run) end() {
	for i := range r.jobs() {
		if j := &r.jobs()[i]; j.Status != "completed" {
			j.Status, j.Conclusion = "completed", "success"
		}
	}
}

func (r *run) ConfigURL() *actions.ConfigURL { return r.config }

func (r *run) Account() actions.Account {
	return actions.Account{Name: "App 1", Key: "1", Proven: true}
}

func (r *run) Now() time.Time { return r.now }

func refusal(endpoint string, status int) error {
	return &actions.Error{Endpoint: endpoint, StatusCode: status, Credential: actions.CredentialInstallationToken,
		Message: "refused"}
}

func (r *run) CallREST(_ context.Context, call actions.RESTRequest, result any) error {
	var answer any
	switch call.Endpoint {
	case actions.EndpointGetRun:
		status := "completed"
		if !r.ended() {
			status = "in_progress"
		}
		answer = map[string]any{"id": 7, "run_attempt": len(r.attempts), "status": status, "created_at": r.created}
	case actions.EndpointListRunJobs:
		answer = map[string]any{"total_count": len(r.jobs()), "jobs": r.jobs()}
	default:
		return r.askedToRerun(call)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (r *run) askedToRerun(call actions.RESTRequest) error {
	r.asked++
	switch {
	case r.refuse != nil:
		return r.refuse
	case !r.ended():
		return refusal(call.Endpoint, http.StatusForbidden)
	}
	which := failed
	if call.Endpoint == actions.EndpointRerunJob {
		id, err := strconv.ParseInt(call.Path[len(call.Path)-2], 10, 64)
		if err != nil {
			return err
		}
		which = func(j job) bool { return j.ID == id }
	}
	for _, j := range r.jobs() {
		if which(j) {
			r.reruns[j.Name]++
		}
	}
	r.rerun(which)
	if r.lose > 0 {
		r.lose--
		return &actions.NetworkError{Endpoint: call.Endpoint, Method: call.Method, Attempts: 1, Err: context.DeadlineExceeded}
	}
	return nil
}
