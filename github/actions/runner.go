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

// JITConfigRequest describes a runner to be registered.
type JITConfigRequest struct {
	// Name is the runner's name. It is unique in its organization, repository or enterprise, regardless of case.
	Name string `json:"name"`
	// WorkFolder is the directory in which the runner runs jobs. If it is empty, the runner uses its default.
	WorkFolder string `json:"workFolder"`
}

// JITConfig is a new registration of a runner. Printing or logging it shows no secret.
type JITConfig struct {
	// Runner is the runner that was registered.
	Runner RunnerReference `json:"runner"`
	// EncodedJITConfig is what the runner is started with (--jitconfig): a secret of a few KB, good for one start.
	EncodedJITConfig string `json:"encodedJITConfig"`
}

// RunnerReference is a registered runner.
type RunnerReference struct {
	// ID identifies the registration. A runner that is registered again gets another one.
	ID int `json:"id"`
	// Name is the runner's name.
	Name string `json:"name"`
	// RunnerScaleSetID is the scale set that the runner belongs to. Check it before removing a runner that was found by name.
	RunnerScaleSetID int `json:"runnerScaleSetId"`
}

func (r RunnerReference) identity() (int, string) { return r.ID, r.Name }

// GenerateJITConfig registers a runner of a scale set and returns what to start it with. It fails with ErrScaleSetNotFound, and with
// ErrRunnerExists if the name is taken. The runner may be the caller's own, if the answer to a first attempt was lost: look it up by
// name, remove it if its RunnerScaleSetID is the caller's, and try again. Any 409 is treated as ErrRunnerExists; the error's text
// says what GitHub answered.
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

// GetRunner returns the runner with the given ID. It fails with ErrRunnerNotFound if there is none.
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

// GetRunnerByName returns the runner with the given name, regardless of case. It fails with ErrRunnerNotFound if there is none.
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

// RemoveRunner removes a runner's registration. It succeeds if GitHub says that there is none. Success proves that the runner will
// not take a job any more; nothing else does. It fails with ErrJobStillRunning if the runner has a job, and with ErrRunnerNotFound
// if a 404 names no exception: GitHub's does, so this one may come from a gateway on the way.
func (c *Client) RemoveRunner(ctx context.Context, id int) error {
	err := c.callService(ctx, serviceRequest{
		endpoint: EndpointRemoveRunner, method: http.MethodDelete, path: runnersPath + "/" + strconv.Itoa(id),
	}, nil)
	if !NamesException(err) {
		return err
	}
	return ignore(ErrRunnerNotFound, err)
}

// GetAcquirableJobs returns the jobs on offer to a scale set, which may be none. A job that can't be decoded is logged and left
// out, unless only its times can't be. If the service does not have this call, which ARC made until 0.13.1 and
// github.com/actions/scaleset lacks, it fails with ErrNotFound or another answer that [IsRejected].
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
