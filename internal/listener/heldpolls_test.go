package listener

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func pollFailure(cause error) error {
	return &actions.NetworkError{Endpoint: actions.EndpointGetMessage, Err: cause}
}

// cutPolls makes something on the way end every poll after half a minute.
func (s *scenario) cutPolls() {
	s.github.heldUntil, s.github.endOfHold = 30*time.Second, pollFailure(io.EOF)
	s.start()
}

// A listener works behind a proxy that ends each poll sooner than GitHub does.
func TestPollsThatAreCutAreAsGoodAsEmptyOnes(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cutPolls()
		for range 20 {
			s.pass(time.Minute)
			if err := s.health.Ready(); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(s.github.pollTimes()); got != 41 {
			t.Errorf("%d polls in 20 min, want one after the other", got)
		}
		if got := s.github.noted("read"); got != 40 {
			t.Errorf("statistics were read %d times, want after each poll", got)
		}
		if got := s.cluster.State(); got != "Listening/Listening" || len(s.cluster.States) != 2 {
			t.Errorf("states = %+v, want nothing but that it listens", s.cluster.States)
		}
		if got := s.github.noted("open 1"); got != 1 {
			t.Errorf("%d sessions were opened, want the first kept", got)
		}
	})
}

// Surplus runners are removed only after another patchID.
func TestAPollThatIsCutIsFollowedByAPatchID(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cutPolls()
		s.send(message(1, 2, "assign 1", "assign 2"))
		s.pass(11 * time.Second) // until the statistics have been read again
		s.reload(func(c *config.Config) { c.MinRunners = 1 })
		before := s.cluster.Last()
		s.pass(time.Minute)
		if got := s.cluster.Last(); got.PatchID < before.PatchID+2 || got.Replicas != 3 {
			t.Errorf("published %+v after %+v, want a patchID for each of two polls", got, before)
		}
	})
}

// Nothing else clears the failure of polls: what cuts them may also keep them from reaching GitHub.
func TestPollsThatAreCutWhileNothingCanBeReadAreShown(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onRead = func() error { return errBroken }
		s.cutPolls()
		s.pass(3 * time.Minute)
		if got := s.cluster.State(); got != "Retrying/GitHubUnavailable" || s.health.Ready() == nil {
			t.Errorf("state = %s, ready: %v", got, s.health.Ready())
		}
		s.github.onRead = nil
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Listening/Listening" || s.health.Ready() != nil {
			t.Errorf("state = %s, ready: %v; want both well once statistics can be read", got, s.health.Ready())
		}
	})
}

// A service that can be reached does not make up for a queue that can't, however long each attempt takes.
func TestAQueueOutOfReachIsShownThoughStatisticsCanBeRead(t *testing.T) {
	for name, took := range map[string]time.Duration{"refused": 0, "dropped": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.onPoll = func() error {
					<-time.After(took)
					return pollFailure(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
				}
				s.start()
				s.send(message(1, 1, "start 1 a"))
				s.pass(10 * time.Minute)
				if got := s.cluster.State(); got != "Retrying/GitHubUnavailable" || s.health.Ready() == nil {
					t.Errorf("state = %s, ready: %v", got, s.health.Ready())
				}
				if got := len(s.github.pollTimes()); got > 90 {
					t.Errorf("%d polls in 10 min, want pauses that grow to %s", got, longestPause)
				}
			})
		})
	}
}

// Statistics that are read after a session was given up say nothing about the polls of the next one.
func TestAReadAfterTheLossOfASessionMakesNobodyReady(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cutPolls()
		lose, release := make(chan struct{}), make(chan struct{})
		s.github.onDelete = func(int64) error { <-lose; return actions.ErrSessionNotFound }
		s.github.onRead = func() error { <-release; return nil }
		s.send(message(1, 0, "start 1 a"))
		s.pass(31 * time.Second) // the second poll was cut, and the statistics are being read
		if got := len(s.github.pollTimes()); got != 3 || s.github.noted("read") != 1 {
			t.Fatalf("%d polls, calls of GitHub: %v", got, s.github.calls)
		}
		s.github.onOpen = func() error { return errBroken }
		s.release()
		close(lose) // a deletion finds out
		s.pass(time.Second)
		close(release)
		s.pass(time.Second)
		if s.health.Ready() == nil {
			t.Error("ready without a session")
		}
	})
}
