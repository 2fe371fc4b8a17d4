package listener

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

func TestNewLimitsApplyAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(5)
		s.start()
		before := s.cluster.Last()
		s.reload(func(c *config.Config) { c.MinRunners, c.MaxRunners = 2, 6 })
		want := cluster.Desired{Replicas: 6, PatchID: before.PatchID, AssignedJobs: 5}
		if diff := cmp.Diff(want, s.cluster.Last().Desired); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		s.pass(serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 6 {
			t.Errorf("capacity = %d at the next poll, want 6", got)
		}
		if got := s.github.noted("open 1"); got != 1 {
			t.Errorf("%d sessions were opened, want none but the first", got)
		}
	})
}

// The poll under way was sent with the old maximum, and GitHub assigns up to that many jobs until the next one.
func TestAnotherMaximumReachesGitHubAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		for _, maximum := range []int{20, 3, 1} {
			s.reload(func(c *config.Config) { c.MaxRunners = maximum })
			s.pass(queue.GatherInterval)
			if got := s.github.lastPollAt().capacity; got != maximum {
				t.Errorf("capacity = %d, want the new maximum %d at once", got, maximum)
			}
		}
		if s.cluster.State() != "Listening/Listening" || s.github.noted("open 1") != 1 {
			t.Errorf("state = %s: the poll that was given up counts as failed, or has cost the session", s.cluster.State())
		}
		if got := len(s.github.pollTimes()); got != 4 {
			t.Errorf("%d polls, want the first and one for each maximum", got)
		}
	})
}

// A set that can't run jobs any more gets none of the jobs that GitHub would assign until the poll ends.
func TestALowerCapacityOfTheSetReachesGitHubAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.pass(10 * time.Second)
		running := 1
		s.cluster.Set.Capacity = &running
		s.github.statistics = statistics(1)
		s.reload(func(c *config.Config) { c.MinRunners = 1 }) // leads to a publication, whose answer has the capacity
		s.pass(queue.GatherInterval)
		if got := s.github.lastPollAt().capacity; got != 1 {
			t.Errorf("capacity = %d, want the 1 that the set allows", got)
		}
	})
}

func TestNewCredentialsAreUsedAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(4, 1, "assign 1"))
		s.reload(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
		want := []config.Credentials{{Token: "first"}, {Token: "second"}}
		if diff := cmp.Diff(want, s.github.clients); diff != "" {
			t.Errorf("clients (-want +got):\n%s", diff)
		}
		if s.github.noted("close 1 session-1") != 1 || s.cluster.Last().SessionID != "session-2" {
			t.Errorf("calls of GitHub %v, want the session moved to the new client", s.github.calls)
		}
		// A poll that was canceled does not count as failed: there is no pause after it.
		if diff := cmp.Diff([]string{at(0), at(0), at(0)}, s.github.pollTimes()); diff != "" {
			t.Errorf("polls (-want +got):\n%s", diff)
		}
	})
}

func TestARefusedCredentialMakesTheFileBeReadAtOnce(t *testing.T) {
	refused := &actions.Error{StatusCode: 401, Credential: actions.CredentialPersonalAccessToken}
	for name, during := range map[string]func(*scriptedGitHub, func() error){
		"poll":    func(g *scriptedGitHub, hook func() error) { g.onPoll = hook },
		"session": func(g *scriptedGitHub, hook func() error) { g.onOpen = hook },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				during(s.github, func() error {
					if len(s.github.clients) < 2 {
						next := *s.file
						next.Credentials = &config.Credentials{Token: "second"}
						s.file = &next
						return refused
					}
					return nil
				})
				s.start()
				s.pass(0)
				if got := s.cluster.Last().SessionID; got == "" || len(s.github.clients) != 2 {
					t.Errorf("session %q with %d clients, want one with the second", got, len(s.github.clients))
				}
			})
		})
	}
}

func TestARateLimitIsForgottenWithItsCredential(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error {
			return &actions.RateLimitedError{Until: time.Now().Add(time.Hour), Err: errBroken}
		}
		s.start()
		s.github.onOpen = nil
		s.reload(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s", got)
		}
	})
}

func TestAnotherScaleSetBeginsAnew(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(100000044, 1, "assign 1"))
		s.reload(func(c *config.Config) { c.RunnerScaleSetID = 2 })
		s.pass(0)
		if s.github.noted("open 2") != 1 || s.github.noted("close session session-1") != 1 ||
			s.github.noted("close 2 session-1") != 0 {
			t.Errorf("calls of GitHub %v", s.github.calls)
		}
		if got := s.github.lastPollAt().lastID; got != 0 {
			t.Errorf("first poll of the new set is after message %d", got)
		}
	})
}

func TestAScaleSetThatIsCreatedAgainIsFound(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error {
			if s.github.noted("open 2") == 0 {
				return actions.ErrScaleSetNotFound
			}
			return nil
		}
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Retrying/ScaleSetNotFound" {
			t.Errorf("state = %s", got)
		}
		s.reload(func(c *config.Config) { c.RunnerScaleSetID = 2 })
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s with the new id", got)
		}
	})
}

func TestAWrongFileChangesNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		before := len(s.github.calls)
		s.reload(func(c *config.Config) { c.MaxRunners = -1 })
		s.pass(time.Second)
		if len(s.github.calls) != before || len(s.github.pollTimes()) != 1 {
			t.Errorf("calls of GitHub %v, polls at %v", s.github.calls, s.github.pollTimes())
		}
		s.pass(serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d at the next poll, want 10 as before", got)
		}
	})
}

func TestAnotherPlaceNeedsANewProcess(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"URL":             func(c *config.Config) { c.ConfigureURL = "https://github.example/other" },
		"set":             func(c *config.Config) { c.EphemeralRunnerSetName = "other" },
		"set's namespace": func(c *config.Config) { c.EphemeralRunnerSetNamespace = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				s.reload(change)
				<-s.ended
				if s.github.noted("close session session-1") != 1 {
					t.Errorf("calls of GitHub %v, want the session closed", s.github.calls)
				}
			})
		})
	}
}

// GitHub grants a scale set one session at a time, so the first is closed before the second is opened.
func TestCredentialsThatChangeWhileASessionIsOpened(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.reloadWhileOpening(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
		if diff := cmp.Diff([]string{"0s open 1", "0s close 1 session-1", "0s open 1"}, s.github.calls); diff != "" {
			t.Errorf("calls of GitHub (-want +got):\n%s", diff)
		}
	})
}

func TestScaleSetThatChangesWhileASessionIsOpened(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.reloadWhileOpening(func(c *config.Config) { c.RunnerScaleSetID = 2 })
		if s.github.noted("close session session-1") != 1 || s.github.noted("open 2") != 1 {
			t.Errorf("calls of GitHub %v", s.github.calls)
		}
	})
}

// reloadWhileOpening changes the configuration while the first session is being opened, and then waits for the second.
func (s *scenario) reloadWhileOpening(change func(*config.Config)) {
	s.t.Helper()
	answer := make(chan struct{})
	s.github.onOpen = func() error { <-answer; return nil }
	s.start()
	s.reload(change)
	close(answer)
	s.pass(time.Second)
	if got := s.cluster.Last().SessionID; got != "session-2" {
		s.t.Errorf("published session %s, want the second", got)
	}
}

// Changes of the file are noticed even if they are not announced, such as on a node that has used up its watches.
func TestTheFileIsReadOnceAMinuteWithoutAWatch(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.changed = nil
		s.github.statistics = statistics(8)
		s.start()
		next := *s.file
		next.MaxRunners = 3
		s.file = &next
		s.pass(70 * time.Second) // the loop wakes every 10 s
		if got := s.cluster.Last().Replicas; got != 3 {
			t.Errorf("replicas = %d after maxRunners became 3", got)
		}
		next.EphemeralRunnerSetName = "another"
		s.pass(70 * time.Second) // the loop wakes every 10 s
		if got := s.cluster.State(); got != "Stopped/Stopped" {
			t.Errorf("state = %s, want a new process for another set", got)
		}
	})
}
