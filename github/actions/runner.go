package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

const runnersPath = "_apis/distributedtask/pools/0/agents"

// JITConfigRequest asks for the registration of one runner.
type JITConfigRequest struct {
	// Name of the runner, unique in its organization, repository or enterprise whatever the case of letters.
	Name string `json:"name"`
	// WorkFolder is where jobs run, the runner's default when empty.
	WorkFolder string `json:"workFolder"`
}

// JITConfig is a runner's registration and the secret that it connects with.
type JITConfig struct {
	Runner RunnerReference `json:"runner"`
	// EncodedJITConfig is a secret, a few KB, good for one start of a runner.
	EncodedJITConfig string `json:"encodedJITConfig"`
}

// RunnerReference names a registered runner.
type RunnerReference struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	// RunnerScaleSetID tells ours from somebody else's.
	RunnerScaleSetID int `json:"runnerScaleSetId"`
}

func (r RunnerReference) identity() (int, string) { return r.ID, r.Name }

// GenerateJITConfig registers a runner. It fails with ErrRunnerExists when the name is taken, be it by the same call
// whose answer was lost: look the runner up by name, remove it if its RunnerScaleSetID is ours, and ask again. Any 409 is taken
// for that; the error's text has what GitHub said.
func (c *Client) GenerateJITConfig(ctx context.Context, scaleSetID int, request JITConfigRequest) (*JITConfig, error) {
	var answer JITConfig
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointGenerateJITConfig, method: http.MethodPost, scaleSetID: scaleSetID,
		path: scaleSetPath(scaleSetID) + "/generatejitconfig", body: request,
	}, &answer)
	if err != nil {
		return nil, err
	}
	if answer.EncodedJITConfig == "" || answer.Runner.ID <= 0 {
		return nil, unexpected(EndpointGenerateJITConfig, errors.New("the answer lacks the runner's id or its JIT config"))
	}
	return &answer, nil
}

// GetRunner reads a runner's registration. It fails with ErrRunnerNotFound when it is gone.
func (c *Client) GetRunner(ctx context.Context, id int) (*RunnerReference, error) {
	var answer RunnerReference
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointGetRunner, method: http.MethodGet, path: runnersPath + "/" + strconv.Itoa(id),
	}, &answer)
	if err != nil {
		return nil, err
	}
	if answer.ID == 0 {
		return nil, unexpected(EndpointGetRunner, errors.New("the runner in the answer has no id"))
	}
	return &answer, nil
}

// GetRunnerByName finds a runner's registration. It fails with ErrRunnerNotFound when there is none.
func (c *Client) GetRunnerByName(ctx context.Context, name string) (*RunnerReference, error) {
	found, err := findNamed[RunnerReference](ctx, c, serviceRequest{
		endpoint: EndpointFindRunner, method: http.MethodGet, path: runnersPath, query: url.Values{"agentName": {name}},
	}, name)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("find runner %q: %w", name, ErrRunnerNotFound)
	}
	return &found[0], nil
}

// RemoveRunner removes a runner's registration; one that GitHub says is gone already counts as removed. Success proves that the
// runner takes no job any more. It fails with ErrJobStillRunning when the runner has one, and with ErrRunnerNotFound where a
// 404 names no exception: GitHub's names one, so this may be the word of a gateway on the way.
func (c *Client) RemoveRunner(ctx context.Context, id int) error {
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointRemoveRunner, method: http.MethodDelete, path: runnersPath + "/" + strconv.Itoa(id),
	}, nil)
	if !NamesException(err) {
		return err
	}
	return ignore(ErrRunnerNotFound, err)
}

// GetAcquirableJobs lists the jobs that are on offer to a scale set. None is an empty list. One that can't be read
// is logged and left out; if only its times can't be read, it is not left out. A service that doesn't know the question answers
// with an error that matches ErrNotFound.
func (c *Client) GetAcquirableJobs(ctx context.Context, scaleSetID int) ([]JobAvailable, error) {
	var found list[json.RawMessage]
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointGetAcquirableJobs, method: http.MethodGet, scaleSetID: scaleSetID,
		path: scaleSetPath(scaleSetID) + "/acquirablejobs",
	}, &found)
	var jobs []JobAvailable
	for _, job := range found.Value {
		if err := appendDecoded(&jobs, job); err != nil {
			c.log.Info("A job on offer can't be read, at least in part", "scaleSetID", scaleSetID, "cause", shorten(err.Error()))
		}
	}
	return jobs, err
}
