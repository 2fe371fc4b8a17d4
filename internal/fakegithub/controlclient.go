package fakegithub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

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
