package actions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
)

// labelTypeSystem is the type of labels that decide which jobs a scale set gets.
const labelTypeSystem = "System"

// RunnerScaleSet is a scale set. In a request, a zero field means "unchanged" or "the default", and the fields that
// only GitHub sets (ID, CreatedOn, RunnerJITConfigURL, Statistics) are not sent.
type RunnerScaleSet struct {
	// ID identifies the scale set in all other calls.
	ID int `json:"id,omitempty"`
	// Name is the scale set's name, unique in its runner group.
	Name string `json:"name,omitempty"`
	// RunnerGroupID is the scale set's runner group. The default group has the ID 1.
	RunnerGroupID int `json:"runnerGroupId,omitempty"`
	// RunnerGroupName is the name of that group.
	RunnerGroupName string `json:"runnerGroupName,omitempty"`
	// Labels decide which jobs the scale set gets. GitHub Enterprise Server before 3.21 was observed to drop all but
	// the name, unless a feature flag is set (3.18 and later).
	Labels []Label `json:"labels,omitempty"`
	// RunnerSetting applies to all its runners.
	RunnerSetting RunnerSetting `json:"RunnerSetting,omitzero"`
	// CreatedOn is the time at which the scale set was created.
	CreatedOn time.Time `json:"createdOn,omitzero"`
	// RunnerJITConfigURL is the address at which GitHub registers runners of the scale set. This client does not use
	// it.
	RunnerJITConfigURL string `json:"runnerJitConfigUrl,omitempty"`
	// Statistics are current as of the answer. They are nil if GitHub sent none.
	Statistics *Statistics `json:"statistics,omitempty"`
}

// Label is a label of a scale set. A job's runs-on must match a scale set's labels.
type Label struct {
	// Type is the label's type; "System" if it is empty.
	Type string `json:"type"`
	// Name is the text that runs-on has.
	Name string `json:"name"`
}

// RunnerSetting has the settings that apply to all runners of a scale set.
type RunnerSetting struct {
	// DisableUpdate keeps runners from updating their own software.
	DisableUpdate bool `json:"disableUpdate,omitempty"`
}

// Statistics counts the jobs and runners of a scale set at the time of the answer that carries it.
type Statistics struct {
	// TotalAvailableJobs are jobs that match the scale set and that nobody has acquired.
	TotalAvailableJobs int `json:"totalAvailableJobs"`
	// TotalAcquiredJobs are jobs that were acquired and are not assigned yet.
	TotalAcquiredJobs int `json:"totalAcquiredJobs"`
	// TotalAssignedJobs are jobs assigned to the scale set, running ones included. Scale by this number.
	TotalAssignedJobs int `json:"totalAssignedJobs"`
	// TotalRunningJobs are jobs that run.
	TotalRunningJobs int `json:"totalRunningJobs"`
	// TotalRegisteredRunners are all registered runners, connected or not.
	TotalRegisteredRunners int `json:"totalRegisteredRunners"`
	// TotalBusyRunners are runners that run a job.
	TotalBusyRunners int `json:"totalBusyRunners"`
	// TotalIdleRunners are connected runners that run no job.
	TotalIdleRunners int `json:"totalIdleRunners"`
}

// RunnerGroup is a group of runners. An organization or enterprise decides which repositories may use it.
type RunnerGroup struct {
	// ID is the value for [RunnerScaleSet.RunnerGroupID].
	ID int `json:"id"`
	// Name is the group's name.
	Name string `json:"name"`
}

// list is the envelope of answers with any number of items. Its count repeats len(value).
type list[T any] struct {
	Value []T `json:"value"`
}

// findNamed returns the items of the answer that have an ID and the given name. If a service ignores the filter, a
// caller must not get somebody else's scale set or runner and change or remove it.
func findNamed[T any](
	ctx context.Context, c *Client, r service.Request, name string, identify func(T) (id int, name string),
) ([]T, error) {
	var found list[T]
	err := c.service.Call(ctx, r, &found)
	return slices.DeleteFunc(found.Value, func(item T) bool {
		id, actual := identify(item)
		return id <= 0 || !strings.EqualFold(actual, name)
	}), err
}

func scaleSetPath(id int) string {
	return "_apis/runtime/runnerscalesets/" + strconv.Itoa(id)
}

// GetRunnerScaleSet returns the scale set with the given name, regardless of case, in a runner group. It fails with
// ErrScaleSetNotFound if there is none, and with *UnexpectedResponseError if there are several.
func (c *Client) GetRunnerScaleSet(ctx context.Context, runnerGroupID int, name string) (*RunnerScaleSet, error) {
	found, err := findNamed(ctx, c, service.Request{
		Endpoint: failure.EndpointFindScaleSet,
		Method:   http.MethodGet,
		Path:     "_apis/runtime/runnerscalesets",
		Query:    url.Values{"runnerGroupId": {strconv.Itoa(runnerGroupID)}, "name": {name}},
	}, name, func(set RunnerScaleSet) (int, string) { return set.ID, set.Name })
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf(
			"find scale set %q in runner group %d: %w", name, runnerGroupID, failure.ErrScaleSetNotFound,
		)
	case 1:
		return &found[0], nil
	}
	return nil, failure.Unexpected(
		failure.EndpointFindScaleSet,
		fmt.Errorf("%d scale sets are named %q in runner group %d", len(found), name, runnerGroupID),
	)
}

// ListRunnerScaleSets returns all scale sets of the config URL's organization, repository or enterprise. That the
// service lists them without a name was observed.
func (c *Client) ListRunnerScaleSets(ctx context.Context) ([]RunnerScaleSet, error) {
	var found list[RunnerScaleSet]
	err := c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointFindScaleSet,
		Method:   http.MethodGet,
		Path:     "_apis/runtime/runnerscalesets",
	}, &found)
	return slices.DeleteFunc(found.Value, func(set RunnerScaleSet) bool { return set.ID <= 0 }), err
}

// GetRunnerScaleSetByID returns a scale set with its statistics. It fails with ErrScaleSetNotFound if there is none;
// see also [LacksReadByID].
func (c *Client) GetRunnerScaleSetByID(ctx context.Context, id int) (*RunnerScaleSet, error) {
	return c.scaleSetCall(ctx, service.Request{
		Endpoint: failure.EndpointGetScaleSet, Method: http.MethodGet, Path: scaleSetPath(id), ScaleSetID: id,
	})
}

// CreateRunnerScaleSet creates a scale set and returns it as GitHub has it. If set has no labels, its name becomes the
// only one. It fails with ErrScaleSetExists if the name is taken, possibly by the caller's own scale set, if the answer
// to a first attempt was lost. Any 409 is treated as that; the error's text quotes GitHub's answer.
func (c *Client) CreateRunnerScaleSet(ctx context.Context, set *RunnerScaleSet) (*RunnerScaleSet, error) {
	body := set.requestBody()
	if len(body.Labels) == 0 {
		if body.Name == "" {
			return nil, errors.New("create scale set: it has neither a name nor labels")
		}
		body.Labels = []Label{{Type: labelTypeSystem, Name: body.Name}}
	}
	return c.scaleSetCall(ctx, service.Request{
		Endpoint: failure.EndpointCreateScaleSet,
		Method:   http.MethodPost,
		Path:     "_apis/runtime/runnerscalesets",
		Body:     body,
	})
}

// UpdateRunnerScaleSet changes the fields of a scale set that are not zero in set, and returns the result. It fails
// with ErrScaleSetNotFound, and with ErrScaleSetExists if the new name is taken.
func (c *Client) UpdateRunnerScaleSet(ctx context.Context, id int, set *RunnerScaleSet) (*RunnerScaleSet, error) {
	return c.scaleSetCall(ctx, service.Request{
		Endpoint: failure.EndpointUpdateScaleSet, Method: http.MethodPatch, Path: scaleSetPath(id), ScaleSetID: id,
		Body: set.requestBody(),
	})
}

// DeleteRunnerScaleSet deletes a scale set. It succeeds if there is none.
func (c *Client) DeleteRunnerScaleSet(ctx context.Context, id int) error {
	return failure.Ignore(failure.ErrScaleSetNotFound, c.service.Call(ctx, service.Request{
		Endpoint: failure.EndpointDeleteScaleSet, Method: http.MethodDelete, Path: scaleSetPath(id), ScaleSetID: id,
	}, nil))
}

// GetRunnerGroupByName returns the runner group with the given name, regardless of case. It fails with
// ErrRunnerGroupNotFound if there is none, and with *UnexpectedResponseError if there are several.
func (c *Client) GetRunnerGroupByName(ctx context.Context, name string) (*RunnerGroup, error) {
	found, err := findNamed(ctx, c, service.Request{
		Endpoint: failure.EndpointFindRunnerGroup,
		Method:   http.MethodGet,
		Path:     "_apis/runtime/runnergroups/", // the service insists on the last slash
		Query:    url.Values{"groupName": {name}},
	}, name, func(group RunnerGroup) (int, string) { return group.ID, group.Name })
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("find runner group %q: %w", name, failure.ErrRunnerGroupNotFound)
	case 1:
		return &found[0], nil
	}
	return nil, failure.Unexpected(
		failure.EndpointFindRunnerGroup, fmt.Errorf("%d runner groups are named %q", len(found), name),
	)
}

func (c *Client) scaleSetCall(ctx context.Context, r service.Request) (*RunnerScaleSet, error) {
	var answer RunnerScaleSet
	if err := c.service.Call(ctx, r, &answer); err != nil {
		return nil, err
	}
	if answer.ID == 0 {
		return nil, failure.Unexpected(r.Endpoint, errors.New("the scale set in the answer has no id"))
	}
	return &answer, nil
}

// requestBody returns a copy without the fields that only GitHub sets, and with the type of each label.
func (s *RunnerScaleSet) requestBody() *RunnerScaleSet {
	body := *s
	body.ID, body.CreatedOn, body.RunnerJITConfigURL, body.Statistics = 0, time.Time{}, "", nil
	body.Labels = append([]Label(nil), s.Labels...)
	for i := range body.Labels {
		if body.Labels[i].Type == "" {
			body.Labels[i].Type = labelTypeSystem
		}
	}
	return &body
}
