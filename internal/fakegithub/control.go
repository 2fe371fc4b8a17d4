package fakegithub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Action is something done to the fake from outside; which fields count depends
// on its name.
type Action struct {
	// Action is one of expire-admin-tokens, expire-queue-tokens, evict-sessions,
	// delete-scale-set, remove-runner, forget-runner, count-phantoms, revoke-pat, restore-pat, move-service,
	// deprecate-runners, undeprecate-runners, release-runner, enforce-versions, add-runner-group, end-jobs,
	// set-permissions.
	Action     string `json:"action"`
	ScaleSetID int    `json:"scaleSetId,omitempty"` // evict-sessions (0 for all), delete-scale-set, count-phantoms
	RunnerID   int    `json:"runnerId,omitempty"`   // remove-runner, forget-runner
	Count      int    `json:"count,omitempty"`      // count-phantoms
	Token      string `json:"token,omitempty"`      // revoke-pat, restore-pat
	Version    string `json:"version,omitempty"`    // release-runner; deprecate-runners: empty for all
	Name       string `json:"name,omitempty"`       // add-runner-group
	// PublishedAt is the time of release-runner.
	PublishedAt time.Time `json:"publishedAt,omitzero"`
	// Permissions are those of set-permissions; none is everything.
	Permissions map[string]string `json:"permissions,omitempty"`
}

// controls are the endpoints of the control API.
func controls() []endpoint {
	named := func(name string) string { return controlEndpoints + name }
	return []endpoint{
		{named("healthz"), "GET /_control/healthz", func(*Server, *request) reply { return emptyReply(http.StatusOK) }},
		{named("queue-jobs"), "POST /_control/jobs", controlQueueJobs},
		{named("list-jobs"), "GET /_control/jobs", controlListJobs},
		{named("cancel-job"), "DELETE /_control/jobs/{id}", controlCancelJob},
		{named("check-runs"), "GET /_control/check-runs",
			func(s *Server, _ *request) reply { return listReply(s.CheckRuns()) }},
		{named("state"), "GET /_control/state",
			func(s *Server, _ *request) reply { return jsonReply(http.StatusOK, s.Snapshot()) }},
		{named("counters"), "GET /_control/counters", func(s *Server, _ *request) reply { return listReply(s.Counters()) }},
		{named("requests"), "GET /_control/requests", func(s *Server, _ *request) reply { return listReply(s.Requests()) }},
		{named("list-faults"), "GET /_control/faults", func(s *Server, _ *request) reply { return listReply(s.Faults()) }},
		{named("add-fault"), "POST /_control/faults", controlAddFault},
		{named("remove-faults"), "DELETE /_control/faults", func(s *Server, _ *request) reply {
			return jsonReply(http.StatusOK, countAnswer{s.RemoveFault("")})
		}},
		{named("remove-fault"), "DELETE /_control/faults/{id}", controlRemoveFault},
		{named("act"), "POST /_control/actions", controlAct},
	}
}

type idsAnswer struct {
	RequestIDs []int64 `json:"requestIds"`
}

type countAnswer struct {
	Count int `json:"count"`
}

type idAnswer struct {
	ID string `json:"id"`
}

type controlError struct {
	Error string `json:"error"`
}

func controlRefusal(status int, err error) reply {
	return jsonReply(status, controlError{err.Error()})
}

// decodeStrictly refuses unknown keys and anything after the value, so that a
// misspelt field is not silently ignored.
func decodeStrictly(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read request: there is something after the JSON value")
	}
	return nil
}

func controlQueueJobs(s *Server, r *request) reply {
	var q JobRequest
	err := decodeStrictly(r.body, &q)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	ids, err := s.QueueJobs(q)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return jsonReply(http.StatusOK, idsAnswer{ids})
}

func controlListJobs(s *Server, r *request) reply {
	in := JobState(r.URL.Query().Get("state"))
	known := []JobState{"", state.Queued, state.Acquired, state.Assigned, state.Running, state.Completed}
	if !slices.Contains(known, in) {
		return controlRefusal(http.StatusBadRequest, fmt.Errorf("state %q is unknown; use one of %q", in, known[1:]))
	}
	return listReply(s.Jobs(in))
}

func controlCancelJob(s *Server, r *request) reply {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	if err := s.CancelJob(id); err != nil {
		return controlRefusal(http.StatusNotFound, err)
	}
	return emptyReply(http.StatusNoContent)
}

func controlAddFault(s *Server, r *request) reply {
	var f Fault
	err := decodeStrictly(r.body, &f)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	id, err := s.AddFault(f)
	if err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return jsonReply(http.StatusOK, idAnswer{id})
}

func controlRemoveFault(s *Server, r *request) reply {
	if s.RemoveFault(r.PathValue("id")) == 0 {
		return controlRefusal(http.StatusNotFound, fmt.Errorf("no fault has the id %q", r.PathValue("id")))
	}
	return emptyReply(http.StatusNoContent)
}

func controlAct(s *Server, r *request) reply {
	var a Action
	if err := decodeStrictly(r.body, &a); err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	act, ok := actions[a.Action]
	if !ok {
		return controlRefusal(http.StatusBadRequest, fmt.Errorf("action %q is unknown", a.Action))
	}
	if err := act(s, a); err != nil {
		return controlRefusal(http.StatusBadRequest, err)
	}
	return emptyReply(http.StatusNoContent)
}

var actions = map[string]func(*Server, Action) error{
	"expire-admin-tokens": func(s *Server, _ Action) error { s.ExpireAdminTokens(); return nil },
	"expire-queue-tokens": func(s *Server, _ Action) error { s.ExpireQueueTokens(); return nil },
	"evict-sessions":      func(s *Server, a Action) error { s.EvictSessions(a.ScaleSetID); return nil },
	"delete-scale-set":    func(s *Server, a Action) error { return s.DeleteScaleSet(a.ScaleSetID) },
	"remove-runner":       func(s *Server, a Action) error { return s.RemoveRunner(a.RunnerID) },
	"forget-runner":       func(s *Server, a Action) error { return s.ForgetRunner(a.RunnerID) },
	"count-phantoms":      func(s *Server, a Action) error { return s.countPhantoms(a.ScaleSetID, a.Count) },
	"move-service":        func(s *Server, _ Action) error { s.MoveService(); return nil },
	"revoke-pat":          func(s *Server, a Action) error { return s.setPAT(a.Token, true) },
	"restore-pat":         func(s *Server, a Action) error { return s.setPAT(a.Token, false) },
	"deprecate-runners":   func(s *Server, a Action) error { return s.setDeprecated(a.Version, true) },
	"undeprecate-runners": func(s *Server, a Action) error { return s.setDeprecated(a.Version, false) },
	"release-runner":      func(s *Server, a Action) error { return s.releaseRunner(a.Version, a.PublishedAt) },
	"enforce-versions":    func(s *Server, _ Action) error { s.EnforceRunnerVersions(true); return nil },
	"add-runner-group":    func(s *Server, a Action) error { return s.addGroup(a.Name) },
	"end-jobs":            func(s *Server, _ Action) error { s.EndJobs(); return nil },
	"set-permissions":     func(s *Server, a Action) error { s.SetPermissions(a.Permissions); return nil },
}

func (s *Server) countPhantoms(scaleSetID, jobs int) error {
	if jobs < 0 {
		return errors.New("count must not be negative")
	}
	return s.CountPhantoms(scaleSetID, jobs)
}

func (s *Server) setPAT(token string, revoked bool) error {
	if token == "" {
		return errors.New("token must say which PAT is meant")
	}
	s.RevokePAT(token, revoked)
	return nil
}

func (s *Server) setDeprecated(version string, deprecated bool) error {
	setDefault(&version, "*")
	s.DeprecateRunnerVersion(version, deprecated)
	return nil
}

func (s *Server) releaseRunner(version string, published time.Time) error {
	if version == "" || published.IsZero() {
		return errors.New("version and publishedAt must say what was released, and when")
	}
	s.ReleaseRunner(version, published)
	return nil
}

func (s *Server) addGroup(name string) error {
	if name == "" {
		return errors.New("name must not be empty")
	}
	s.AddRunnerGroup(name)
	return nil
}

// ControlClient steers a fake in another process. Its methods return an error
// with the fake's own words when it refuses.
type ControlClient struct {
	// BaseURL is the one that Start returned, or another at which the fake is reached.
	BaseURL string
	// HTTP defaults to http.DefaultClient.
	HTTP *http.Client
}

// Healthy returns nil if the fake answers.
func (c *ControlClient) Healthy(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "healthz", nil, nil)
}

// QueueJobs queues jobs and returns their request ids.
func (c *ControlClient) QueueJobs(ctx context.Context, q JobRequest) ([]int64, error) {
	var answer idsAnswer
	err := c.call(ctx, http.MethodPost, "jobs", q, &answer)
	return answer.RequestIDs, err
}

// Jobs returns all jobs, or those in one state.
func (c *ControlClient) Jobs(ctx context.Context, in JobState) ([]Job, error) {
	var answer list[Job]
	err := c.call(ctx, http.MethodGet, "jobs?state="+url.QueryEscape(string(in)), nil, &answer)
	return answer.Value, err
}

// CancelJob cancels a job that is not completed.
func (c *ControlClient) CancelJob(ctx context.Context, requestID int64) error {
	return c.call(ctx, http.MethodDelete, "jobs/"+strconv.FormatInt(requestID, 10), nil, nil)
}

// CheckRuns returns all check runs, in the order of their making.
func (c *ControlClient) CheckRuns(ctx context.Context) ([]CheckRun, error) {
	var answer list[CheckRun]
	err := c.call(ctx, http.MethodGet, "check-runs", nil, &answer)
	return answer.Value, err
}

// Snapshot describes everything as it is now.
func (c *ControlClient) Snapshot(ctx context.Context) (Snapshot, error) {
	var answer Snapshot
	err := c.call(ctx, http.MethodGet, "state", nil, &answer)
	return answer, err
}

// Counters returns the number of calls of each endpoint.
func (c *ControlClient) Counters(ctx context.Context) ([]Counter, error) {
	var answer list[Counter]
	err := c.call(ctx, http.MethodGet, "counters", nil, &answer)
	return answer.Value, err
}

// Requests returns the last requests, oldest first.
func (c *ControlClient) Requests(ctx context.Context) ([]LogEntry, error) {
	var answer list[LogEntry]
	err := c.call(ctx, http.MethodGet, "requests", nil, &answer)
	return answer.Value, err
}

// AddFault puts a rule in force and returns its id.
func (c *ControlClient) AddFault(ctx context.Context, f Fault) (string, error) {
	var answer idAnswer
	err := c.call(ctx, http.MethodPost, "faults", f, &answer)
	return answer.ID, err
}

// RemoveFault lifts a rule, or all with an empty id.
func (c *ControlClient) RemoveFault(ctx context.Context, id string) error {
	path := "faults"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil)
}

// Act does something to the fake.
func (c *ControlClient) Act(ctx context.Context, a Action) error {
	return c.call(ctx, http.MethodPost, "actions", a, nil)
}

func (c *ControlClient) call(ctx context.Context, method, path string, in, out any) error {
	what := method + " " + path
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.BaseURL+"/_control/"+path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer response.Body.Close()
	return readAnswer(what, response, out)
}

func readAnswer(what string, response *http.Response, out any) error {
	// Not limited: a list of 100,000 jobs has tens of MB.
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: read answer: %w", what, err)
	}
	if response.StatusCode >= 300 {
		var refusal controlError
		if json.Unmarshal(data, &refusal) != nil || refusal.Error == "" {
			refusal.Error = string(data)
		}
		return fmt.Errorf("%s: status %d: %s", what, response.StatusCode, refusal.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s: read answer: %w", what, err)
	}
	return nil
}
