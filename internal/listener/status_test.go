package listener

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
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
		written := len(s.cluster.states)
		failing = true
		s.pass(pollHoldPeriod + 20*time.Second)
		failing = false
		s.pass(time.Minute)
		if got := s.cluster.states[written:]; len(got) != 0 {
			t.Errorf("20 s of failure were written: %+v", got)
		}
	})
}

func TestAFailureIsShownOnceWithItsBeginning(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		begun := time.Now().Add(pollHoldPeriod).Truncate(time.Second)
		s.github.onPoll = func() error { return errBroken }
		s.pass(10 * time.Minute)
		last := s.cluster.states[len(s.cluster.states)-1]
		if len(s.cluster.states) != 3 || last.Reason != v1alpha1.ReasonGitHubUnavailable || last.Message == "" || !last.Since.Time.Equal(begun) {
			t.Errorf("states = %+v, want a third one since %s", s.cluster.states, begun)
		}
	})
}

func TestAStateThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failing := true
		s.cluster.onState = func() error {
			if failing {
				return errBroken
			}
			return nil
		}
		s.start()
		s.pass(time.Minute)
		failing = false
		s.pass(maxPause)
		if got := s.cluster.state(); got != "Listening/Listening" {
			t.Errorf("state = %q", got)
		}
	})
}

// A rate limit that is imposed again has a new end, which users want to know. For other reasons, a new message is not worth a write
// by itself.
func TestNewEndOfARateLimitIsShown(t *testing.T) {
	for reason, written := range map[string]bool{v1alpha1.ReasonRateLimited: true, v1alpha1.ReasonGitHubUnavailable: false} {
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

func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason string
		after  time.Duration
	}{
		"conflict":           {actions.ErrSessionConflict, v1alpha1.ReasonSessionConflict, conflictGracePeriod},
		"session gone":       {actions.ErrSessionNotFound, reasonSessionLost, failureGracePeriod},
		"scale set gone":     {actions.ErrScaleSetNotFound, v1alpha1.ReasonScaleSetNotFound, 0},
		"credential refused": {actions.ErrUnauthorized, v1alpha1.ReasonUnauthorized, 0},
		"credential useless": {actions.ErrInvalidCredentials, v1alpha1.ReasonCredentialsInvalid, 0},
		"no certificate":     {errUnusable, v1alpha1.ReasonInvalidConfiguration, 0},
		"rate limit":         {&actions.RateLimitedError{Err: actions.ErrUnauthorized}, v1alpha1.ReasonRateLimited, 0},
		"message":            {&actions.MalformedMessageError{Err: errBroken}, reasonMalformedMessage, failureGracePeriod},
		"time is up":         {&actions.TimeoutError{}, v1alpha1.ReasonTimeout, failureGracePeriod},
		"maintenance":        {&actions.Error{StatusCode: 503, RetryAt: noon.Add(time.Minute)}, v1alpha1.ReasonGitHubUnavailable, 0},
		"short maintenance":  {&actions.Error{StatusCode: 503, RetryAt: noon.Add(time.Second)}, v1alpha1.ReasonGitHubUnavailable, failureGracePeriod},
		"anything else":      {errBroken, v1alpha1.ReasonGitHubUnavailable, failureGracePeriod},
	} {
		t.Run(name, func(t *testing.T) {
			reason, err := explain(fmt.Errorf("call: %w", test.err))
			if reason != test.reason {
				t.Fatalf("reason = %s, want %s", reason, test.reason)
			}
			if (reason == v1alpha1.ReasonTimeout || reason == v1alpha1.ReasonGitHubUnavailable) && !strings.Contains(err.Error(), "check proxy") {
				t.Errorf("%q says nothing of what to look at", err)
			}
			var f *failure
			f = f.next(reason, err, noon)
			if test.after > 0 {
				f = f.next(reason, err, noon.Add(test.after-1))
				if status := f.status(); status != nil {
					t.Errorf("shown as %+v too early", status)
				}
			}
			f = f.next(reason, err, noon.Add(test.after))
			if status := f.status(); status == nil || !status.Since.Time.Equal(noon) {
				t.Errorf("status = %+v, want it since %s", status, noon)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	pauses := backoff{initial: time.Second, max: 15 * time.Second}
	for i, full := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if got := pauses.next(); got < full*time.Second/2 || got > full*time.Second {
			t.Errorf("pause %d = %s, want between %s and %s", i, got, full*time.Second/2, full*time.Second)
		}
	}
	pauses.failures = 1000
	if got := pauses.next(); got > 15*time.Second || got < 7*time.Second {
		t.Errorf("pause after 1000 failures = %s", got)
	}
	pauses.reset()
	if got := pauses.next(); got > time.Second {
		t.Errorf("pause after a success = %s", got)
	}
}

func TestProbes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(noon)
	h := &health{clock: clk}
	expect := func(when, path string, want int) {
		t.Helper()
		answer := httptest.NewRecorder()
		h.handler(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %s = %d %s, want %d", when, path, answer.Code, answer.Body, want)
		}
	}
	h.turned(noon)
	expect("before the first session", "/healthz", http.StatusOK)
	expect("before the first session", "/readyz", http.StatusServiceUnavailable)
	h.polled(noon)
	expect("with a session", "/readyz", http.StatusOK)
	clk.SetTime(noon.Add(turnTimeout + time.Second))
	expect("when the loop is stuck", "/healthz", http.StatusServiceUnavailable)
	clk.SetTime(noon.Add(2*pollHoldPeriod + time.Second))
	h.turned(clk.Now())
	expect("without a good poll for long", "/healthz", http.StatusOK)
	expect("without a good poll for long", "/readyz", http.StatusServiceUnavailable)
	h.polled(clk.Now())
	h.lost()
	expect("when the session is lost", "/readyz", http.StatusServiceUnavailable)
}

func TestTheLoopGoesOnWhateverHangs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		hang := make(chan struct{})
		defer close(hang)
		s.start()
		s.github.onPoll = func() error { <-hang; return errBroken }
		s.cluster.onPublish = func() error { <-hang; return errBroken }
		s.cluster.onState = func() error { <-hang; return errBroken }
		for range 20 {
			s.pass(time.Minute)
			if err := s.health.alive(); err != nil {
				t.Fatal(err)
			}
		}
		if s.health.ready() == nil {
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
		l := &loop{status: statusState{lastWritten: listening, epoch: 2, underWay: test.underWay}}
		l.statusSeen(test.answer, test.turns)
		if got := l.status.lastWritten.State; got != test.want {
			t.Errorf("%s: last written %q, want %q", name, got, test.want)
		}
	}
}
