package actions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
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
	// The runner is started with EncodedJITConfig (--jitconfig): a secret of a few KB, good for one start.
	EncodedJITConfig string `json:"encodedJITConfig"`
}

// Format prints the ID and name of the runner, without the JIT config itself, whatever verb or logger prints it.
func (j JITConfig) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "JIT config of runner %d (%s)", j.Runner.ID, j.Runner.Name)
}

// MarshalLog returns what Format prints, for logr.
func (j JITConfig) MarshalLog() any { return fmt.Sprint(j) }

// RunnerReference is a registered runner.
type RunnerReference struct {
	// ID identifies the registration. A runner that is registered again gets another one.
	ID int `json:"id"`
	// Name is the runner's name.
	Name string `json:"name"`
	// RunnerScaleSetID is the scale set that the runner belongs to. Check it before removing a runner that was found by
	// name.
	RunnerScaleSetID int `json:"runnerScaleSetId"`
	// Status is "online" while the runner is connected, "offline" while it is not, and empty if the service doesn't
	// say.
	Status string `json:"status"`
	// Version is the version of the runner's program, as the program has said itself when it connected. It is empty
	// before that, and if the service doesn't say.
	Version string `json:"version,omitempty"`
}

// Online reports whether the service says that the runner is connected.
func (r RunnerReference) Online() bool { return strings.EqualFold(r.Status, "online") }

// GenerateJITConfig registers a runner of a scale set and returns the JIT config to start it with. It fails with
// ErrScaleSetNotFound, and with ErrRunnerExists if the name is taken. The runner may be the caller's own, if the answer
// to a first attempt was lost: look it up by name, remove it if its RunnerScaleSetID is the caller's, and try again.
// Any 409 is treated as ErrRunnerExists; the error's text quotes GitHub's answer.
func (c *Client) GenerateJITConfig(ctx context.Context, scaleSetID int, request JITConfigRequest) (*JITConfig, error) {
	var answer JITConfig
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointGenerateJITConfig, Method: http.MethodPost, ScaleSetID: scaleSetID,
		Path: scaleSetPath(scaleSetID) + "/generatejitconfig", Body: request,
	}, &answer)
	if err != nil {
		return nil, err
	}
	if answer.EncodedJITConfig == "" || answer.Runner.ID <= 0 {
		return nil, failure.Unexpected(
			failure.EndpointGenerateJITConfig, errors.New("the answer lacks the runner's id or its JIT config"),
		)
	}
	return &answer, nil
}

// GetRunner returns the runner with the given ID. It fails with ErrRunnerNotFound if there is none.
func (c *Client) GetRunner(ctx context.Context, id int) (*RunnerReference, error) {
	var answer RunnerReference
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointGetRunner, Method: http.MethodGet, Path: runnersPath + "/" + strconv.Itoa(id),
	}, &answer)
	if err != nil {
		return nil, err
	}
	if answer.ID == 0 {
		return nil, failure.Unexpected(failure.EndpointGetRunner, errors.New("the runner in the answer has no id"))
	}
	return &answer, nil
}

// GetRunnerByName returns the runner with the given name, regardless of case. It fails with ErrRunnerNotFound if there
// is none.
func (c *Client) GetRunnerByName(ctx context.Context, name string) (*RunnerReference, error) {
	found, err := findNamed(ctx, c, service.Request{
		Endpoint: failure.EndpointFindRunner,
		Method:   http.MethodGet,
		Path:     runnersPath,
		Query:    url.Values{"agentName": {name}},
	}, name, func(runner RunnerReference) (int, string) { return runner.ID, runner.Name })
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("find runner %q: %w", name, failure.ErrRunnerNotFound)
	}
	return &found[0], nil
}

// RemoveRunner removes a runner's registration. It succeeds if GitHub says that there is none. Success proves that the
// runner will not take a job any more; nothing else does. It fails with ErrJobStillRunning if the runner has a job, and
// with ErrRunnerNotFound if a 404 names no exception: GitHub's does, so this one may come from a gateway on the way.
func (c *Client) RemoveRunner(ctx context.Context, id int) error {
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointRemoveRunner, Method: http.MethodDelete, Path: runnersPath + "/" + strconv.Itoa(id),
	}, nil)
	if !failure.NamesException(err) {
		return err
	}
	return failure.Ignore(failure.ErrRunnerNotFound, err)
}

// ListOfflineRunners lists the runners that are registered and not connected, by the REST API: the Actions service has
// no such list. Of more than 10,000 registered runners it leaves some out. A list that is not older than maxAge serves
// all callers, because everybody lists the same runners. It needs the right to read self-hosted runners, which tokens
// that may register runners have; GitHub gives it to no app of an enterprise. It fails with ErrUnauthorized if GitHub
// refuses it or does not have the call.
func (c *Client) ListOfflineRunners(ctx context.Context, maxAge time.Duration) (*OfflineRunners, error) {
	known := c.offline.Get()
	if known != nil && c.service.Clock.Since(known.ListedAt) <= maxAge {
		return known, nil
	}
	return c.offline.Replace(ctx, known)
}
