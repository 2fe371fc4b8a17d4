package fakegithub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// With an injected clock an hour of work takes no time.
func TestJobOfAnHourWithFakeClock(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{
		Rules: fakegithub.Rules{RunnerLostAfter: 24 * time.Hour, SessionLifetime: 24 * time.Hour,
			QueueTokenLifetime: 24 * time.Hour},
		Clock: clock, PollLength: 12 * time.Hour, AdminTokenLifetime: 24 * time.Hour,
	})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	c.queue(fakegithub.JobRequest{ScaleSet: "linux", Duration: fakegithub.Duration(time.Hour)})
	last := s.next(0, 1).MessageID
	done := runInBackground(context.Background(), c.generate(set.ID, "runner-1"), fakegithub.RunnerOptions{Clock: clock})
	m := s.next(last, 1)
	if m.types() != "JobStarted" {
		t.Fatalf("got %s", m.types())
	}
	clock.Step(time.Hour)
	if got := <-done; got.err != nil {
		t.Errorf("exit %+v", got)
	}
	if job := c.server.Jobs("")[0]; job.CompletedAt.Sub(job.StartedAt) != time.Hour {
		t.Errorf("job ran from %s to %s", job.StartedAt, job.CompletedAt)
	}
	if m = s.next(m.MessageID, 1); m.types() != "JobCompleted" {
		t.Errorf("got %s", m.types())
	}
}

// Answers are dated by the fake's own clock: clients compare it with the expiry of tokens, whatever their own clock
// says.
func TestAnswersAreDated(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := newClient(t, fakegithub.Options{Clock: clocktesting.NewFakeClock(now)})
	response, err := c.http.Get(c.base + "/_control/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Date"); got != "Sun, 01 Mar 2026 12:00:00 GMT" {
		t.Errorf("Date %q", got)
	}
}

// A registration stays known after its removal, and its name may be used again.
func TestRegistrationsOfOneName(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{Clock: clock})
	set := c.createSet("linux")
	first := clock.Now()
	c.generate(set.ID, "runner-1")
	clock.Step(time.Second)
	removed := clock.Now()
	if err := c.server.RemoveRunner(1); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Second)
	c.generate(set.ID, "runner-1")
	want := []fakegithub.Registration{
		{ID: 1, Scope: "orgs/acme", Name: "runner-1", RegisteredAt: first, RemovedAt: removed},
		{ID: 2, Scope: "orgs/acme", Name: "runner-1", RegisteredAt: clock.Now()},
	}
	if difference := cmp.Diff(want, c.server.Registrations()); difference != "" {
		t.Errorf("registrations (-want +got):\n%s", difference)
	}
}

func TestTLS(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	server := fakegithub.New(fakegithub.Options{TLS: certificates.TLS, PollLength: time.Millisecond})
	defer server.Close()
	base, err := server.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, server: server, base: base, http: certificates.Client()}
	c.register("acme")
	if !strings.HasPrefix(c.service, "https://") {
		t.Errorf("service URL %s", c.service)
	}
	c.want(202, c.openSession(c.createSet("linux").ID).poll(0, 0), nil)
}

func TestPublicAndRunnerURL(t *testing.T) {
	c := newClient(t, fakegithub.Options{PublicURL: "http://github.example/base/", RunnerURL: "http://runners.example/"})
	if !strings.HasPrefix(c.service, "http://github.example/base/services/") {
		t.Errorf("service URL %s", c.service)
	}
}

func TestLatency(t *testing.T) {
	c := newClient(t, fakegithub.Options{JITLatency: 30 * time.Millisecond, Latency: 10 * time.Millisecond})
	set := c.createSet("linux")
	c.generate(set.ID, "runner-1")
	for _, entry := range c.server.Requests() {
		want := 10 * time.Millisecond
		if entry.Endpoint == "generate-jit-config" {
			want = 30 * time.Millisecond
		}
		if time.Duration(entry.Duration) < want {
			t.Errorf("%s took %s, want at least %s", entry.Endpoint, time.Duration(entry.Duration), want)
		}
	}
}

// Close ends polls under way instead of waiting for them, and may be repeated.
func TestCloseEndsPolls(t *testing.T) {
	c := newClient(t, fakegithub.Options{PollLength: time.Hour})
	// Without a network: a connection whose answer takes more than a second to go out is cut.
	c.http = &http.Client{Transport: c.server.Transport()}
	s := c.openSession(c.createSet("linux").ID)
	answered := make(chan answer)
	go func() { answered <- s.poll(0, 1) }()
	for !polling(c.server) {
		c.want(200, c.call("GET", setsPath, nil), nil)
	}
	c.server.Close()
	c.server.Close()
	c.want(202, <-answered, nil)
	if _, err := c.server.Start("256.0.0.1:0"); err == nil {
		t.Error("a bad address was accepted")
	}
}
