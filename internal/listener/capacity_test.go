package listener

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/listener/serving"
)

func TestCapacityFollowsTheSetWhileItCannotRunJobs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		running := 2
		s.cluster.Set.Capacity = &running
		s.start()
		if got := s.github.lastPollAt().capacity; got != 2 {
			t.Errorf("capacity = %d, want the 2 the set allows", got)
		}
		s.cluster.Set.Capacity = nil
		s.pass(2 * serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d once the set is well, want maxRunners", got)
		}
		more := 50
		s.cluster.Set.Capacity = &more
		s.pass(2 * serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d, want no more than maxRunners", got)
		}
	})
}

// While all that is announced is assigned, a listener reads its set twelve times a minute more than otherwise at most,
// whatever the set says meanwhile, and four times when that doesn't change any more.
func TestReadsOfAFullSetAreBounded(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 1000
		s.cluster.Set.Capacity, s.github.statistics = new(20), statistics(2000)
		s.start()
		for minute := range 10 {
			reads := s.cluster.Reads()
			for range 6 {
				s.cluster.Set.Capacity = new(20 + 10*minute)
				s.pass(10 * time.Second)
			}
			if got := s.cluster.Reads() - reads; got == 0 || got > 12 {
				t.Errorf("minute %d, in which there is more room: %d reads, want 1 to 12", minute, got)
			}
		}
		s.pass(time.Minute)
		reads := s.cluster.Reads()
		s.pass(10 * time.Minute)
		if got := s.cluster.Reads() - reads; got == 0 || got > 4*10 {
			t.Errorf("%d reads in ten minutes without a change, want 4 a minute at most", got)
		}
	})
}

// A set that announces what its cluster places is asked before the first poll, and while GitHub has assigned all that
// it was told of.
func TestRoomIsReadOfASetThatPlacesJobs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 100
		s.start()
		if polls := s.github.pollTimes(); len(polls) > 0 {
			t.Errorf("polls at %v, before the set has said for how many jobs there is room", polls)
		}
		s.pass(5 * time.Second)
		s.cluster.Set.Capacity = new(20)
		s.pass(2 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 20 {
			t.Errorf("the first poll says %d, want 20", got)
		}
		reads := s.cluster.Reads()
		s.pass(5 * time.Minute)
		if more := s.cluster.Reads() - reads; more > 0 {
			t.Errorf("%d reads though there is room", more)
		}
		s.send(message(1, 20, "assign 1"))
		s.pass(2 * time.Second)
		s.cluster.Set.Capacity = new(50)
		s.pass(15 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 50 {
			t.Errorf("15 s later a poll says %d, want 50", got)
		}
	})
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 100
		s.start()
		s.pass(11 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("the set has said nothing for ten seconds, and the first poll says %d, want 10", got)
		}
	})
}
