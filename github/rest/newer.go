package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// runsPerPage keeps an answer below its limit of 1 MiB: a run has up to 20 kB.
	runsPerPage = 30
	// mostRunPages bounds the search for a newer run to 300. More are of forks that have branches of one name.
	mostRunPages = 10
)

// NewerRun returns the newest run of the same workflow, branch and event that was begun after a run, nil if there is
// none. Others of them would be overtaken by the older one, if it ran again.
func (c *Client) NewerRun(ctx context.Context, in Repository, of *Run) (*Run, error) {
	if of.WorkflowID <= 0 {
		return nil, &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetRun,
			Err: errors.New("the answer does not name the run's workflow")}
	}
	query := url.Values{
		"event":                 {of.Event},
		"created":               {">=" + of.CreatedAt.UTC().Format(time.RFC3339)},
		"exclude_pull_requests": {"true"},
		"per_page":              {strconv.Itoa(runsPerPage)},
	}
	if of.Branch != "" {
		query.Set("branch", of.Branch)
	}
	for page := 1; page <= mostRunPages; page++ {
		query.Set("page", strconv.Itoa(page))
		var listed struct {
			Runs []Run `json:"workflow_runs"`
		}
		if err := c.call(ctx, in, actions.RESTRequest{
			Endpoint: actions.EndpointListRuns, Method: http.MethodGet, Query: query,
			Path: []string{"actions", "workflows", strconv.FormatInt(of.WorkflowID, 10), "runs"},
		}, &listed); err != nil {
			return nil, err
		}
		for i := range listed.Runs[:min(len(listed.Runs), runsPerPage)] {
			if listed.Runs[i].overtakes(of) {
				return &listed.Runs[i], nil
			}
		}
		if len(listed.Runs) < runsPerPage {
			break
		}
	}
	return nil, nil
}

// overtakes reports whether the run was begun after another of the same workflow, branch and event. Numbers are those
// of a workflow; an attempt has no other.
func (r *Run) overtakes(of *Run) bool {
	return r.WorkflowID == of.WorkflowID && r.Event == of.Event && r.Branch == of.Branch &&
		r.HeadRepository.FullName == of.HeadRepository.FullName && r.ID != of.ID && r.Number > of.Number
}
