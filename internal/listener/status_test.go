package listener

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

func TestAShortFailureIsNotShown(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failing := false
		s.github.onPoll = func() error {
			if failing {
				return errBroken
			}
			return nil
		}
		s.start()
		written := len(s.cluster.States)
		failing = true
		s.pass(serving.PollHold + 20*time.Second)
		failing = false
		s.pass(time.Minute)
		if got := s.cluster.States[written:]; len(got) != 0 {
			t.Errorf("20 s of failure were written: %+v", got)
		}
	})
}

func TestAFailureIsShownOnceWithItsBeginning(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		begun := time.Now().Add(serving.PollHold).Truncate(time.Second)
		s.github.onPoll = func() error { return errBroken }
		s.pass(10 * time.Minute)
		last := s.cluster.States[len(s.cluster.States)-1]
		if len(s.cluster.States) != 3 || last.Reason != v1alpha1.ReasonGitHubUnavailable || last.Message == "" ||
			!last.Since.Time.Equal(begun) {
			t.Errorf("states = %+v, want a third one since %s", s.cluster.States, begun)
		}
	})
}

func TestAStateThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failing := true
		s.cluster.OnState = func() error {
			if failing {
				return errBroken
			}
			return nil
		}
		s.start()
		s.pass(time.Minute)
		failing = false
		s.pass(longestPause)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %q", got)
		}
	})
}

// A rate limit that is imposed again has a new end, which users want to know. For other reasons, a new message is not
// worth a write by itself.
func TestNewEndOfARateLimitIsShown(t *testing.T) {
	answers := 0
	for name, test := range map[string]struct {
		answer  func() error
		written int
	}{
		"limits of two minutes":   {func() error { return limitedFor(2 * time.Minute) }, 2},
		"failures in other words": {func() error { return fmt.Errorf("answer %d", answers) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				written := len(s.cluster.States)
				answers = 0
				s.github.onPoll = func() error { answers++; return test.answer() }
				// The second limit begins half a minute late at most, and ends no sooner than after four minutes.
				s.pass(serving.PollHold + 2*time.Minute + spread + time.Second)
				said := map[string]bool{}
				for _, status := range s.cluster.States[written:] {
					said[status.Message] = true
				}
				if len(s.cluster.States) != written+test.written || len(said) != test.written || answers < 2 {
					t.Errorf("wrote %+v after %d answers, want %d", s.cluster.States[written:], answers, test.written)
				}
			})
		})
	}
}

func TestTheLoopGoesOnWhateverHangs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		hang := make(chan struct{})
		defer close(hang)
		s.start()
		s.github.onPoll = func() error { <-hang; return errBroken }
		s.cluster.OnPublish = func() error { <-hang; return errBroken }
		s.cluster.OnState = func() error { <-hang; return errBroken }
		for range 20 {
			s.pass(time.Minute)
			if err := s.health.Alive(); err != nil {
				t.Fatal(err)
			}
		}
		if s.health.Ready() == nil {
			t.Error("ready although no poll came through for 20 min")
		}
	})
}

// The answer to a publication shows the set's status, and what the set does not have is written again; unless a write
// of the status may be newer, because it began or ended after the publication began.
func TestAnAnswerOlderThanAWriteOfTheStatusIsIgnored(t *testing.T) {
	starting := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStarting}
	for name, test := range map[string]struct {
		answer           *v1alpha1.ListenerStatus
		publish, written bool // whether a write hangs at the beginning
		again            int
	}{
		"newer than the last report":                  {&starting, false, false, 1},
		"of a set that has heard none":                {nil, false, false, 1},
		"asked for before a report":                   {&starting, true, false, 0},
		"of a set that had heard none":                {nil, true, false, 0},
		"asked for while one is written":              {nil, true, true, 0},
		"asked for and answered while one is written": {nil, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				publish, write := make(chan struct{}), make(chan struct{})
				if test.publish {
					s.cluster.OnPublish = func() error { <-publish; return nil }
				}
				if test.written {
					s.cluster.OnState = func() error { <-write; return nil }
				}
				s.start()
				close(write)
				s.pass(time.Second)
				s.cluster.Set.Listener = test.answer
				s.release()
				close(publish)
				if !test.publish && !test.written {
					s.send(message(1, 1, "assign 1")) // leads to a publication
				}
				s.pass(time.Second)
				var states []v1alpha1.ListenerState
				for _, status := range s.cluster.States {
					states = append(states, status.State)
				}
				want := []v1alpha1.ListenerState{
					v1alpha1.ListenerStateStarting, v1alpha1.ListenerStateListening, v1alpha1.ListenerStateListening,
				}[:2+test.again]
				if !slices.Equal(states, want) {
					t.Errorf("wrote %v, want %v", states, want)
				}
			})
		})
	}
}

// The same if the write fails, so that the set has the status from before.
func TestAnAnswerDuringAWriteOfTheStatusThatFailsIsIgnored(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		fail := make(chan struct{})
		s.cluster.OnState = func() error { <-fail; return errBroken }
		s.github.onAcquire = func([]int64) ([]int64, error) { return nil, limitedFor(time.Hour) }
		s.send(message(1, 0, "offer 1")) // a limit is to be shown
		s.cluster.Set.Listener = nil
		s.send(message(2, 1, "complete 1", "assign 2")) // the limit is of no interest any more
		published := s.cluster.Last()
		s.cluster.OnState = nil
		s.release()
		close(fail)
		s.pass(time.Second)
		if got := len(s.cluster.States); got != 2 || published.Replicas != 1 {
			t.Errorf("wrote %+v after %+v was published, want Starting and Listening", s.cluster.States, published)
		}
	})
}
