package fakegithub_test

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// offered returns the versions that the fake offers and lists at an address of its REST API.
func (c *client) offered(base, scope string) (file string, tags []string) {
	c.t.Helper()
	var files []struct{ Filename string }
	c.want(200, c.do("GET", base+scope+"/actions/runners/downloads", "Bearer pat", nil), &files)
	var releases []struct {
		TagName string `json:"tag_name"`
	}
	if got := c.do("GET", base+"/repos/actions/runner/releases?per_page=2", "Bearer pat", nil); got.status != 404 {
		c.want(200, got, &releases)
	}
	for _, r := range releases {
		tags = append(tags, r.TagName)
	}
	return files[0].Filename, tags
}

// The newest runner that has come is offered everywhere. Its repository is on github.com only.
func TestRunnerReleasesAreOffered(t *testing.T) {
	now := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
	c := newClient(t, fakegithub.Options{Clock: clocktesting.NewFakeClock(now), PATs: []string{"pat"}})
	c.http.Transport = c.server.Transport()
	const hosted, server = "https://api.github.com", "https://ghes.example.com/api/v3"
	for _, scope := range []string{"/orgs/acme", "/repos/acme/app", "/enterprises/acme"} {
		file, tags := c.offered(hosted, scope)
		if file != "actions-runner-linux-x64-2.336.0.tar.gz" || len(tags) != 2 || tags[0] != "v2.336.0" || tags[1] != "v2.335.1" {
			t.Errorf("%s: offers %s, lists %q before 2.337.0 has come", scope, file, tags)
		}
		if file, tags := c.offered(server, scope); file != "actions-runner-linux-x64-2.336.0.tar.gz" || tags != nil {
			t.Errorf("%s of a server: offers %s, lists %q", scope, file, tags)
		}
	}
	control := &fakegithub.ControlClient{BaseURL: c.base}
	release := fakegithub.Action{Action: "release-runner", Version: "2.336.1", PublishedAt: now.Add(-time.Hour)}
	if err := control.Act(context.Background(), release); err != nil {
		t.Fatal(err)
	}
	if file, tags := c.offered(hosted, "/orgs/acme"); file != "actions-runner-linux-x64-2.336.1.tar.gz" || tags[0] != "v2.336.1" {
		t.Errorf("after a release of 2.336.1: offers %s, lists %q", file, tags)
	}
	if got := c.do("GET", hosted+"/orgs/acme/actions/runners/downloads", "Bearer other", nil); got.status != 401 {
		t.Errorf("an unknown token: %d", got.status)
	}
	if err := control.Act(context.Background(), fakegithub.Action{Action: "release-runner"}); err == nil {
		t.Error("a release of nothing was taken")
	}
}
