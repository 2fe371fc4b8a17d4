package listener

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestOfferedJobsAreAcquiredAndGetRunners(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 0, "offer 1", "offer 2", "offer 3"))
		if s.github.noted("acquire [1 2 3]") != 1 {
			t.Errorf("calls of GitHub: %v", s.github.calls)
		}
		if got := s.cluster.Last().Replicas; got != 3 {
			t.Errorf("replicas = %d before statistics know of it, want 3", got)
		}
	})
}

func TestNoMoreIsAcquiredThanThereIsRoomFor(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 4
		s.start()
		s.send(message(1, 2, "offer 1", "offer 2", "offer 3"))
		if s.github.noted("acquire [1 2]") != 1 {
			t.Errorf("calls of GitHub: %v, want the two there is room for", s.github.calls)
		}
		s.send(message(2, 4, "assign 1", "assign 2"))
		s.pass(10 * time.Second)
		s.send(message(3, 3, "complete 9 a"))
		s.pass(time.Second)
		if s.github.noted("acquire [3]") != 1 {
			t.Errorf("calls of GitHub: %v, want the third once there was room", s.github.calls)
		}
	})
}

func TestASlowAcquisitionDelaysNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.github.onAcquire = func(ids []int64) ([]int64, error) { <-release; return ids, nil }
		s.start()
		s.send(message(1, 2, "offer 1", "assign 2", "assign 3"))
		s.send(message(2, 5, "assign 4"))
		if got := s.cluster.Last().Replicas; got != 5 {
			t.Errorf("replicas = %d while an acquisition hangs, want 5", got)
		}
		close(release)
		s.pass(0)
		if got := s.cluster.Last().Replicas; got != 6 {
			t.Errorf("replicas = %d once it is through, want 6", got)
		}
	})
}

func TestAFailedAcquisitionIsTriedAgain(t *testing.T) {
	inBubble(t, func(s *scenario) {
		attempts := 0
		s.github.onAcquire = func(ids []int64) ([]int64, error) {
			if attempts++; attempts == 1 {
				return nil, errBroken
			}
			return ids, nil
		}
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(time.Second)
		if got := s.cluster.Last().Replicas; got != 1 || attempts != 2 {
			t.Errorf("replicas = %d after %d attempts, want 1 after 2", got, attempts)
		}
	})
}

func TestAHangingAcquisitionIsTriedAgainAfterTenSeconds(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.acquisitionsHang = true
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(9 * time.Second)
		if got := s.github.noted("acquire [1]"); got != 1 {
			t.Errorf("asked %d times in 9 s, want 1", got)
		}
		s.pass(3 * time.Second)
		if got := s.github.noted("acquire [1]"); got != 2 {
			t.Errorf("asked %d times in 12 s, want 2", got)
		}
	})
}

// A repeated call after a lost answer returns an empty list although the jobs are ours.
func TestWhatAnAnswerLeavesOutIsNotAskedForAgain(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onAcquire = func([]int64) ([]int64, error) { return nil, nil }
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(5 * time.Second)
		if got := s.github.noted("acquire [1]"); got != 1 {
			t.Errorf("asked %d times", got)
		}
		s.send(message(2, 1, "assign 1"))
		if got := s.cluster.Last().Replicas; got != 1 {
			t.Errorf("replicas = %d, want the job that statistics count", got)
		}
	})
}

// The jobs may still be ours: until new statistics show that, nothing is acquired in their place.
func TestWhatAnAnswerLeavesOutTakesUpRoomUntilItIsCounted(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 3
		s.github.onAcquire = func(ids []int64) ([]int64, error) { return ids[:1], nil }
		release := make(chan struct{})
		s.github.onRead = func() error { <-release; return nil }
		s.start()
		s.send(message(1, 0, "offer 1", "offer 2", "offer 3", "offer 4", "offer 5"))
		s.pass(time.Second)
		if s.github.noted("acquire [1 2 3]") != 1 || s.github.noted("acquire [4 5]") != 0 {
			t.Errorf("calls of GitHub: %v, want three jobs asked for", s.github.calls)
		}
		close(release)
		s.pass(0)
		if s.github.noted("acquire [4 5]") != 1 {
			t.Errorf(
				"calls of GitHub: %v, want the others asked for: by the statistics the set has one job",
				s.github.calls,
			)
		}
	})
}

func TestOffersMadeWhileNobodyListenedAreFound(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(8)}, {JobMessageBase: job(9)}}
		s.start()
		if s.github.noted("acquire [8 9]") != 1 {
			t.Errorf("calls of GitHub: %v", s.github.calls)
		}
	})
}

// An offer may be made only a single time: a search that failed is repeated.
func TestOffersAreSearchedForUntilThereIsAnAnswer(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failures := []error{
			&actions.Error{StatusCode: 500}, &actions.NetworkError{Err: errBroken},
			&actions.RateLimitedError{Err: errBroken, Until: time.Now().Add(9 * time.Minute)},
		}
		s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(8)}}
		asked := 0
		s.github.onSearch = func() error {
			if asked++; asked <= len(failures) {
				return failures[asked-1]
			}
			return nil
		}
		s.start()
		s.pass(9*time.Minute - time.Second)
		if asked != 3 {
			t.Errorf("asked %d times before the limit's end, want 3", asked)
		}
		s.pass(10 * time.Minute)
		if asked != 4 || s.github.noted("acquire [8]") != 1 {
			t.Errorf("asked %d times, calls of GitHub: %v; want one more and the job acquired", asked, s.github.calls)
		}
	})
}

func TestASearchThatIsRefusedIsGivenUpForTheSession(t *testing.T) {
	for _, status := range []int{400, 404, 405, 422, 501} {
		inBubble(t, func(s *scenario) {
			asked := 0
			s.github.onSearch = func() error {
				asked++
				return &actions.Error{Endpoint: actions.EndpointGetAcquirableJobs, StatusCode: status}
			}
			s.start()
			s.pass(5 * time.Minute)
			if asked != 1 {
				t.Errorf("%d: asked %d times, want once", status, asked)
			}
			s.github.evict()
			s.pass(5 * time.Minute)
			if asked != 2 {
				t.Errorf("%d: asked %d times, want once more in the next session", status, asked)
			}
		})
	}
}

// The refusal of a credential, or of a call for one, may be over a moment later.
func TestASearchThatIsRefusedForAMomentIsRepeated(t *testing.T) {
	for name, refusal := range map[string]*actions.Error{
		"401":              {Endpoint: actions.EndpointGetAcquirableJobs, StatusCode: 401},
		"403":              {Endpoint: actions.EndpointGetAcquirableJobs, StatusCode: 403},
		"400 of a renewal": {Endpoint: actions.EndpointRegister, StatusCode: 400},
		"404 of a renewal": {Endpoint: actions.EndpointInstallationToken, StatusCode: 404},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(8)}}
				asked := 0
				s.github.onSearch = func() error {
					if asked++; asked == 1 {
						return refusal
					}
					return nil
				}
				s.start()
				s.pass(time.Second)
				if asked != 2 || s.github.noted("acquire [8]") != 1 {
					t.Errorf(
						"asked %d times, calls of GitHub: %v; want once more and the job acquired",
						asked, s.github.calls,
					)
				}
			})
		})
	}
}

// After a restart there may be jobs already, and a session may come without statistics: they are read first.
func TestNothingIsAcquiredBeforeThereAreStatistics(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 2
		s.github.silent, s.github.statistics = true, statistics(1)
		release := make(chan struct{})
		s.github.onRead = func() error { <-release; return nil }
		s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(8)}, {JobMessageBase: job(9)}}
		s.start()
		s.pass(time.Second)
		close(release)
		s.pass(time.Second)
		if s.github.noted("acquire [8 9]") != 0 || s.github.noted("acquire [8]") != 1 {
			t.Errorf("calls of GitHub: %v, want the one job there is room for", s.github.calls)
		}
	})
}

func TestAMessageIsKeptWhileItsOffersAreBeingAcquired(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.github.onAcquire = func(ids []int64) ([]int64, error) { <-release; return ids, nil }
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(time.Second)
		if s.github.noted("delete 1") != 0 {
			t.Error("deleted while nobody knows whether the job was acquired")
		}
		close(release)
		s.pass(0)
		if s.github.noted("delete 1") != 1 {
			t.Errorf("calls of GitHub: %v, want the message deleted", s.github.calls)
		}
	})
}

// GitHub may refuse a request because of one offer, and list that offer for ever: the other jobs run all the same.
func TestARefusedOfferCostsOnlyItself(t *testing.T) {
	refused := map[int64]bool{1: true, 13: true, 30: true}
	for name, lists := range map[string]bool{"open offers are listed": true, "nobody knows which stand": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.log, s.file.MaxRunners = logr.Discard(), 40
				if !lists {
					s.offersCannotBeListed()
				}
				acquired := map[int64]bool{}
				s.github.onAcquire = func(ids []int64) ([]int64, error) {
					if slices.ContainsFunc(ids, func(id int64) bool { return refused[id] }) {
						return refusedOffer()
					}
					for _, id := range ids {
						acquired[id] = true
					}
					return ids, nil
				}
				s.start()
				s.pass(3 * time.Second)
				var entries []string
				for id := range int64(30) {
					entries = append(entries, fmt.Sprintf("offer %d", id+1))
					s.github.acquirable = append(s.github.acquirable, actions.JobAvailable{JobMessageBase: job(id + 1)})
				}
				s.send(message(1, 0, entries...))
				s.pass(10 * time.Second)
				if want := 30 - len(refused); len(acquired) != want {
					t.Errorf("%d jobs acquired after 10 s, want %d", len(acquired), want)
				}
			})
		})
	}
}
