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
)

// labelTypeSystem is the type of labels that decide which jobs a scale set gets.
const labelTypeSystem = "System"

// RunnerScaleSet is a scale set as GitHub keeps it. In a request, zero values mean "unchanged" or
// "the default", and what only GitHub sets (id, creation time, statistics) is not sent.
type RunnerScaleSet struct {
	ID                 int           `json:"id,omitempty"`
	Name               string        `json:"name,omitempty"`
	RunnerGroupID      int           `json:"runnerGroupId,omitempty"`
	RunnerGroupName    string        `json:"runnerGroupName,omitempty"`
	Labels             []Label       `json:"labels,omitempty"`
	RunnerSetting      RunnerSetting `json:"RunnerSetting,omitzero"`
	CreatedOn          time.Time     `json:"createdOn,omitzero"`
	RunnerJITConfigURL string        `json:"runnerJitConfigUrl,omitempty"`
	// Statistics is nil when GitHub sent none.
	Statistics *Statistics `json:"statistics,omitempty"`
}

// Label is a label of a scale set, matched by `runs-on`.
type Label struct {
	// Type is "System" when empty.
	Type string `json:"type"`
	Name string `json:"name"`
}

// RunnerSetting holds what applies to all runners of a scale set.
type RunnerSetting struct {
	// DisableUpdate keeps runners from replacing their own software.
	DisableUpdate bool `json:"disableUpdate,omitempty"`
}

// Statistics counts jobs and runners of a scale set at the moment of the answer that carries it.
type Statistics struct {
	// TotalAvailableJobs match the scale set and were acquired by nobody.
	TotalAvailableJobs int `json:"totalAvailableJobs"`
	// TotalAcquiredJobs were acquired and are not assigned yet.
	TotalAcquiredJobs int `json:"totalAcquiredJobs"`
	// TotalAssignedJobs were assigned to the scale set, including those that run. Scale by this number.
	TotalAssignedJobs int `json:"totalAssignedJobs"`
	// TotalRunningJobs run.
	TotalRunningJobs int `json:"totalRunningJobs"`
	// TotalRegisteredRunners counts all registrations, also of runners that are not connected.
	TotalRegisteredRunners int `json:"totalRegisteredRunners"`
	// TotalBusyRunners run a job.
	TotalBusyRunners int `json:"totalBusyRunners"`
	// TotalIdleRunners are connected and run no job.
	TotalIdleRunners int `json:"totalIdleRunners"`
}

// RunnerGroup is a group of runners that an organization or enterprise grants to repositories.
type RunnerGroup struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// list is the envelope of answers that hold any number of things. Its count repeats len(value).
type list[T any] struct {
	Value []T `json:"value"`
}

// named is a thing that is looked up by its name.
type named interface{ identity() (id int, name string) }

func (s RunnerScaleSet) identity() (int, string) { return s.ID, s.Name }

func (g RunnerGroup) identity() (int, string) { return g.ID, g.Name }

// findNamed returns what has an id and the name that was asked for: a service that ignores the filter must not hand out a
// stranger's scale set or runner, which might be changed or removed.
func findNamed[T named](ctx context.Context, c *Client, r serviceRequest, name string) ([]T, error) {
	var found list[T]
	err := c.callService(ctx, r, &found)
	return slices.DeleteFunc(found.Value, func(thing T) bool {
		id, its := thing.identity()
		return id <= 0 || !strings.EqualFold(its, name)
	}), err
}

func scaleSetPath(id int) string {
	return "_apis/runtime/runnerscalesets/" + strconv.Itoa(id)
}

// GetRunnerScaleSet finds a scale set by its group and name. It fails with ErrScaleSetNotFound when there is none.
func (c *Client) GetRunnerScaleSet(ctx context.Context, runnerGroupID int, name string) (*RunnerScaleSet, error) {
	found, err := findNamed[RunnerScaleSet](ctx, c, serviceRequest{
		endpoint: EndpointFindScaleSet,
		method:   http.MethodGet,
		path:     "_apis/runtime/runnerscalesets",
		query:    url.Values{"runnerGroupId": {strconv.Itoa(runnerGroupID)}, "name": {name}},
	}, name)
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("find scale set %q in runner group %d: %w", name, runnerGroupID, ErrScaleSetNotFound)
	case 1:
		return &found[0], nil
	}
	return nil, unexpected(EndpointFindScaleSet, fmt.Errorf("%d scale sets are named %q in runner group %d", len(found), name, runnerGroupID))
}

// GetRunnerScaleSetByID reads a scale set with its statistics. It fails with ErrScaleSetNotFound when there is none.
func (c *Client) GetRunnerScaleSetByID(ctx context.Context, id int) (*RunnerScaleSet, error) {
	return c.scaleSetCall(ctx, serviceRequest{
		endpoint: EndpointGetScaleSet, method: http.MethodGet, path: scaleSetPath(id), scaleSetID: id,
	})
}

// CreateRunnerScaleSet creates a scale set. Without labels it gets one, its name. It fails with
// ErrScaleSetExists when the name is taken, which is also what a lost answer followed by a repetition looks like. Any 409 is
// taken for that; the error's text has what GitHub said.
func (c *Client) CreateRunnerScaleSet(ctx context.Context, set *RunnerScaleSet) (*RunnerScaleSet, error) {
	body := set.requestBody()
	if len(body.Labels) == 0 {
		if body.Name == "" {
			return nil, errors.New("create scale set: it has neither a name nor labels")
		}
		body.Labels = []Label{{Type: labelTypeSystem, Name: body.Name}}
	}
	return c.scaleSetCall(ctx, serviceRequest{
		endpoint: EndpointCreateScaleSet, method: http.MethodPost, path: "_apis/runtime/runnerscalesets", body: body,
	})
}

// UpdateRunnerScaleSet changes the fields of a scale set that are not zero. It fails with ErrScaleSetNotFound
// when there is no such scale set, with ErrScaleSetExists when the new name is taken.
func (c *Client) UpdateRunnerScaleSet(ctx context.Context, id int, set *RunnerScaleSet) (*RunnerScaleSet, error) {
	return c.scaleSetCall(ctx, serviceRequest{
		endpoint: EndpointUpdateScaleSet, method: http.MethodPatch, path: scaleSetPath(id), scaleSetID: id,
		body: set.requestBody(),
	})
}

// DeleteRunnerScaleSet deletes a scale set. One that is gone already counts as deleted.
func (c *Client) DeleteRunnerScaleSet(ctx context.Context, id int) error {
	return ignore(ErrScaleSetNotFound, c.callService(ctx, serviceRequest{
		endpoint: EndpointDeleteScaleSet, method: http.MethodDelete, path: scaleSetPath(id), scaleSetID: id,
	}, nil))
}

// GetRunnerGroupByName finds a runner group. It fails with ErrRunnerGroupNotFound when there is none.
func (c *Client) GetRunnerGroupByName(ctx context.Context, name string) (*RunnerGroup, error) {
	found, err := findNamed[RunnerGroup](ctx, c, serviceRequest{
		endpoint: EndpointFindRunnerGroup,
		method:   http.MethodGet,
		path:     "_apis/runtime/runnergroups/", // the service insists on the last slash
		query:    url.Values{"groupName": {name}},
	}, name)
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("find runner group %q: %w", name, ErrRunnerGroupNotFound)
	case 1:
		return &found[0], nil
	}
	return nil, unexpected(EndpointFindRunnerGroup, fmt.Errorf("%d runner groups are named %q", len(found), name))
}

func (c *Client) scaleSetCall(ctx context.Context, r serviceRequest) (*RunnerScaleSet, error) {
	var answer RunnerScaleSet
	if err := c.callService(ctx, r, &answer); err != nil {
		return nil, err
	}
	if answer.ID == 0 {
		return nil, unexpected(r.endpoint, errors.New("the scale set in the answer has no id"))
	}
	return &answer, nil
}

// requestBody returns a copy without what only GitHub sets, and with the type of each label.
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
