package listener

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// openOffer makes GitHub list and count one open offer until it is acquired, which onAcquire decides.
func (s *scenario) openOffer(onAcquire func(attempt int) bool, without func() ([]int64, error)) {
	s.log = logr.Discard()
	s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(1)}}
	s.github.statistics = &actions.Statistics{TotalAvailableJobs: 1}
	attempts := 0
	s.github.onAcquire = func(ids []int64) ([]int64, error) {
		attempts++
		if !onAcquire(attempts) {
			return without()
		}
		s.github.mu.Lock()
		defer s.github.mu.Unlock()
		s.github.acquirable, s.github.statistics = nil, statistics(1)
		return ids, nil
	}
	s.start()
}

func refusedOffer() ([]int64, error) {
	return nil, &actions.Error{Endpoint: actions.EndpointAcquireJobs, StatusCode: http.StatusBadRequest}
}

func leftOutOffer() ([]int64, error) { return nil, nil }

// GitHub need not repeat an offer that it has refused for a moment or left out of an answer: the job would never run.
func TestAnOfferThatGitHubStillCountsIsAcquired(t *testing.T) {
	for name, without := range map[string]func() ([]int64, error){"refused": refusedOffer, "left out": leftOutOffer} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.openOffer(func(attempt int) bool { return attempt > 1 }, without)
				s.pass(2 * time.Minute)
				if got := s.github.noted("acquire [1]"); got != 2 || s.cluster.Last().Replicas != 1 {
					t.Errorf("acquired %d times, %d replicas; want 2 and 1", got, s.cluster.Last().Replicas)
				}
			})
		})
	}
}

// Offers that can never be acquired cost one or two calls a minute each, and not even a service that refuses all gets
// more than one a second.
func TestOffersThatAreAlwaysRefusedCostFewCalls(t *testing.T) {
	for _, offers := range []int64{1, 2, 5, 500} {
		t.Run(fmt.Sprint(offers), func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.file.MaxRunners = 1000
				asked := 0
				s.openOffer(func(int) bool { asked++; return false }, refusedOffer)
				s.github.mu.Lock()
				for id := range offers - 1 {
					s.github.acquirable = append(s.github.acquirable, actions.JobAvailable{JobMessageBase: job(id + 2)})
				}
				s.github.statistics = &actions.Statistics{TotalAvailableJobs: int(offers)}
				s.github.mu.Unlock()
				s.pass(time.Hour)
				if most := min(130*int(offers), 3700); asked < 10 || asked > most {
					t.Errorf("%d requests in an hour, want 10 to %d", asked, most)
				}
			})
		})
	}
}

// Jobs that were acquired and that nobody assigns free their room even if no message or empty poll comes.
func TestRoomIsFreedWhileTheQueueIsQuiet(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 1
		s.start()
		s.pass(serving.PollHold - 30*time.Second) // so that no poll ends when the acquisition expires
		s.send(message(1, 0, "offer 1", "offer 2"))
		s.pass(59 * time.Second)
		if got := s.github.noted("acquire [2]"); got != 0 {
			t.Fatalf("acquired the second job %d times while the first takes up the room", got)
		}
		s.pass(time.Second)
		if got := s.github.noted("acquire [2]"); got != 1 {
			t.Errorf("acquired the second job %d times, want once the first no longer takes up room", got)
		}
	})
}

// The queue may be on another host than the service, and away for hours.
func TestTheCountFollowsDemandWhileTheQueueIsAway(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.log = logr.Discard()
				s.start()
				s.github.onPoll = func() error {
					return &actions.Error{Endpoint: actions.EndpointGetMessage, StatusCode: status}
				}
				s.pass(10 * time.Minute)
				s.github.mu.Lock()
				s.github.statistics = statistics(3)
				s.github.mu.Unlock()
				// The next poll's failure may cost the session, and the next one comes with figures.
				s.pass(2*longestPause + 3*time.Second)
				if got := s.cluster.Last().Replicas; got != 3 {
					t.Errorf("replicas = %d, want the three jobs that the service counts", got)
				}
			})
		})
	}
}
