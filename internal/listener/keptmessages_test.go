package listener

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

// noRoom is a service that can't list its open offers, and a set that has no room for another job.
func (s *scenario) noRoom() {
	s.log = logr.Discard()
	s.offersCannotBeListed()
	s.cluster.Set.Capacity, s.github.statistics = new(1), statistics(1)
}

// A service that can't list its offers makes each of them a single time: one that is not acquired when the process is
// killed comes again only with its message.
func TestAMessageIsKeptWhileItsOffersWouldBeLost(t *testing.T) {
	for name, test := range map[string]struct {
		lists   bool
		deleted int
	}{"offers can be listed": {true, 1}, "offers can't be listed": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.log = logr.Discard()
				if !test.lists {
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
				attempts := 0
				s.github.onAcquire = nil
				s.github.onDelete = func(int64) error {
					if attempts++; attempts == 1 {
						return errBroken
					}
					return nil
				}
				s.pass(2 * longestPause)
				if got := s.github.noted("delete 1"); got != 1 {
					t.Errorf("deleted %d times once the job is acquired, want once after a second attempt", got)
				}
			})
		})
	}
}

// A search that fails, for minutes perhaps, doesn't show whether the service can list its offers.
func TestAMessageIsKeptUntilItIsKnownWhetherItsOffersCanBeFoundAgain(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.noRoom()
		searches := 0
		s.github.onSearch = func() error { searches++; return errBroken }
		s.start()
		s.send(message(1, 1, "offer 1"))
		s.pass(time.Hour)
		if got := s.github.noted("delete 1"); got != 0 {
			t.Errorf("deleted %d times while no search succeeds, want it kept", got)
		}
		if searches < 60 || searches > 130 { // pauses grow to a minute, and chance halves them at most
			t.Errorf("%d searches in an hour, want 60 to 130", searches)
		}
		s.github.onSearch = nil
		s.pass(time.Minute)
		if got := s.github.noted("delete 1"); got != 1 {
			t.Errorf("deleted %d times after a search has succeeded, want once", got)
		}
	})
}

// Only the newest messages are kept, so polls go on and bring the ends of jobs that make room.
func TestMessagesThatAreKeptNeverKeepPollsWaiting(t *testing.T) {
	for name, heedless := range map[string]bool{"in order": false, "the oldest again and again": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.noRoom()
				s.github.heedless = heedless
				s.start()
				s.pass(time.Second)
				const sent = 150 // three times as many as may be on their way
				for id := range int64(sent) {
					s.send(message(id+1, 1, fmt.Sprintf("offer %d", id+1)))
				}
				s.pass(time.Minute)
				got := s.github.waiting()
				last := s.github.lastPollAt().lastID
				if last != sent || len(got) > 25 || heedless != (len(got) == 0) {
					t.Errorf("the last message received is %d of %d, kept: %v", last, sent, got)
				}
			})
		})
	}
}

// Messages that wait for their reports are not a reason to give up messages that wait for their offers.
func TestMessagesWhoseReportsTakeTimeCountForNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.noRoom()
		s.cluster.OnJob = func(string) error { return errBroken }
		s.start()
		s.pass(time.Second)
		s.send(message(1, 1, "offer 1"))
		for id := range int64(49) {
			s.send(message(id+2, 1, fmt.Sprintf("start %d a%d", id+2, id)))
		}
		s.pass(10 * time.Second)
		last := s.github.lastPollAt().lastID // while as many messages as may be are on their way, no poll goes out
		if got := s.github.noted("delete 1"); got != 0 || last != 49 {
			t.Errorf("deleted %d times beside %d messages on their way, want it kept", got, last+1)
		}
	})
}

// The next process gets the kept messages.
func TestStoppingDoesNotWaitForMessagesThatAreKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.noRoom()
		s.start()
		s.pass(time.Second)
		s.send(message(1, 1, "offer 1"))
		if took, left := s.stopped(), s.github.waiting(); took > time.Second || len(left) != 1 {
			t.Errorf("stopping took %s, messages left: %v; want it at once and the message", took, left)
		}
	})
}

// Nor does closing the session of a set that takes no more jobs, and the next session acquires what is kept.
func TestKeptMessagesOutliveTheirSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.noRoom()
		s.start()
		s.pass(time.Second)
		s.send(message(1, 1, "offer 1"))
		s.reload(func(c *config.Config) { c.MaxRunners = 0 })
		if !slices.Contains(s.github.calls, "1s close 1 session-1") || len(s.github.waiting()) != 1 {
			t.Errorf(
				"calls of GitHub: %v, messages left: %v; want the session closed at once and the message kept",
				s.github.calls, s.github.waiting(),
			)
		}
		s.cluster.Set.Capacity = nil
		s.reload(func(c *config.Config) { c.MaxRunners = 2 })
		s.pass(time.Minute)
		if s.github.noted("acquire [1]") != 1 || len(s.github.waiting()) != 0 {
			t.Errorf("calls of GitHub: %v; want the job acquired and its message deleted", s.github.calls)
		}
	})
}
