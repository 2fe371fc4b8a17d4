package listener

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/errand"
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
		s.pass(longestBackoff)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %q", got)
		}
	})
}

// A rate limit that is imposed again has a new end, which users want to know. For other reasons, a new message is not
// worth a write by itself.
func TestNewEndOfARateLimitIsShown(t *testing.T) {
	for reason, written := range map[string]bool{
		v1alpha1.ReasonRateLimited:       true,
		v1alpha1.ReasonGitHubUnavailable: false,
	} {
		before := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: reason, Message: "until noon"}
		after := before
		after.Message = "until one"
		if sameStatus(&before, &after) == written {
			t.Errorf("%s in other words: written %t, want %t", reason, !written, written)
		}
		if !sameStatus(&before, &before) {
			t.Errorf("%s in the same words is written again", reason)
		}
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

// The answer to a publication shows the set's status, unless a write of the status may be newer.
func TestAnAnswerOlderThanAWriteOfTheStatusIsIgnored(t *testing.T) {
	listening := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening}
	starting := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStarting}
	for name, test := range map[string]struct {
		answer   *v1alpha1.ListenerStatus
		turns    int
		underWay bool
		want     v1alpha1.ListenerState
	}{
		"newer than the last report":     {&starting, 2, false, v1alpha1.ListenerStateStarting},
		"of a set that has heard none":   {nil, 2, false, ""},
		"asked for before a report":      {&starting, 1, false, v1alpha1.ListenerStateListening},
		"asked for while one is written": {nil, 2, true, v1alpha1.ListenerStateListening},
	} {
		l := &loop{status: statusState{
			Errand:      errand.Errand{UnderWay: test.underWay},
			lastWritten: listening,
			epoch:       2,
		}}
		l.statusSeen(test.answer, test.turns)
		if got := l.status.lastWritten.State; got != test.want {
			t.Errorf("%s: last written %q, want %q", name, got, test.want)
		}
	}
}
