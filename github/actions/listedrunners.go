package actions

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// runnersPerPage is the most that GitHub's REST API lists at once.
	runnersPerPage = 100
	// mostRunnerPages bounds a list to 10,000 runners, as many as GitHub allows in a runner group: at 0.5 s a page, 50 s and one
	// fiftieth of the 5,000 requests that a credential has in an hour.
	mostRunnerPages = 100
	// runnersTimeout ends a list with all its pages.
	runnersTimeout = 3 * time.Minute
)

// OfflineRunners are the runners of the client's organization, repository or enterprise that were not connected at some time.
type OfflineRunners struct {
	// Names are the names of those of all scale sets, and of runners that belong to none.
	Names []string
	// ListedAt is when the list began, on the client's clock.
	ListedAt time.Time
}

// ListOfflineRunners lists the runners that are registered and not connected, by the REST API: the Actions service has no such list.
// Of more than 10,000 registered runners it leaves some out. A list that is not older than maxAge serves all callers, because everybody lists the same runners. It needs the right to read
// self-hosted runners, which tokens that may register runners have; GitHub gives it to no app of an enterprise. It fails with
// ErrUnauthorized if GitHub refuses it or does not have the call.
func (c *Client) ListOfflineRunners(ctx context.Context, maxAge time.Duration) (*OfflineRunners, error) {
	known := c.offline.get()
	if known != nil && c.clock.Since(known.ListedAt) <= maxAge {
		return known, nil
	}
	return c.offline.replace(ctx, known)
}

// listedRunner is a runner in GitHub's answer.
type listedRunner struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// listOfflineRunners reads the pages one after the other. Runners that come or go meanwhile may be missing, or be there twice.
func (c *Client) listOfflineRunners(ctx context.Context, _ *OfflineRunners) (*OfflineRunners, error) {
	found := &OfflineRunners{ListedAt: c.clock.Now()}
	token, kind, err := c.restCredential(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the runners of %s: %w", c.config, err)
	}
	for page := 1; ; page++ {
		runners, err := c.runnerPage(ctx, page, token, kind)
		if err != nil {
			return nil, fmt.Errorf("list the runners of %s: %w", c.config, err)
		}
		for _, runner := range runners {
			if runner.Status == "offline" { // a status that is not known is no reason to believe that a runner is gone
				found.Names = append(found.Names, runner.Name)
			}
		}
		switch {
		case len(runners) < runnersPerPage:
			return found, nil
		case page == mostRunnerPages:
			c.log.Info("There are more runners than are listed", "configURL", c.config.String(), "listed", page*runnersPerPage)
			return found, nil
		}
	}
}

func (c *Client) runnerPage(ctx context.Context, page int, token, kind string) ([]listedRunner, error) {
	ctx, cancel := withTimeout(ctx, c.deadlines.call)
	defer cancel()
	address := c.config.runnersURL()
	address.RawQuery = url.Values{"per_page": {strconv.Itoa(runnersPerPage)}, "page": {strconv.Itoa(page)}}.Encode()
	answer, err := c.exchange(ctx, request{
		endpoint: EndpointListRunners, method: http.MethodGet, url: address,
		header:     c.restHeader("Bearer "+token, "application/vnd.github+json"),
		credential: kind,
		timeout:    c.deadlines.attempt, retries: maxRetries,
	})
	if err != nil {
		return nil, err
	}
	var listed struct {
		Runners []listedRunner `json:"runners"`
	}
	err = answer.decode(EndpointListRunners, &listed)
	return listed.Runners, err
}
