package listener

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/queue"
)

// offer makes GitHub offer jobs, but only the open ones can be acquired. searches is the number of requests for the
// open ones.
func (s *scenario) offer(from, to int64, standing ...int64) (searches *int) {
	s.log = logr.Discard()
	s.start()
	searches = new(int)
	s.github.mu.Lock()
	s.github.acquirable = nil
	for _, id := range standing {
		s.github.acquirable = append(s.github.acquirable, actions.JobAvailable{JobMessageBase: job(id)})
	}
	if s.github.onSearch == nil {
		s.github.onSearch = func() error { *searches++; return nil }
	}
	s.github.onAcquire = func(ids []int64) ([]int64, error) {
		return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return !slices.Contains(standing, id) }), nil
	}
	s.github.mu.Unlock()
	for first := from; first <= to; first += queue.MaxEntries {
		var entries []string
		for id := first; id <= min(first+queue.MaxEntries-1, to); id++ {
			entries = append(entries, fmt.Sprintf("offer %d", id))
		}
		s.send(message(first, s.github.statistics.TotalAssignedJobs, entries...))
	}
	return searches
}

// Jobs may be canceled, or taken by another scale set, while this one has no room for them, and no message says so.
func TestWithdrawnOffersDoNotHoldUpOthers(t *testing.T) {
	for name, test := range map[string]struct {
		full, free int
	}{
		"one runner": {1, 1},
		"raised":     {2, 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.file.MaxRunners = test.full
				s.github.statistics = statistics(test.full)
				searches := s.offer(1, 1001, 1001)
				s.pass(time.Hour)
				s.reload(func(c *config.Config) { c.MaxRunners = test.free })
				s.send(message(5000, 0, "complete 9000 a"))
				s.pass(6 * time.Second)
				if s.github.noted("acquire [1001]") != 1 {
					t.Errorf("calls of GitHub: %v, want the job acquired that stands", s.github.calls)
				}
				requests := s.github.acquisitions()
				s.reload(func(c *config.Config) { c.MaxRunners = 2000 })
				s.pass(time.Second)
				if more := s.github.acquisitions()[len(requests):]; len(more) > 0 {
					t.Errorf("with room for all: %v, want that no offer waits any more", more)
				}
				if *searches > 2 {
					t.Errorf("GitHub was asked %d times which offers stand", *searches)
				}
			})
		})
	}
}

// GitHub may refuse a job that is gone instead of leaving it out.
func TestRefusedOffersDoNotHoldUpOthers(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 2
		s.offer(1, 1)
		s.pass(3 * time.Second)
		s.github.acquirable = []actions.JobAvailable{{JobMessageBase: job(500)}}
		s.github.onAcquire = func(ids []int64) ([]int64, error) {
			if len(ids) > 1 || ids[0] != 500 {
				return nil, &actions.Error{Endpoint: actions.EndpointAcquireJobs, StatusCode: http.StatusBadRequest}
			}
			return ids, nil
		}
		var entries []string
		for id := range 500 {
			entries = append(entries, fmt.Sprintf("offer %d", id+1))
		}
		s.send(message(2, 0, entries...))
		s.pass(9 * time.Second)
		if s.github.noted("acquire [500]") != 1 {
			t.Errorf("calls of GitHub: %v, want the job acquired that stands", s.github.calls)
		}
	})
}

// An answer that was under way when an offer came may not include it.
func TestAnOfferThatComesDuringTheSearchIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.MaxRunners = 1
		s.start()
		s.pass(3 * time.Second)
		release := make(chan struct{})
		s.github.onSearch = func() error { <-release; return nil }
		s.github.onAcquire = func(ids []int64) ([]int64, error) { return nil, nil }
		s.send(message(1, 0, "offer 1", "offer 2", "offer 3"))
		s.send(message(2, 1, "assign 9", "offer 4")) // no room for it at present
		close(release)
		s.pass(time.Second)
		requests := s.github.acquisitions()
		s.reload(func(c *config.Config) { c.MaxRunners = 10 })
		s.pass(time.Second)
		if diff := cmp.Diff([]string{"acquire [4]"}, s.github.acquisitions()[len(requests):]); diff != "" {
			t.Errorf("requests once there is room (-want +got):\n%s", diff)
		}
	})
}

// An answer that lacks a job, while others compete for every offer, must not lead to one call per message.
func TestSearchesAreSpaced(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.log, s.file.MaxRunners = logr.Discard(), 1
		s.start()
		searches := 0
		s.github.onSearch = func() error { searches++; return nil }
		s.github.onAcquire = func([]int64) ([]int64, error) { return nil, nil }
		for id := range int64(300) {
			s.send(message(id+1, 0, fmt.Sprintf("offer %d", 100*id), fmt.Sprintf("offer %d", 100*id+1)))
			s.pass(100 * time.Millisecond)
		}
		if searches < 2 || searches > 11 { // one each 3 s
			t.Errorf("asked %d times in 30 s, want more than once, but 11 times at most", searches)
		}
	})
}

// The unreadable part of a message may be offers and its statistics.
func TestAfterAMalformedMessageOffersAndStatisticsAreRead(t *testing.T) {
	inBubble(t, func(s *scenario) {
		broken := true
		s.github.onPoll = func() error {
			if !broken {
				return nil
			}
			broken = false
			s.github.mu.Lock()
			defer s.github.mu.Unlock()
			s.github.acquirable, s.github.statistics = []actions.JobAvailable{{JobMessageBase: job(8)}}, statistics(2)
			return &actions.MalformedMessageError{MessageID: 9, Message: &actions.Message{ID: 9}, Err: errBroken}
		}
		s.start()
		s.pass(3 * time.Second)
		// The statistics are read while the job is acquired: they may, or may not, count it already.
		replicas := s.cluster.Last().Replicas
		if s.github.noted("delete 9") != 1 || s.github.noted("acquire [8]") != 1 || replicas < 2 || replicas > 3 {
			t.Errorf("replicas = %d, calls of GitHub: %v", replicas, s.github.calls)
		}
	})
}

// offersCannotBeListed makes the service refuse to list open offers. searches is the number of requests for them.
func (s *scenario) offersCannotBeListed() (searches *int) {
	searches = new(int)
	s.github.onSearch = func() error {
		*searches++
		return &actions.Error{Endpoint: actions.EndpointGetAcquirableJobs, StatusCode: http.StatusNotFound}
	}
	return searches
}

// If a service does not list open offers, each offer is requested immediately: one that waits would be lost with the
// process. Offers to a set that can't run its jobs are left to others.
func TestAllOffersAreTakenWhereNobodyKnowsWhichStand(t *testing.T) {
	one := 1
	for name, test := range map[string]struct {
		maxRunners int
		capacity   *int
		acquire    string
		replicas   int
		later      []string // requests when there is room for all
	}{
		"more than maxRunners": {2, nil, "acquire [1 2 3 4 5]", 2, []string{}},
		"degraded":             {3, &one, "acquire [1]", 1, []string{"acquire [2 3 4 5]"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				searches := s.offersCannotBeListed()
				s.file.MaxRunners, s.cluster.Set.Capacity = test.maxRunners, test.capacity
				s.offer(1, 5, 1, 2, 3, 4, 5)
				if s.github.noted(test.acquire) != 1 {
					t.Errorf("calls of GitHub: %v, want %s", s.github.calls, test.acquire)
				}
				if got := s.cluster.Last().Replicas; got != test.replicas || *searches != 1 {
					t.Errorf("replicas = %d, asked %d times which stand; want %d, once",
						got, *searches, test.replicas)
				}
				s.cluster.Set.Capacity = nil
				s.reload(func(c *config.Config) { c.MaxRunners = 20 })
				s.pass(20 * time.Second)
				if diff := cmp.Diff(test.later, s.github.acquisitions()[1:]); diff != "" {
					t.Errorf("requests once there is room (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A set that takes no jobs leaves the offers that wait to others, whether or not somebody knows which stand.
func TestNothingIsAcquiredOnceTheMaximumIsZero(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.offersCannotBeListed()
		s.file.MaxRunners, s.cluster.Set.Capacity = 3, new(1)
		s.offer(1, 5, 1, 2, 3, 4, 5)
		s.reload(func(c *config.Config) { c.MaxRunners = 0 })
		s.pass(time.Minute)
		if s.github.noted("acquire [1]") != 1 || s.github.noted("acquire [2 3 4 5]") != 0 {
			t.Errorf("calls of GitHub: %v, want the first job acquired and no other", s.github.calls)
		}
	})
}
