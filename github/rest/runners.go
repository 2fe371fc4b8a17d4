package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// mostDownloads and mostReleases limit what is taken of an answer: GitHub offers the runner for some eight systems,
	// and of its releases only the newest ones matter.
	mostDownloads, mostReleases = 64, 8
	// longestName limits names in these answers, in bytes.
	longestName = 128
)

// RunnerDownloads returns the names of the files with the runner that GitHub offers to the client's config URL, such as
// actions-runner-linux-x64-2.337.0.tar.gz: "List runner applications for an organization" and the like at
// https://docs.github.com/rest. It needs the rights that registering runners needs.
func (c *Client) RunnerDownloads(ctx context.Context) ([]string, error) {
	config := c.github.ConfigURL()
	path := []string{"repos", config.Organization, config.Repository}
	switch config.Scope {
	case actions.ScopeOrganization:
		path = []string{"orgs", config.Organization}
	case actions.ScopeEnterprise:
		path = []string{"enterprises", config.Enterprise}
	}
	var answer []struct {
		Filename string `json:"filename"`
	}
	if err := c.github.CallREST(ctx, actions.RESTRequest{Endpoint: actions.EndpointRunnerDownloads, Method: http.MethodGet,
		Path: append(path, "actions", "runners", "downloads")}, &answer); err != nil {
		return nil, fmt.Errorf("list the runner's downloads: %w", err)
	}
	var names []string
	for _, file := range answer[:min(len(answer), mostDownloads)] {
		if len(file.Filename) <= longestName {
			names = append(names, file.Filename)
		}
	}
	return names, nil
}

// RunnerRelease is a release of the runner.
type RunnerRelease struct {
	Tag         string    `json:"tag_name"`
	PublishedAt time.Time `json:"published_at"`
	Draft       bool      `json:"draft"`
	Prerelease  bool      `json:"prerelease"`
}

// RunnerReleases returns the newest releases of github.com/actions/runner, which everybody may read. It asks only a
// client whose own address is github.com, because no credential goes to a host that isn't its own: for any other it
// fails with ErrForeignRepository, and nothing is asked.
func (c *Client) RunnerReleases(ctx context.Context) ([]RunnerRelease, error) {
	config := c.github.ConfigURL()
	if host := strings.ToLower(config.URL.Host); !config.Hosted || (host != "github.com" && host != "www.github.com") {
		return nil, fmt.Errorf("actions/runner: %w %s", ErrForeignRepository, config)
	}
	var answer []RunnerRelease
	if err := c.github.CallREST(ctx, actions.RESTRequest{Endpoint: actions.EndpointRunnerReleases, Method: http.MethodGet,
		Path:  []string{"repos", "actions", "runner", "releases"},
		Query: url.Values{"per_page": {strconv.Itoa(mostReleases)}}}, &answer); err != nil {
		return nil, fmt.Errorf("list the runner's releases: %w", err)
	}
	var releases []RunnerRelease
	for _, r := range answer[:min(len(answer), mostReleases)] {
		if !r.Draft && !r.Prerelease && len(r.Tag) <= longestName {
			releases = append(releases, r)
		}
	}
	return releases, nil
}
