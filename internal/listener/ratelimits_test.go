package listener

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// limitedFor returns a rate limit that ends after pause.
func limitedFor(pause time.Duration) error {
	return &actions.RateLimitedError{Until: time.Now().Add(pause), Err: errBroken}
}

// A listener returns at most spread later than asked, so that many don't return at the same moment.
const spread = 30 * time.Second

// After a limit without an end the loop uses its own backoff, and the status shows the limit only if it persists.
func TestALimitWithoutAnEndDoesNotStopPolls(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failures := 0
		s.github.onPoll = func() error {
			if failures++; failures == 1 {
				return &actions.RateLimitedError{Assumed: true, Until: time.Now().Add(time.Minute), Err: errBroken}
			}
			return nil
		}
		s.start()
		s.pass(500 * time.Millisecond)
		if got := len(s.github.pollTimes()); got != 2 {
			t.Errorf("%d polls half a second after a limit without an end, want 2", got)
		}
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Listening/Listening" || len(s.cluster.States) != 2 {
			t.Errorf("states = %+v, want nothing of a limit that was gone at once", s.cluster.States)
		}
	})
}

func TestALimitWithoutAnEndThatLastsIsShownOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		limited := false
		answers := 0
		s.github.onPoll = func() error {
			if !limited {
				return nil
			}
			answers++
			return &actions.RateLimitedError{
				Assumed: true,
				Until:   time.Now().Add(time.Minute),
				Err:     fmt.Errorf("answer %d", answers),
			}
		}
		s.start()
		limited = true // for the polls after the one that is under way
		s.pass(serving.PollHold + 29*time.Second)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s before the ordinary grace of 30 s is over", got)
		}
		s.pass(10 * time.Minute)
		if got := s.cluster.State(); got != "Retrying/RateLimited" || len(s.cluster.States) != 3 {
			t.Errorf("states = %+v, want the limit once", s.cluster.States)
		}
		limited = false
		s.pass(longestPause + serving.PollHold + time.Second)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s after the limit", got)
		}
	})
}

func TestALimitOfAcquisitionsIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		asked := 0
		s.github.onAcquire = func(ids []int64) ([]int64, error) {
			if asked++; asked == 1 {
				return nil, limitedFor(2 * time.Minute)
			}
			return ids, nil
		}
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(time.Minute)
		s.send(message(2, 0, "offer 2"))
		s.pass(time.Minute - time.Second)
		if asked != 1 {
			t.Errorf("asked %d times before the limit's end, want 1", asked)
		}
		s.pass(spread + 2*time.Second)
		if asked != 2 || s.github.noted("acquire [1 2]") != 1 {
			t.Errorf(
				"asked %d times, calls of GitHub: %v; want both jobs acquired after the limit",
				asked, s.github.calls,
			)
		}
	})
}

// Messages and empty polls make statistics due, but they must not be read before the limit ends.
func TestALimitOfStatisticsIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		asked := 0
		s.start()
		s.github.onRead = func() error {
			if asked++; asked == 1 {
				return limitedFor(3 * time.Minute)
			}
			return nil
		}
		s.pass(serving.PollHold)
		for id := range int64(8) {
			s.send(message(id+1, 1, "start 1 a"))
			s.pass(20 * time.Second)
		}
		s.pass(19 * time.Second)
		if asked != 1 {
			t.Errorf("asked %d times before the limit's end, want 1", asked)
		}
		s.pass(spread + 2*time.Second)
		if asked < 2 {
			t.Errorf("asked %d times, want once more after the limit", asked)
		}
	})
}

func TestALimitOfDeletionsIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		asked := 0
		s.github.onDelete = func(int64) error {
			if asked++; asked == 1 {
				return limitedFor(30 * time.Second)
			}
			return nil
		}
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.pass(time.Second)
		s.send(message(2, 1, "start 2 b"))
		s.pass(28 * time.Second)
		if asked != 1 {
			t.Errorf("asked %d times before the limit's end, want 1", asked)
		}
		s.pass(spread + 2*time.Second)
		if got := s.github.waiting(); asked != 3 || len(got) != 0 {
			t.Errorf("asked %d times, messages %v are left; want both deleted after the limit", asked, got)
		}
	})
}

// With 50 messages waiting for their deletion, the next poll would have to wait too.
func TestALongLimitOfDeletionsKeepsNoPollWaiting(t *testing.T) {
	inBubble(t, func(s *scenario) {
		asked := 0
		s.github.onDelete = func(int64) error {
			if asked++; asked == 1 {
				return limitedFor(10 * time.Minute)
			}
			return nil
		}
		s.start()
		for id := range int64(100) {
			s.send(message(id+1, 1, "start 1 a"))
			s.pass(time.Second)
		}
		if got := s.github.lastPollAt().lastID; got != 100 || asked != 1 {
			t.Errorf(
				"the last poll was after message %d, asked %d times; want all messages taken and one deletion asked "+
					"for",
				got, asked,
			)
		}
		s.pass(10 * time.Minute)
		s.send(message(1000, 1, "start 2 b"))
		s.pass(time.Second)
		if got := s.github.waiting(); asked != 2 || slices.Contains(got, 1000) {
			t.Errorf("asked %d times, messages %v are left; want the last one deleted after the limit", asked, got)
		}
	})
}

// A service that ignores lastMessageId answers with the same message until it is deleted.
func TestAMessageThatMayNotBeDeletedIsNotHandledAllTheTime(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.heedless = true
		s.github.onDelete = func(int64) error { return limitedFor(10 * time.Minute) }
		s.start()
		s.send(message(1, 1, "start 1 a", "assign 2"))
		s.pass(5 * time.Minute)
		if got := len(s.github.pollTimes()); got > 12 {
			t.Errorf("%d polls in 5 min, want about two for each minute that the message waits", got)
		}
	})
}

// Other credentials have limits of their own.
func TestANewClientIsNotBoundByTheLastOnesLimits(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onAcquire = func([]int64) ([]int64, error) { return nil, limitedFor(time.Hour) }
		s.start()
		s.send(message(1, 0, "offer 1"))
		s.pass(time.Minute)
		s.github.onAcquire = nil
		s.reload(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
		s.pass(time.Second)
		if got := s.github.noted("acquire [1]"); got != 2 {
			t.Errorf("asked %d times, want once more with the new credentials", got)
		}
	})
}
