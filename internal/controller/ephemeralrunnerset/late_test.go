package ephemeralrunnerset

import (
	"testing"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What is done while the cache shows runners as they were some moments ago.

// surplus brings a set of one runner that is not registered, as far as anybody knows, to where it is too many.
func (s *site) surplus() {
	s.Helper()
	s.reconcile()
	s.publish(0)
	s.reconcile()
	controllertest.Elapse(surplusPatience)
	s.publish(0)
}

// Its controller has registered it since the cache's last word: whether it has a job is GitHub's to say.
func TestRunnerThatHasChangedSinceItWasSeenIsNotDeleted(t *testing.T) {
	inBubble(t, func(s *site) {
		s.surplus()
		s.late = true
		s.bringUp()
		s.reconcile()
		if s.requests["delete"] != 1 || s.runners()[0].DeletionTimestamp != nil {
			t.Errorf("%d deletions, runner %+v; want one that is refused", s.requests["delete"], s.runners()[0].ObjectMeta)
		}
		s.late = false
		s.reconcile()
		if s.asked != 1 {
			t.Errorf("GitHub was asked %d times, want once", s.asked)
		}
	}, newSet(1))
}

func TestRunnerIsNotDeletedAgainWhileTheCacheIsLate(t *testing.T) {
	inBubble(t, func(s *site) {
		s.surplus()
		s.late = true
		for range 3 {
			s.reconcile()
		}
		if s.requests["delete"] != 1 {
			t.Errorf("%d deletions, want 1", s.requests["delete"])
		}
		if got := s.runners()[0]; got.DeletionTimestamp == nil {
			t.Error("the surplus runner was not deleted")
		}
	}, newSet(1))
}

// The creation failed without an answer: its repetition does not wait for the cache.
func TestCreationWithoutAnAnswerIsRepeatedSoon(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errNoAnswer
		_, _ = s.pass()
		s.refuse = nil
		if again := s.reconcile().RequeueAfter; again <= 0 || again > firstCreatePause {
			t.Errorf("again in %s, want at most %s", again, firstCreatePause)
		}
		controllertest.Elapse(firstCreatePause)
		s.reconcile()
		s.wantRunners(2)
	}, newSet(2))
}

// After minutes without an answer the API server is asked as often as after seconds, so that its return is noticed.
func TestReturnOfTheAPIServerIsNoticedInTime(t *testing.T) {
	inBubble(t, func(s *site) {
		s.refuse = errNoAnswer
		for range 20 {
			_, _ = s.pass()
			controllertest.Elapse(longestAwayPause)
		}
		_, _ = s.pass()
		s.refuse = nil
		controllertest.Elapse(longestAwayPause)
		s.reconcile()
		s.wantRunners(2)
	}, newSet(2))
}
