package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// ConclusionNeutral is the conclusion of a check run that neither passes nor fails its commit.
const ConclusionNeutral = "neutral"

const (
	// maxCheckTitle bounds a check run's title, maxCheckText its summary: GitHub's limit of 65,535 characters.
	maxCheckTitle = 255
	maxCheckText  = 65535
)

// CheckRun is a check run on a commit. Only the App that has created it can change it.
type CheckRun struct {
	// ID is GitHub's number for it, 0 before it is created.
	ID int64
	// Name is shown in the list of the commit's checks.
	Name string
	// HeadSHA is the commit.
	HeadSHA string
	// ExternalID is the creator's own name for it, by which it is found again if the answer to its creation was lost.
	ExternalID string
	// DetailsURL is the target of its link; empty for the App's own page.
	DetailsURL string
	// Conclusion ends the check run. It goes on while that is empty.
	Conclusion string
	// Title and Summary are read on its page, the latter as Markdown. Both are cut to the length that GitHub accepts.
	Title, Summary string
}

// checkRun is a check run as GitHub reads and writes it.
type checkRun struct {
	ID          int64        `json:"id,omitempty"`
	Name        string       `json:"name,omitempty"`
	HeadSHA     string       `json:"head_sha,omitempty"`
	ExternalID  string       `json:"external_id,omitempty"`
	DetailsURL  string       `json:"details_url,omitempty"`
	Status      string       `json:"status"`
	Conclusion  string       `json:"conclusion,omitempty"`
	CompletedAt *time.Time   `json:"completed_at,omitempty"`
	Output      *checkOutput `json:"output,omitempty"`
}

type checkOutput struct {
	Title   string `json:"title"`
	Summary string `json:"summary"`
}

func (c *Client) encode(check CheckRun) checkRun {
	sent := checkRun{
		Name:       check.Name,
		HeadSHA:    check.HeadSHA,
		ExternalID: check.ExternalID,
		DetailsURL: check.DetailsURL,
		Status:     "in_progress",
		Output:     &checkOutput{Title: cut(check.Title, maxCheckTitle), Summary: cut(check.Summary, maxCheckText)},
	}
	if check.Conclusion != "" {
		sent.Status, sent.Conclusion, sent.CompletedAt = statusCompleted, check.Conclusion,
			new(c.github.Now().UTC().Truncate(time.Second))
	}
	return sent
}

// cut shortens a text to so many bytes, between two characters.
func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

// CreateCheckRun creates a check run and returns its number. If it fails with an error of which MayBeDone is true,
// GitHub may have created it all the same: FindCheckRun tells. It fails with ErrUnauthorized of package actions without
// the permission, or with a personal access token.
func (c *Client) CreateCheckRun(ctx context.Context, in Repository, check CheckRun) (id int64, err error) {
	var created checkRun
	err = c.call(ctx, in, actions.RESTRequest{
		Endpoint: actions.EndpointCreateCheckRun,
		Method:   http.MethodPost,
		Path:     []string{"check-runs"},
		Body:     c.encode(check),
		Once:     true,
	}, &created)
	if err == nil && created.ID == 0 {
		err = &actions.UnexpectedResponseError{
			Endpoint: actions.EndpointCreateCheckRun,
			Err:      errors.New("the answer has no id"),
		}
	}
	return created.ID, err
}

// UpdateCheckRun replaces the content of a check run, but not its name. It fails with ErrNotFound of package actions if there is none
// with that number.
func (c *Client) UpdateCheckRun(ctx context.Context, in Repository, check CheckRun) error {
	sent := c.encode(check)
	sent.HeadSHA, sent.Name = "", "" // it stays on its commit, and what it is called
	return c.call(ctx, in, actions.RESTRequest{
		Endpoint: actions.EndpointUpdateCheckRun, Method: http.MethodPatch,
		Path: []string{"check-runs", strconv.FormatInt(check.ID, 10)}, Body: sent,
	}, nil)
}

// mostCheckPages bounds a list to 1,020 check runs of one name on one commit.
const mostCheckPages = 34

// FindCheckRun returns the number of the check run with this commit, name and external id, 0 if there is none. It looks
// through all of that name, however many workflow runs the commit has.
func (c *Client) FindCheckRun(ctx context.Context, in Repository, check CheckRun) (id int64, err error) {
	const perPage = 30
	for page := 1; page <= mostCheckPages; page++ {
		var listed struct {
			CheckRuns []checkRun `json:"check_runs"`
		}
		err = c.call(ctx, in, actions.RESTRequest{
			Endpoint: actions.EndpointListCheckRuns,
			Method:   http.MethodGet,
			Path:     []string{"commits", check.HeadSHA, "check-runs"},
			Query: url.Values{"check_name": {check.Name}, "filter": {"all"}, "per_page": {strconv.Itoa(perPage)},
				"page": {strconv.Itoa(page)}},
		}, &listed)
		if err != nil {
			return 0, err
		}
		for _, found := range listed.CheckRuns {
			if found.ExternalID == check.ExternalID {
				return found.ID, nil
			}
		}
		if len(listed.CheckRuns) < perPage {
			break
		}
	}
	return 0, nil
}
