package listener

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestANewProcessClosesTheSessionOfTheLast(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.Set.SessionID = "left behind"
		s.start()
		want := []string{"0s close 1 left behind", "0s open 1"}
		if diff := cmp.Diff(want, s.github.calls); diff != "" {
			t.Errorf("calls of GitHub (-want +got):\n%s", diff)
		}
		if got := s.cluster.Last().SessionID; got != "session-1" {
			t.Errorf("session %q was published, want the new one", got)
		}
	})
}

func TestAConflictIsWaitedOutWithoutEnd(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error { return actions.ErrSessionConflict }
		s.start()
		s.pass(64 * time.Second)
		want := []string{
			"0s open 1", "1s open 1", "3s open 1", "8s open 1", "18s open 1", "33s open 1", "48s open 1", "1m3s open 1",
		}
		if diff := cmp.Diff(want, s.github.calls); diff != "" {
			t.Errorf("calls of GitHub (-want +got):\n%s", diff)
		}
		if got := s.cluster.State(); got != "Starting/Starting" {
			t.Errorf("state = %s after a minute, want no alarm yet", got)
		}
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "SessionConflict/SessionConflict" {
			t.Errorf("state = %s after two minutes", got)
		}
		s.pass(time.Hour)
		s.github.onOpen = nil
		s.pass(15 * time.Second)
		if got := s.cluster.State(); got != "Listening/Listening" {
			t.Errorf("state = %s once the session was free", got)
		}
	})
}

func TestALostSessionIsOpenedAgainAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(3, 1, "assign 1"))
		s.pass(time.Second)
		s.github.statistics = statistics(4)
		s.github.evict()
		s.pass(0)
		if got := s.cluster.Last(); got.SessionID != "session-2" || got.Replicas != 4 {
			t.Errorf("published %+v, want the new session and its statistics", got)
		}
		if got := s.github.lastPollAt().lastID; got != 0 {
			t.Errorf("poll after message %d in a new session, want 0", got)
		}
	})
}

// A restored service counts its messages from the start: no message of the new session is mistaken for an earlier one.
func TestANewSessionMayCountItsMessagesAnew(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onDelete = func(int64) error { return &actions.Error{StatusCode: 500} }
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.send(message(2, 1, "start 2 b"))
		s.pass(time.Second)
		s.github.mu.Lock()
		s.github.queue = nil
		s.github.mu.Unlock()
		s.github.evict()
		s.pass(time.Second)
		s.github.onDelete = nil
		s.send(message(1, 1, "complete 1 a"))
		s.pass(time.Second)
		if got := s.cluster.Job("a").JobResult; got != "succeeded" {
			t.Errorf("result of the job = %q, want that of the new session's first message", got)
		}
		s.pass(time.Minute)
		if got := s.github.waiting(); len(got) != 0 {
			t.Errorf("messages %v are left", got)
		}
	})
}

// A message that was not deleted is redelivered: it is not handled twice, and later messages do not wait for its
// deletion.
func TestMessagesUnderWayOfALostSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.cluster.OnJob = func(runner string) error {
			if runner == "a" {
				<-release
			}
			return nil
		}
		s.start()
		s.send(message(1, 2, "start 1 a", "assign 2"))
		s.github.evict()
		s.pass(0)
		s.send(message(2, 2, "start 2 b"))
		s.pass(time.Second)
		if s.github.noted("delete 1") != 0 || s.github.noted("delete 2") != 1 {
			t.Errorf("calls of GitHub: %v, want the second message deleted", s.github.calls)
		}
		close(release)
		s.pass(time.Second)
		reports := slices.DeleteFunc(slices.Clone(s.cluster.Calls), func(call string) bool {
			return !strings.Contains(call, "report a")
		})
		if s.github.noted("delete 1") != 1 || len(reports) != 1 {
			t.Errorf(
				"calls of GitHub: %v, reports %v; want the first message reported and deleted once",
				s.github.calls, reports,
			)
		}
	})
}

func TestASessionLostInAnOutageIsOpenedAsSoonAsGitHubSaysSo(t *testing.T) {
	inBubble(t, func(s *scenario) {
		failure := error(&actions.Error{StatusCode: 500})
		var lost, opened time.Time
		s.github.onPoll = func() error {
			if errors.Is(failure, actions.ErrSessionNotFound) {
				defer func() { failure = nil }()
				lost = time.Now()
			}
			return failure
		}
		s.github.onOpen = func() error { opened = time.Now(); return nil }
		s.start()
		s.pass(time.Minute)
		failure = actions.ErrSessionNotFound
		s.pass(time.Minute)
		if lost.IsZero() || opened.Sub(lost) > time.Second {
			t.Errorf("the session was lost at %s, the next one opened at %s", lost, opened)
		}
	})
}

// While 50 messages wait, no poll goes out that could find the session lost.
func TestALostSessionIsFoundOutByDeletions(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onDelete = func(int64) error {
			if s.github.noted("open 1") == 1 {
				return actions.ErrSessionNotFound
			}
			return nil
		}
		release := make(chan struct{})
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.start()
		for id := range int64(50) {
			s.github.enqueue(message(id+1, 1, "start 1 a", "assign 2"))
		}
		s.pass(5 * time.Second)
		close(release)
		s.pass(10 * time.Second)
		if got := s.cluster.Last().SessionID; got != "session-2" {
			t.Errorf("the session is %s after its loss", got)
		}
		if got := s.github.waiting(); len(got) != 0 {
			t.Errorf("messages %v are left", got)
		}
	})
}

func TestASessionLostAgainAndAgainIsOpenedWithPauses(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onPoll = func() error { return actions.ErrSessionNotFound }
		s.start()
		s.pass(time.Minute)
		if got := s.github.noted("open 1"); got > 15 {
			t.Errorf("%d sessions in a minute", got)
		}
	})
}

// How a service answers a poll in a session that it has ended is not documented: after any refusal, the next session is
// tried. A poll that fails on the way says nothing about the session.
func TestASessionWhosePollsAreRefusedIsReplaced(t *testing.T) {
	for status, want := range map[int]string{
		400: "session-2", 403: "session-2", 409: "session-2", 422: "session-2", 408: "session-1", 502: "session-1",
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.github.onPoll = func() error {
					if s.github.noted("open 1") == 1 {
						return &actions.Error{StatusCode: status}
					}
					return nil
				}
				s.start()
				s.pass(2 * time.Second)
				if got := s.cluster.Last().SessionID; got != want {
					t.Errorf("%s is held, want %s", got, want)
				}
			})
		})
	}
}

func TestNoFailedPollEndsTheListener(t *testing.T) {
	// A bubble begins in 2000.
	limited := &actions.RateLimitedError{Until: time.Date(2000, 1, 1, 0, 5, 0, 0, time.UTC), Err: errBroken}
	for name, test := range map[string]struct {
		err   error
		state string
	}{
		"401": {
			&actions.Error{StatusCode: 401, Credential: actions.CredentialAdminToken}, "Retrying/Unauthorized",
		},
		"404 of the set":    {actions.ErrScaleSetNotFound, "Retrying/ScaleSetNotFound"},
		"409":               {&actions.Error{StatusCode: 409}, "Retrying/RefusedByGitHub"},
		"429":               {limited, "Retrying/RateLimited"},
		"500":               {&actions.Error{StatusCode: 500}, "Retrying/GitHubUnavailable"},
		"hang":              {&actions.TimeoutError{Limit: time.Minute}, "Retrying/Timeout"},
		"truncated":         {actions.ErrTruncated, "Retrying/GitHubUnavailable"},
		"connection ripped": {&actions.NetworkError{Err: errBroken}, "Retrying/GitHubUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				failure := test.err
				s.github.onPoll = func() error { return failure }
				s.github.onOpen = func() error {
					if errors.Is(failure, actions.ErrScaleSetNotFound) {
						return failure
					}
					return nil
				}
				s.start()
				s.pass(2 * time.Minute)
				if got := s.cluster.State(); got != test.state {
					t.Errorf("state = %s, want %s", got, test.state)
				}
				if got := len(s.github.pollTimes()) + s.github.noted("open 1"); got > 40 {
					t.Errorf("%d calls in two minutes", got)
				}
				failure = nil
				// the limit ends after 5 min, the pause up to 30 s later, the poll 50 s after that
				s.pass(5 * time.Minute)
				if got := s.cluster.State(); got != "Listening/Listening" {
					t.Errorf("state = %s after the failure went", got)
				}
			})
		})
	}
}

func TestARateLimitIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		until := time.Now().Add(10 * time.Minute)
		s.github.onPoll = func() error { return &actions.RateLimitedError{Until: until, Err: errBroken} }
		s.start()
		s.pass(10*time.Minute - time.Second)
		if got := len(s.github.pollTimes()); got != 1 {
			t.Errorf("%d polls before the limit's end, want 1", got)
		}
		s.github.onPoll = nil
		s.pass(spread + 2*time.Second)
		if got := len(s.github.pollTimes()); got != 2 {
			t.Errorf("%d polls after the limit's end, want 2", got)
		}
	})
}

func TestARateLimitOfSessionsIsKept(t *testing.T) {
	inBubble(t, func(s *scenario) {
		until := time.Now().Add(10 * time.Minute)
		s.github.onOpen = func() error { return &actions.RateLimitedError{Until: until, Err: errBroken} }
		s.start()
		s.pass(10*time.Minute - time.Second)
		if got := s.github.noted("open 1"); got != 1 {
			t.Errorf("%d sessions were asked for before the limit's end, want 1", got)
		}
	})
}
