package listener

import (
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// Whatever undocumented things a service does, GitHub's or another, the listener keeps receiving messages.

func TestASessionThatBringsNothingButErrorsIsReplaced(t *testing.T) {
	for name, failure := range map[string]error{
		"500": &actions.Error{StatusCode: http.StatusInternalServerError},
		"a refresh of no use": &actions.UnexpectedResponseError{
			Endpoint: actions.EndpointRefreshSession,
			Err:      errBroken,
		},
		"a message without sense": &actions.MalformedMessageError{Err: errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.onPoll = func() error {
					if s.github.noted("open 1") == 1 {
						return failure
					}
					return nil
				}
				s.start()
				s.send(message(1, 1, "start 1 a"))
				s.pass(2*time.Minute - time.Second)
				if got := s.github.noted("open 1"); got != 1 {
					t.Errorf("%d sessions before two minutes are over", got)
				}
				s.pass(time.Minute)
				if got := s.github.noted("open 1"); got != 2 || s.cluster.Job("a").JobID == "" {
					t.Errorf(
						"%d sessions, the report was %+v; want the job by a second session",
						got, s.cluster.Job("a"),
					)
				}
			})
		})
	}
}

// Failures of a network or a gateway say nothing about the session, so it is kept. GitHub's own first error after them
// does not end it either.
func TestASessionIsKeptWhileNobodyAnswers(t *testing.T) {
	for name, failure := range map[string]error{
		"network":  &actions.NetworkError{Err: errBroken},
		"502":      &actions.Error{StatusCode: http.StatusBadGateway},
		"504":      &actions.Error{StatusCode: http.StatusGatewayTimeout},
		"web page": &actions.UnexpectedResponseError{Err: actions.ErrForeignAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				now := failure
				s.github.onPoll = func() error { return now }
				s.github.onRead = func() error { return now }
				s.start()
				s.pass(20 * time.Minute)
				now = &actions.Error{StatusCode: http.StatusInternalServerError}
				s.pass(longestPause + time.Second)
				if got := s.github.noted("open 1"); got != 1 {
					t.Errorf("%d sessions, want the first", got)
				}
			})
		})
	}
}

// A web page in place of a message is not a message to delete, and not a sign that the session is gone.
func TestAWebPageKeepsTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onPoll = func() error {
			return &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetMessage, Err: actions.ErrForeignAnswer}
		}
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Retrying/GitHubUnavailable" {
			t.Errorf("state = %s", got)
		}
		if s.github.noted("delete 0") != 0 || s.github.held != "session-1" {
			t.Errorf("calls of GitHub: %v, want the session kept and nothing deleted", s.github.calls)
		}
	})
}

// The queue may be on another host than the service. Its address comes with the session.
func TestASessionWhoseQueueIsOutOfReachIsReplaced(t *testing.T) {
	lacksRead := &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: http.StatusNotFound}
	for name, test := range map[string]struct {
		cause, read error
	}{
		"refused":                       {syscall.ECONNREFUSED, nil},
		"timed out":                     {os.ErrDeadlineExceeded, nil},
		"a service that can't be asked": {syscall.ECONNREFUSED, lacksRead},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.onRead = func() error { return test.read }
				s.github.onPoll = func() error {
					if s.github.noted("open 1") == 1 {
						return pollFailure(&net.OpError{Op: "dial", Err: test.cause})
					}
					return nil
				}
				s.start()
				s.send(message(1, 1, "start 1 a"))
				s.pass(2 * time.Minute)
				if got := s.github.noted("open 1"); got != 1 {
					t.Errorf("%d sessions before two minutes are over", got)
				}
				s.pass(time.Minute)
				if got := s.github.noted("open 1"); got != 2 || s.cluster.Job("a").JobID == "" {
					t.Errorf(
						"%d sessions, the report was %+v; want the job by a second session",
						got, s.cluster.Job("a"),
					)
				}
			})
		})
	}
}

// Sessions that are opened one after the other do not prove that messages are received.
func TestSessionsThatBringNothingMakeNobodyReady(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failing := true
		s.github.onPoll = func() error {
			if failing {
				return &actions.Error{StatusCode: http.StatusInternalServerError}
			}
			return nil
		}
		s.start()
		s.pass(2 * serving.PollHold)
		for range 30 {
			s.pass(20 * time.Second)
			if s.health.Ready() == nil {
				t.Fatalf("ready after %d sessions that brought nothing", s.github.noted("open 1"))
			}
		}
		failing = false
		s.pass(longestPause + serving.PollHold)
		if err := s.health.Ready(); err != nil {
			t.Errorf("not ready though polls go well: %v", err)
		}
	})
}

// A listener that is not allowed to acquire anything keeps the offers and shows why.
func TestAcquisitionsThatAreRefusedForLongAreShown(t *testing.T) {
	inBubble(t, func(s *scenario) {
		refuse := true
		s.github.onAcquire = func(ids []int64) ([]int64, error) {
			if refuse {
				return nil, &actions.Error{StatusCode: http.StatusForbidden, Credential: actions.CredentialQueueToken}
			}
			return ids, nil
		}
		s.start()
		s.send(message(1, 0, "offer 1", "offer 2"))
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Retrying/Unauthorized" {
			t.Errorf("state = %s", got)
		}
		refuse = false
		s.pass(longestPause)
		if got := s.cluster.Last().Replicas; got != 2 || s.cluster.State() != "Listening/Listening" {
			t.Errorf("replicas = %d, state = %s; want both jobs acquired", got, s.cluster.State())
		}
	})
}

// A failed acquisition is no longer shown after others took the offers, or while there is no room for them.
func TestAFailedAcquisitionIsNotShownWithoutOffers(t *testing.T) {
	for name, test := range map[string]struct {
		offers   []string
		then     string
		assigned int
		within   time.Duration
	}{
		"taken by others": {[]string{"offer 1"}, "complete 1", 0, time.Second},
		"no room":         {[]string{"offer 1", "offer 2"}, "assign 1", 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.file.MaxRunners = 1
				s.github.onAcquire = func([]int64) ([]int64, error) { return nil, errBroken }
				s.start()
				s.send(message(1, 0, test.offers...))
				s.pass(time.Minute)
				if got := s.cluster.State(); got != "Retrying/GitHubUnavailable" {
					t.Errorf("state = %s while acquisitions fail", got)
				}
				s.send(message(2, test.assigned, test.then))
				s.pass(test.within)
				if got := s.cluster.State(); got != "Listening/Listening" {
					t.Errorf("state = %s", got)
				}
			})
		})
	}
}

// A 404 that names the scale set does not mean that the service lacks the call.
func TestAScaleSetThatIsMissedPromisesNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onRead = func() error {
			return &actions.Error{
				Endpoint:   actions.EndpointGetScaleSet,
				StatusCode: http.StatusNotFound,
				TypeName:   "RunnerScaleSetNotFoundException",
			}
		}
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.pass(3 * serving.PollHold)
		s.send(message(2, 1, "start 2 b"))
		if before, got := s.cluster.Job("a").JobPatchID, s.cluster.Job("b").JobPatchID; got != before+1 {
			t.Errorf("patchID went from %d to %d by one message, want the next one", before, got)
		}
	})
}

// If a service can't be asked for statistics, its silence says that they have not changed.
func TestWithoutACallForStatisticsSilenceSaysEnough(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		inBubble(t, func(s *scenario) {
			s.github.onRead = func() error {
				return &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: status}
			}
			s.start()
			s.send(message(1, 2, "assign 1", "assign 2"))
			s.pass(11 * time.Second) // until the statistics are asked for again
			before := s.cluster.Last().PatchID
			s.pass(3 * serving.PollHold)
			if got := s.cluster.Last(); got.PatchID < before+2 || got.Replicas != 2 {
				t.Errorf("%d: patchID went from %d to %+v in three empty polls", status, before, got)
			}
		})
	}
}

// While messages come, nothing says that statistics are unchanged.
func TestWithoutACallForStatisticsMessagesPromiseNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onRead = func() error {
			return &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: http.StatusNotFound}
		}
		s.start()
		s.pass(2 * serving.PollHold)
		silent := message(1, 0, "complete 1 a")
		silent.Statistics = nil
		s.send(silent)
		s.pass(11 * time.Second) // until the statistics are asked for again
		s.send(message(2, 0, "complete 2 b"))
		if first, got := s.cluster.Job("a").JobPatchID, s.cluster.Job("b").JobPatchID; first == 0 || got != first {
			t.Errorf("patchID went from %d to %d by a message without statistics", first, got)
		}
	})
}

// The refused credential may be the one that the client got from GitHub.
func TestAClientThatIsRefusedIsMadeAnew(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error {
			if len(s.github.clients) < 2 {
				return &actions.Error{StatusCode: http.StatusForbidden, Credential: actions.CredentialAdminToken}
			}
			return nil
		}
		s.start()
		s.pass(10 * time.Second)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s with %d clients", got, len(s.github.clients))
		}
	})
}

func TestAClientThatIsRefusedForLongIsMadeAnewNowAndThen(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error {
			return &actions.Error{StatusCode: http.StatusForbidden, Credential: actions.CredentialAdminToken}
		}
		s.start()
		s.pass(20*time.Minute - time.Second)
		if got := len(s.github.clients); got < 4 || got > 5 {
			t.Errorf("%d clients in 20 min, want one each 5 min", got)
		}
	})
}

// An answer without statistics says nothing about jobs that were just acquired.
func TestAcquiredJobsOutlastAScaleSetWithoutStatistics(t *testing.T) {
	for name, acquired := range map[string]int{"all": 2, "one of two": 1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.onAcquire = func(ids []int64) ([]int64, error) { return ids[:acquired], nil }
				s.github.onRead = func() error {
					s.github.mu.Lock()
					defer s.github.mu.Unlock()
					s.github.statistics = nil
					return nil
				}
				s.start()
				s.send(message(1, 0, "offer 1", "offer 2"))
				s.pass(13 * time.Second) // until the statistics have been read again, and 3 s more
				if got := s.cluster.Last().Replicas; got != acquired {
					t.Errorf(
						"replicas = %d after %d jobs were acquired; published %v",
						got, acquired, s.cluster.Published,
					)
				}
				s.pass(time.Minute + 2*serving.PollHold)
				if got := s.cluster.Last().Replicas; got != 0 {
					t.Errorf("replicas = %d though the jobs were never assigned", got)
				}
			})
		})
	}
}

// A service need not hold polls: no message for a while says the same.
func TestWithoutACallForStatisticsShortPollsSayEnoughTogether(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onRead = func() error {
			return &actions.Error{Endpoint: actions.EndpointGetScaleSet, StatusCode: http.StatusNotFound}
		}
		s.github.immediatePolls = 1 << 30
		s.start()
		s.send(message(1, 1, "assign 1"))
		s.pass(time.Second)
		s.send(message(2, 0, "complete 1 a"))
		s.pass(3*time.Second - queue.GatherInterval)
		promised := s.cluster.Job("a").JobPatchID
		if got := s.cluster.Last().PatchID; got != promised {
			t.Errorf("patchID %d before polls have brought nothing for 3 s, want the message's %d", got, promised)
		}
		s.pass(6 * time.Second)
		if got := s.cluster.Last().PatchID; got <= promised {
			t.Errorf("patchID stayed %d while polls brought nothing", got)
		}
	})
}
