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
	// conclusion is that of the first attempt, where it matters.
	conclusion string
	// onlyFailed leaves cancelled jobs out of "re-run failed jobs".
	onlyFailed bool
	lastID     int64
	// newer are the numbers of other runs of the workflow, branch and event; this one has 7.
	newer []int
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
			j.Status, j.Conclusion, j.CompletedAt = "completed", "success", r.now
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
		answer = r.described(7)
		answer.(map[string]any)["status"] = status
	case actions.EndpointListRuns:
		runs := []any{r.described(7)}
		for _, number := range r.newer {
			runs = append(runs, r.described(number))
		}
		answer = map[string]any{"total_count": len(runs), "workflow_runs": runs}
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

// described is a run of the workflow as GitHub describes it.
func (r *run) described(number int) map[string]any {
	conclusion := r.conclusion
	if len(r.attempts) > 1 && slices.ContainsFunc(r.jobs(), func(j job) bool { return j.Conclusion == "failure" }) {
		conclusion = "failure"
	}
	return map[string]any{"id": number, "run_number": number, "run_attempt": len(r.attempts), "created_at": r.created,
		"workflow_id": 3, "event": "push", "head_branch": "main", "status": "queued", "conclusion": conclusion}
}

func (r *run) askedToRerun(call actions.RESTRequest) error {
	r.asked++
	switch {
	case r.refuse != nil:
		return r.refuse
	case !r.ended():
		return refusal(call.Endpoint, http.StatusForbidden)
	}
	which := func(j job) bool { return failed(j) && (!r.onlyFailed || j.Conclusion != "cancelled") }
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
