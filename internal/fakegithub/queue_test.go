package fakegithub_test

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestAutoAssignFollowsCapacity(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	s := c.openSession(c.createSet("linux").ID)
	c.queue(fakegithub.JobRequest{ScaleSet: "linux", Count: 5})
	c.want(202, s.poll(0, 0), nil)
	m := s.next(0, 2)
	if m.types() != "JobAssigned JobAssigned" || m.Statistics.Assigned != 2 || m.Statistics.Available != 3 {
		t.Fatalf("with capacity 2: %s %+v", m.types(), m.Statistics)
	}
	if m.MessageID < 100_000_000 || m.MessageType != "RunnerScaleSetJobMessages" {
		t.Errorf("message %d %s", m.MessageID, m.MessageType)
	}
	s.acknowledge(m.MessageID)
	// Lowering takes nothing back, raising assigns the rest.
	c.want(202, s.poll(m.MessageID, 1), nil)
	m = s.next(m.MessageID, 2147483647)
	if len(m.jobs) != 3 || m.Statistics.Assigned != 5 {
		t.Errorf("with more capacity: %s %+v", m.types(), m.Statistics)
	}
}

func TestMessageHoldsAtMostFiftyEvents(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	s := c.openSession(c.createSet("linux").ID)
	c.queue(fakegithub.JobRequest{ScaleSet: "linux", Count: 120})
	last, seen := int64(0), map[int64]bool{}
	for _, want := range []int{50, 50, 20} {
		m := s.next(last, 1000)
		if len(m.jobs) != want || m.MessageID <= last {
			t.Fatalf("message %d after %d has %d events, want %d", m.MessageID, last, len(m.jobs), want)
		}
		for _, j := range m.jobs {
			seen[j.RunnerRequestID] = true
		}
		last = m.MessageID
		s.acknowledge(last)
	}
	if len(seen) != 120 {
		t.Errorf("%d jobs were announced, want 120", len(seen))
	}
}

func TestUndeletedMessageComesAgain(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
	first := s.next(0, 1)
	if again := s.next(0, 1); again.MessageID != first.MessageID || again.Body != first.Body {
		t.Errorf("got message %d, want %d again", again.MessageID, first.MessageID)
	}
	c.want(202, s.poll(first.MessageID, 1), nil)
	c.want(204, c.call("DELETE", sessionsPath(set.ID)+"/"+s.SessionID, nil), nil)
	s = c.openSession(set.ID)
	if again := s.next(0, 1); again.MessageID != first.MessageID {
		t.Errorf("the new session got message %d, want %d", again.MessageID, first.MessageID)
	}
	s.acknowledge(first.MessageID)
	s.acknowledge(first.MessageID) // a second time is no error
	c.want(202, s.poll(0, 1), nil)
}

func TestEventsHaveAllFields(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	s := c.openSession(c.createSet("linux").ID)
	id := c.queue(fakegithub.JobRequest{ScaleSet: "linux", Name: "build"})[0]
	j := s.next(0, 1).jobs[0]
	if j.RunnerRequestID != id || j.JobID == "" || j.OwnerName != "acme" || j.RepositoryName == "" ||
		len(j.RequestLabels) != 1 || j.QueueTime.IsZero() {
		t.Errorf("event %+v", j)
	}
}

func TestBadPolls(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	s := c.openSession(c.createSet("linux").ID)
	c.want(401, c.do("GET", s.URL, "Bearer wrong", nil), nil)
	c.want(400, c.do("GET", s.URL+"&lastMessageId=x", "Bearer "+s.Token, nil), nil)
	for _, capacity := range []string{"-1", "many"} {
		c.want(400, c.do("GET", s.URL, "Bearer "+s.Token, nil, "X-ScaleSetMaxCapacity", capacity), nil)
	}
}

func TestAcquireFlow(t *testing.T) {
	c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{Flow: fakegithub.Acquire}})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	acquirable := setsPath + "/1/acquirablejobs"
	c.want(204, c.call("GET", acquirable, nil), nil)
	ids := c.queue(fakegithub.JobRequest{ScaleSet: "linux", Count: 3})

	m := s.next(0, 1)
	if m.types() != "JobAvailable JobAvailable JobAvailable" || m.Statistics.Available != 3 {
		t.Fatalf("offers: %s %+v", m.types(), m.Statistics)
	}
	s.acknowledge(m.MessageID)
	var list struct {
		Count int
		Value []jobMessage
	}
	c.want(200, c.call("GET", acquirable, nil), &list)
	if list.Count != 3 || list.Value[0].MessageType != "JobAvailable" {
		t.Errorf("acquirable %+v", list)
	}

	var acquired struct {
		Count int
		Value []int64
	}
	c.want(200, s.acquire(ids[0], ids[1], 99), &acquired)
	if acquired.Count != 2 {
		t.Fatalf("acquired %+v", acquired)
	}
	// The same again, as after a lost answer, acquires nothing more.
	c.want(200, s.acquire(ids[0], ids[1]), &acquired)
	if acquired.Count != 0 {
		t.Errorf("acquired again %+v", acquired)
	}
	// The capacity of the last poll was 1: one assigned, one waits for room.
	m = s.next(m.MessageID, 1)
	if m.types() != "JobAssigned" || m.Statistics.Assigned != 1 || m.Statistics.Acquired != 1 ||
		m.Statistics.Available != 1 {
		t.Errorf("after acquiring: %s %+v", m.types(), m.Statistics)
	}
	if m = s.next(m.MessageID, 2); m.types() != "JobAssigned" || m.Statistics.Acquired != 0 {
		t.Errorf("with more room: %s %+v", m.types(), m.Statistics)
	}
}

func TestOffersAreRepeatedToNewSessions(t *testing.T) {
	c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{Flow: fakegithub.Acquire}})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
	m := s.next(0, 1)
	s.acknowledge(m.MessageID)
	c.server.EvictSessions(0)
	s = c.openSession(set.ID)
	if again := s.next(0, 1); again.types() != "JobAvailable" || again.MessageID == m.MessageID {
		t.Errorf("new session got %s in message %d", again.types(), again.MessageID)
	}
}

func TestLateScaleSetGetsWaitingJobs(t *testing.T) {
	for _, flow := range []fakegithub.Flow{fakegithub.Acquire, fakegithub.AutoAssign} {
		c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{Flow: flow}})
		c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
		if m := c.openSession(c.createSet("linux").ID).next(0, 1); len(m.jobs) != 1 {
			t.Errorf("%s: got %s", flow, m.types())
		}
	}
}
