package fakegithub_test

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// runnerPage is an answer of the REST call that lists runners.
type runnerPage struct {
	TotalCount int `json:"total_count"`
	Runners    []struct {
		ID               int
		Name, OS, Status string
		Busy             bool
		Labels           []struct{ Name string }
	}
}

func (c *client) listRunners(query string) (page runnerPage) {
	c.t.Helper()
	c.want(200, c.do("GET", c.base+"/api/v3/orgs/acme/actions/runners"+query, "Bearer pat", nil), &page)
	return page
}

// statusOf returns the listed status of the one runner of that name.
func (c *client) statusOf(name string) string {
	c.t.Helper()
	page := c.listRunners("?name=" + name)
	if page.TotalCount != 1 {
		c.t.Fatalf("runners named %s: %+v", name, page)
	}
	return page.Runners[0].Status
}

// A runner is listed as offline until it connects, and again some time after it has lost touch.
func TestRunnersAreListedWithTheirStatus(t *testing.T) {
	// By a clock that stands still: pauses between requests must not look like a loss.
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{
		Rules: fakegithub.Rules{RunnerLostAfter: time.Millisecond}, PollLength: time.Minute, Clock: clock,
	})
	set := c.createSet("linux")
	c.generate(set.ID, "never")
	registered := c.generate(set.ID, "runner")
	ctx, crash := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = fakegithub.RunRunner(ctx, registered.EncodedJITConfig, fakegithub.RunnerOptions{Kill: ctx.Done()})
	}()
	c.untilRunner("runner", true, false)
	page := c.listRunners("")
	if page.TotalCount != 2 || len(page.Runners) != 2 {
		t.Fatalf("%+v", page)
	}
	never, up := page.Runners[0], page.Runners[1]
	if never.Name != "never" || never.Status != "offline" || up.Name != "runner" || up.Status != "online" || up.Busy ||
		up.ID != registered.Runner.ID {
		t.Errorf("%+v", page)
	}
	if len(up.Labels) != 1 || up.Labels[0].Name != "linux" || never.OS != "unknown" || up.OS != "linux" {
		t.Errorf("%+v", page)
	}
	crash()
	<-ended
	for c.statusOf("runner") != "offline" {
		clock.Step(time.Millisecond) // the service sees a moment later that the connection has ended
	}
}

func TestRunnersAreListedInPages(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	for _, name := range []string{"a", "b", "c"} {
		c.generate(set.ID, name)
	}
	for query, want := range map[string]string{"?per_page=2": "ab", "?per_page=2&page=2": "c", "?page=7": "",
		"?per_page=1000": "abc"} {
		names := ""
		page := c.listRunners(query)
		for _, runner := range page.Runners {
			names += runner.Name
		}
		if names != want || page.TotalCount != 3 {
			t.Errorf("%s: %s of %d, want %s of 3", query, names, page.TotalCount, want)
		}
	}
	c.want(401, c.do("GET", c.base+"/api/v3/orgs/acme/actions/runners", "", nil), nil)
	c.want(404, c.do("GET", c.base+"/api/v3/users/acme/actions/runners", "Bearer pat", nil), nil)
	var other runnerPage
	c.want(200, c.do("GET", c.base+"/api/v3/repos/acme/app/actions/runners", "Bearer pat", nil), &other)
	if other.TotalCount != 0 {
		t.Errorf("a repository lists the organization's runners: %+v", other)
	}
}
