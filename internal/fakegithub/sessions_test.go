package fakegithub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestSessionAnswerIsComplete(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	if s.SessionID == "" || s.OwnerName != "me" || s.RunnerScaleSet.ID != set.ID || s.Token == "" || s.Statistics == nil {
		t.Errorf("session %+v", s)
	}
	if !strings.Contains(s.URL, "?") {
		t.Errorf("queue URL %s has no query", s.URL)
	}
	first := *s
	c.want(200, c.call("PATCH", sessionsPath(set.ID)+"/"+s.SessionID, nil), s)
	if s.SessionID != first.SessionID || s.Token == first.Token || s.URL != first.URL || s.RunnerScaleSet.ID != set.ID {
		t.Errorf("refreshed %+v, was %+v", s, first)
	}
	c.want(202, s.poll(0, 1), nil)
}

func TestOneSessionPerScaleSet(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	create := func() answer { return c.call("POST", sessionsPath(set.ID), map[string]string{"ownerName": "me"}) }
	c.wantException(409, "RunnerScaleSetSessionConflictException", create())
	path := sessionsPath(set.ID) + "/" + s.SessionID
	c.want(204, c.call("DELETE", path, nil), nil)
	c.wantException(400, "RunnerScaleSetSessionExpiredException", c.call("DELETE", path, nil))
	c.wantException(404, "RunnerAdminException", c.call("PATCH", path, nil))
	c.want(200, create(), nil)
	c.wantException(404, "RunnerScaleSetNotFoundException",
		c.call("POST", sessionsPath(99), map[string]string{"ownerName": "me"}))
}

func TestExpiredQueueToken(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	c.server.ExpireQueueTokens()
	c.want(401, s.poll(0, 1), nil)
	c.want(401, s.acquire(1), nil)
	c.want(401, c.do("DELETE", strings.Replace(s.URL, "?", "/5?", 1), "Bearer "+s.Token, nil), nil)
	c.want(200, c.call("PATCH", sessionsPath(set.ID)+"/"+s.SessionID, nil), s)
	c.want(202, s.poll(0, 1), nil)
}

func TestEvictionEndsPollUnderWay(t *testing.T) {
	c := newClient(t, fakegithub.Options{PollLength: time.Minute})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	answered := make(chan answer)
	go func() { answered <- s.poll(0, 1) }()
	// The poll is seen by the service before the session goes.
	for !polling(c.server) {
		c.want(200, c.call("GET", setsPath, nil), nil)
	}
	c.server.EvictSessions(set.ID)
	c.want(401, <-answered, nil)
	c.wantException(404, "RunnerAdminException", c.call("PATCH", sessionsPath(set.ID)+"/"+s.SessionID, nil))
	c.openSession(set.ID)
}

func polling(server *fakegithub.Server) bool {
	for _, s := range server.Snapshot().Sessions {
		if s.Polling {
			return true
		}
	}
	return false
}

// A client that goes away in the middle of a poll loses nothing: the message
// comes to whoever asks next.
func TestClientGoneDuringPoll(t *testing.T) {
	c := newClient(t, fakegithub.Options{PollLength: time.Minute})
	s := c.openSession(c.createSet("linux").ID)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan answer)
	go func() { answered <- c.doCtx(ctx, "GET", s.URL, "Bearer "+s.Token, nil) }()
	for !polling(c.server) {
		c.want(200, c.call("GET", setsPath, nil), nil)
	}
	cancel()
	if a := <-answered; a.err == nil {
		t.Fatalf("canceled poll answered %d", a.status)
	}
	c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
	if got := s.next(0, 1).types(); got != "JobAssigned" {
		t.Errorf("got %s", got)
	}
}
