package actions

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
)

const (
	// runnersPerPage is the most that GitHub's REST API lists in one answer.
	runnersPerPage = 100
	// mostRunnerPages bounds a list to 10,000 runners, as many as GitHub allows in a runner group: at 0.5 s a page, 50
	// s and one fiftieth of the 5,000 requests that a credential has in an hour.
	mostRunnerPages = 100
	// longestRunnerName leaves out names that no runner of ours can have: theirs are those of pods, which have 63
	// characters at most.
	longestRunnerName = 63
	// runnersTimeout ends a list with all its pages.
	runnersTimeout = 3 * time.Minute
)

// OfflineRunners are the runners of the client's organization, repository or enterprise that were not connected at some
// time.
type OfflineRunners struct {
	// Names are the names of those of all scale sets, and of runners that belong to none.
	Names []string
	// ListedAt is the start of the list, on the client's clock.
	ListedAt time.Time
}

// listedRunner is a runner in GitHub's answer.
type listedRunner struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// listOfflineRunners reads the pages one after the other. Runners that come or go meanwhile may be missing, or be there
// twice.
func listOfflineRunners(ctx context.Context, s *service.Service) (*OfflineRunners, error) {
	found := &OfflineRunners{ListedAt: s.Clock.Now()}
	for page := 1; ; page++ {
		runners, err := runnerPage(ctx, s, page)
		if err != nil {
			return nil, fmt.Errorf("list the runners of %s: %w", s.Config, err)
		}
		for _, runner := range runners {
			// A status that is not known is no reason to believe that a runner is gone.
			if runner.Status == "offline" && len(runner.Name) <= longestRunnerName {
				found.Names = append(found.Names, runner.Name)
			}
		}
		switch {
		case len(runners) < runnersPerPage:
			return found, nil
		case page == mostRunnerPages:
			s.Logger.Info(
				"There are more runners than are listed", "configURL", s.Config.String(),
				"listed", page*runnersPerPage,
			)
			return found, nil
		}
	}
}

func runnerPage(ctx context.Context, s *service.Service, page int) ([]listedRunner, error) {
	ctx, cancel := failure.WithTimeout(ctx, s.Deadlines.Call)
	defer cancel()
	address := s.Config.RunnersURL()
	address.RawQuery = url.Values{"per_page": {strconv.Itoa(runnersPerPage)}, "page": {strconv.Itoa(page)}}.Encode()
	answer, err := s.CallREST(ctx, exchange.Request{
		Endpoint: failure.EndpointListRunners, Method: http.MethodGet, URL: address,
		Header: http.Header{"Content-Type": {"application/vnd.github+json"}},
	})
	if err != nil {
		return nil, err
	}
	defer answer.Free()
	var listed struct {
		Runners []listedRunner `json:"runners"`
	}
	err = answer.Decode(&listed)
	return listed.Runners[:min(len(listed.Runners), runnersPerPage)], err // a server that sends more is not GitHub's
}
