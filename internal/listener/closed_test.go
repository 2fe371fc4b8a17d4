package listener

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

const closed = "Closed/MaxRunnersZero"

func (s *scenario) setMaximum(maximum int) {
	s.reload(func(c *config.Config) { c.MaxRunners = maximum })
}

// wantNoZero checks that no poll has announced 0.
func (s *scenario) wantNoZero() {
	s.t.Helper()
	for _, poll := range s.github.polls {
		if poll.capacity <= 0 {
			s.t.Errorf("a poll at %s announced %d", poll.at, poll.capacity)
		}
	}
}

// wantClosed checks that the session was closed a single time and that all who may look are told so.
func (s *scenario) wantClosed(session string) {
	s.t.Helper()
	if got := s.github.noted("close 1 " + session); got != 1 {
		s.t.Errorf("%s was closed %d times, want once: %v", session, got, s.github.calls)
	}
	if got := s.cluster.State(); got != closed {
		s.t.Errorf("state %q, want %q", got, closed)
	}
	if err := s.health.Ready(); err != nil {
		s.t.Errorf("not ready: %v; want it ready, because no session is wanted", err)
	}
	if got := s.cluster.Last(); got.SessionID != "" || got.Replicas != 0 {
		s.t.Errorf("published %+v, want no session and no runners", got)
	}
	s.wantNoZero()
}

func TestMaximumZeroClosesTheSessionAndARaiseOpensIt(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(3)
		s.start()
		s.setMaximum(0)
		s.pass(queue.GatherInterval)
		s.wantClosed("session-1")
		polls := len(s.github.pollTimes())
		s.pass(10 * time.Minute)
		s.wantClosed("session-1")
		if got := len(s.github.pollTimes()); got != polls {
			t.Errorf("%d polls without a session", got-polls)
		}
		s.setMaximum(4)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state %q after the raise, want it to listen", got)
		}
		if got := s.github.lastPollAt(); got.capacity != 4 || got.at != at(10*time.Minute+queue.GatherInterval) {
			t.Errorf("last poll %+v, want one with the new maximum at once", got)
		}
		if got := s.cluster.Last(); got.SessionID != "session-2" || got.Replicas != 3 {
			t.Errorf("published %+v, want the new session, and runners for the three jobs", got)
		}
		if got := s.github.noted("close 1 session-1"); got != 1 {
			t.Errorf("the session was closed %d times, want once", got)
		}
		if states := s.cluster.States; len(states) != 4 { // Starting, Listening, Closed, Listening
			t.Errorf("%d states written, want none between closed and listening: %+v", len(states), states)
		}
	})
}

// Whatever way a process gets there, a set that takes no jobs has no session.
func TestASessionLeftBehindIsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		left string
		want int
	}{"by a killed process": {"older", 1}, "by nobody": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.file.MaxRunners, s.cluster.Set.SessionID = 0, test.left
				s.cluster.Set.Replicas = 5
				s.github.statistics = statistics(2)
				s.start()
				s.pass(queue.GatherInterval)
				if got := s.github.noted("close 1 older"); got != test.want || s.github.noted("open 1") != 0 {
					t.Errorf("calls %v, want the session of the last process closed and none opened", s.github.calls)
				}
				if got := s.cluster.Last(); got.Replicas != 0 || got.AssignedJobs != 2 || got.SessionID != "" {
					t.Errorf("published %+v, want no runners, the two jobs that wait, and no session", got)
				}
				if s.cluster.State() != closed || s.health.Ready() != nil || s.health.Alive() != nil {
					t.Errorf("state %q, ready: %v, alive: %v", s.cluster.State(), s.health.Ready(), s.health.Alive())
				}
			})
		})
	}
}

// An earlier failure is not shown while nobody wants a session, and is no news when it is opened again.
func TestAFailureBeforeIsForgotten(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.github.onPoll = func() error { return errBroken }
		s.pass(2 * time.Minute)
		if got := s.cluster.State(); got == closed || got == "Listening/Listening" {
			t.Fatalf("state %q although polls fail", got)
		}
		s.setMaximum(0)
		s.pass(5 * time.Second)
		if got := s.cluster.State(); got != closed || s.cluster.Last().SessionID != "" {
			t.Errorf("state %q, published %+v; want the session closed", got, s.cluster.Last())
		}
		s.github.onPoll = nil
		written := len(s.cluster.States)
		s.setMaximum(3)
		s.pass(time.Second)
		if got := s.cluster.States[written:]; len(got) != 1 || got[0].State != "Listening" {
			t.Errorf("states %+v, want it to listen", got)
		}
	})
}

// While the maximum falls to 0, an attempt to open a session is under way.
func TestASessionThatComesTooLateIsClosed(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.github.onOpen = func() error { <-release; return nil }
		s.start()
		s.setMaximum(0)
		close(release)
		s.pass(5 * time.Second)
		s.wantClosed("session-1")
		if len(s.github.pollTimes()) != 0 {
			t.Errorf("polls %+v, want none", s.github.polls)
		}
	})
}

// A message that is not deleted comes again in the next session, when its runners are gone.
func TestMessagesInHandAreDeletedBeforeTheSessionIsClosed(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.send(message(1, 1, "start 1 runner"))
		s.setMaximum(0)
		s.pass(time.Second)
		if s.github.noted("close 1 session-1") != 0 {
			t.Error("the session was closed before the report was written")
		}
		close(release)
		s.pass(0)
		s.wantClosed("session-1")
		if left := s.github.waiting(); len(left) != 0 {
			t.Errorf("messages %v come again", left)
		}
	})
}

func TestAReportThatHangsHoldsTheSessionForSeconds(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		defer close(release)
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.send(message(1, 1, "start 1 runner"))
		s.setMaximum(0)
		s.pass(4 * time.Second)
		if s.github.noted("close 1 session-1") != 0 {
			t.Error("the session was closed after 4 s, want 5 s for the report")
		}
		s.pass(time.Second)
		s.wantClosed("session-1")
	})
}

func TestClosingIsRetriedUntilGitHubHasEndedTheSessionItself(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.github.onClose = func() error { return errors.New("away") }
		s.setMaximum(0)
		s.pass(time.Minute)
		attempts := s.github.noted("close 1 session-1")
		// Pauses double from 0.5 s to 15 s, and chance halves them at most: 8 attempts in the shortest 55 s, 12 in the
		// longest 60 s.
		if attempts < 8 || attempts > 12 || s.cluster.State() == closed {
			t.Errorf(
				"%d attempts in a minute, state %q; want some, with pauses, and no word that it is closed",
				attempts, s.cluster.State(),
			)
		}
		if err := s.health.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		s.pass(2 * time.Minute)
		attempts = s.github.noted("close 1 session-1")
		s.pass(10 * time.Minute)
		if got := s.github.noted("close 1 session-1"); got != attempts || s.cluster.State() != closed {
			t.Errorf("%d attempts more, state %q; want none, and %q", got-attempts, s.cluster.State(), closed)
		}
	})
}

func TestARaiseWhileTheSessionIsBeingClosedOpensAnother(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		s.github.onClose = func() error { <-release; return errors.New("too late") }
		s.setMaximum(0)
		s.pass(queue.GatherInterval)
		s.setMaximum(5)
		if s.github.noted("open 1") != 1 {
			t.Error("a second session was asked for before the first was closed")
		}
		s.github.onClose = nil
		s.release()
		close(release)
		s.pass(0)
		if got := s.github.lastPollAt().capacity; s.github.noted("open 1") != 2 || got != 5 {
			t.Errorf("calls %v, last capacity %d; want another session at once", s.github.calls, got)
		}
		if got := s.github.noted("close 1 session-1"); got != 2 {
			t.Errorf("the first session was closed %d times, want it tried again before the next", got)
		}
	})
}

// Jobs that run on go unreported: a later patchID releases the slots of their runners.
func TestEndsOfJobsAreSeenWithoutASession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(2)
		s.start()
		s.setMaximum(0)
		s.pass(20 * time.Minute)
		s.github.statistics = statistics(1)
		for waited := time.Duration(0); s.cluster.Last().AssignedJobs != 1; waited += time.Second {
			if waited > 50*time.Second {
				t.Fatalf("published %+v, want the one job that is left", s.cluster.Last())
			}
			s.pass(time.Second)
		}
		before := s.cluster.Last()
		s.pass(10 * time.Second)
		if got := s.cluster.Last(); got.PatchID <= before.PatchID {
			t.Errorf("patchID %d for 10 s after the end of a job, want a later one", got.PatchID)
		}
		s.pass(time.Minute)
		reads := s.github.noted("read")
		s.pass(time.Hour)
		if got := s.github.noted("read") - reads; got > 72 {
			t.Errorf("%d reads in an hour without a change, want 72 at most: one each 50 s, as with a session", got)
		}
	})
}

// Without jobs there are no runners, so that no statistics are needed to say so.
func TestSlotsAreReleasedWithoutStatistics(t *testing.T) {
	lacks := &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: http.StatusMethodNotAllowed}
	for name, read := range map[string]func(*scriptedGitHub){
		"none in the answer": func(g *scriptedGitHub) { g.statistics = nil },
		"no such call":       func(g *scriptedGitHub) { g.onRead = func() error { return lacks } },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				read(s.github)
				s.file.MaxRunners, s.cluster.Set.Replicas = 0, 5
				s.start()
				s.pass(queue.GatherInterval)
				first := s.cluster.Last()
				s.pass(time.Minute)
				if last := s.cluster.Last(); first.PatchID == 0 || first.Replicas != 0 ||
					last.PatchID <= first.PatchID {
					t.Errorf("published %+v and later %+v, want no runners and a later patchID", first, last)
				}
			})
		})
	}
}

func TestRestartWithoutASessionClosesNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.setMaximum(0)
		s.pass(queue.GatherInterval)
		s.stop()
		<-s.ended
		s.stop = nil
		if got := s.github.noted("close 1 session-1"); got != 1 || s.cluster.State() != "Stopped/Stopped" {
			t.Errorf("closed %d times, state %q; want it closed once, and stopped", got, s.cluster.State())
		}
	})
}

// Whatever the manager's status says, or doesn't, GitHub may assign one job more than run; and never more than
// maxRunners.
func TestAnnouncedCapacityIsNeverZero(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			inBubble(t, func(s *scenario) { playSickness(s, random) })
		})
	}
}

// playSickness changes maximum, status and figures at random and checks each poll.
func playSickness(s *scenario, random *rand.Rand) {
	capacities := []*int{nil, new(0), new(1), new(3), new(-4), ptr.To(1 << 40)}
	running := 0
	s.cluster.Set.Capacity = capacities[random.IntN(len(capacities))]
	s.start()
	for id := range int64(60) {
		switch random.IntN(4) {
		case 0:
			s.setMaximum(random.IntN(7))
		case 1:
			s.cluster.Set.Capacity = capacities[random.IntN(len(capacities))]
		case 2:
			s.pass(time.Duration(random.IntN(int(2 * serving.PollHold))))
		default:
			if s.file.MaxRunners == 0 {
				break // a queue without a session is not polled
			}
			running = []int{0, 1, 2, 5, 9, -3}[random.IntN(6)]
			next := message(id+1, running+random.IntN(4), "start 1 runner")
			next.Statistics.TotalRunningJobs = running
			s.send(next)
		}
		s.pass(5 * time.Second)
		maximum := s.file.MaxRunners
		if maximum == 0 {
			if s.github.held != "" || s.github.polling > 0 {
				s.t.Fatalf("%q is held, with %d polls, although maxRunners is 0", s.github.held, s.github.polling)
			}
			continue
		}
		least := min(max(running, 0)+1, maximum)
		if got := s.github.lastPollAt().capacity; got < least || got > maximum {
			s.t.Fatalf("announced %d with %d running, capacity %d, maximum %d; want %d to %d",
				got, running, ptr.Deref(s.cluster.Set.Capacity, maximum), maximum, least, maximum)
		}
	}
	s.wantNoZero()
	if polls := len(s.github.pollTimes()); polls < 20 {
		s.t.Fatalf("only %d polls", polls)
	}
}
