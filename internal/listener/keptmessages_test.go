package listener

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
)

// offersCannotBeListed makes the service refuse to list open offers.
func (s *scenario) offersCannotBeListed() {
	s.github.onSearch = func() error {
		return &actions.Error{Endpoint: actions.EndpointGetAcquirableJobs, StatusCode: http.StatusNotFound}
	}
}

// A service that can't list its offers makes each offer once: one that is not acquired when the process is killed comes again
// only with its message.
func TestAMessageIsKeptWhileItsOffersWouldBeLost(t *testing.T) {
	for name, test := range map[string]struct {
		listed  bool
		deleted int
	}{"offers can be listed": {true, 1}, "offers can't be listed": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.log = logr.Discard()
				if !test.listed {
					s.offersCannotBeListed()
				}
				s.github.onAcquire = func([]int64) ([]int64, error) { return nil, errBroken }
				s.start()
				s.pass(time.Second)
				s.send(message(1, 0, "offer 1"))
				s.pass(10 * time.Minute)
				s.github.evict() // the next session has a search of its own
				s.pass(10 * time.Minute)
				if got := s.github.noted("delete 1"); got != test.deleted {
					t.Errorf("deleted %d times while the job can't be acquired, want %d", got, test.deleted)
				}
				s.github.onAcquire = nil
				s.github.onDelete = failOnce()
				s.pass(2 * maxPause)
				if got := s.github.noted("delete 1"); got != 1 {
					t.Errorf("deleted %d times once the job is acquired, want once after a second attempt", got)
				}
			})
		})
	}
}

func failOnce() func(int64) error {
	failed := false
	return func(int64) error {
		if failed {
			return nil
		}
		failed = true
		return errBroken
	}
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

// Only the newest messages are kept, so polls go on and bring the ends of jobs that make room.
func TestMessagesThatAreKeptNeverKeepPollsWaiting(t *testing.T) {
	for name, heedless := range map[string]bool{"in order": false, "the oldest again and again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.log = logr.Discard()
				s.offersCannotBeListed()
				s.github.heedless = heedless
				s.cluster.set.Capacity, s.github.statistics = new(1), statistics(1) // no room
				s.start()
				s.pass(time.Second)
				const sent = 3 * maxUnackedMessages
				for id := range int64(sent) {
					s.send(message(id+1, 1, fmt.Sprintf("offer %d", id+1)))
				}
				s.pass(time.Minute)
				if got := s.github.waiting(); s.polls.lastID != sent || len(got) > maxKeptMessages || heedless != (len(got) == 0) {
					t.Errorf("the last message received is %d of %d, kept: %v", s.polls.lastID, sent, got)
				}
			})
		})
	}
}

// Messages that wait for their reports are not a reason to give up messages that wait for their offers.
func TestMessagesWhoseReportsTakeTimeCountForNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.log = logr.Discard()
		s.offersCannotBeListed()
		s.cluster.set.Capacity, s.github.statistics = new(1), statistics(1) // no room
		s.cluster.onJob = func(string) error { return errBroken }
		s.start()
		s.pass(time.Second)
		s.send(message(1, 1, "offer 1"))
		for id := range int64(maxUnackedMessages - 1) {
			s.send(message(id+2, 1, fmt.Sprintf("start %d a%d", id+2, id)))
		}
		s.pass(10 * time.Second)
		if got := s.github.noted("delete 1"); got != 0 || len(s.polls.unacked) != maxUnackedMessages {
			t.Errorf("deleted %d times beside %d messages on their way, want it kept", got, len(s.polls.unacked))
		}
	})
}

// The next process gets the kept messages.
func TestStoppingDoesNotWaitForOffersThatAreKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.offersCannotBeListed()
		s.cluster.set.Capacity, s.github.statistics = new(1), statistics(1) // no room
		s.start()
		s.pass(time.Second)
		s.send(message(1, 1, "offer 1"))
		begun := time.Now()
		s.stop()
		<-s.ended
		if took, left := time.Since(begun), s.github.waiting(); took > time.Second || len(left) != 1 {
			t.Errorf("stopping took %s, messages left: %v; want it at once and the message", took, left)
		}
	})
}
