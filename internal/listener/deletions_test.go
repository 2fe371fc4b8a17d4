package listener

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"
)

func TestADeletionIsRepeatedForAMinute(t *testing.T) {
	inBubble(t, func(s *scenario) {
		attempts := 0
		s.github.onDelete = func(int64) error {
			if attempts++; attempts < 3 {
				return errBroken
			}
			return nil
		}
		s.start()
		s.send(message(1, 0, "complete 1 a"))
		s.pass(10 * time.Second)
		if s.github.noted("delete 1") != 1 {
			t.Errorf("not deleted after %d attempts", attempts)
		}
		attempts = 0
		s.github.onDelete = func(int64) error { attempts++; return errBroken }
		s.send(message(2, 0, "complete 2 b"))
		s.pass(time.Minute + longestPause + time.Second)
		made := attempts
		s.pass(5 * time.Minute)
		if took := s.stopped(); made < 2 || attempts != made || took > 0 {
			t.Errorf("%d attempts and %d more, stopping took %s: what can't be deleted has to make room",
				made, attempts-made, took)
		}
	})
}

// A message that could not be deleted for a minute comes again in the next session. Its jobs are counted a single time.
func TestAMessageThatComesAgainIsNotCountedTwice(t *testing.T) {
	inBubble(t, func(s *scenario) {
		attempts := 0
		s.github.onDelete = func(int64) error { attempts++; return errBroken }
		s.start()
		s.send(message(1, 1, "start 1 a"))
		for range 2 {
			s.pass(time.Minute + longestPause)
			made := attempts
			s.pass(time.Minute)
			if attempts != made {
				t.Fatal("the message is still under way")
			}
			s.github.evict()
			s.pass(time.Second)
			if attempts == made {
				t.Fatal("the message has not come again")
			}
		}
		s.send(message(2, 1, "start 2 b"))
		scraped := httptest.NewRecorder()
		s.metrics.ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if got := regexp.MustCompile(
			`gha_started_jobs_total.* (\d+)\n`,
		).FindStringSubmatch(scraped.Body.String()); got == nil || got[1] != "2" {
			t.Errorf("%v, want two jobs started", got)
		}
	})
}

// A message is deleted only when its effects are in the API server, but it does not keep others waiting for that
// forever.
func TestAMessageIsNotDeletedBeforeItsCountIsPublished(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.cluster.OnPublish = func() error { return errBroken }
		s.send(message(5, 3, "assign 1", "assign 2", "assign 3"))
		s.pass(59 * time.Second)
		if s.github.noted("delete 5") != 0 {
			t.Errorf("deleted while replicas in the API server are %d", s.cluster.Last().Replicas)
		}
		s.pass(2 * time.Second)
		if s.github.noted("delete 5") != 1 {
			t.Error("not deleted after a minute")
		}
		s.send(message(6, 4, "assign 4"))
		s.cluster.OnPublish = nil
		s.pass(longestPause)
		if s.github.noted("delete 6") != 1 || s.cluster.Last().Replicas != 4 {
			t.Errorf("calls of GitHub: %v, want the next deleted once its count was published", s.github.calls)
		}
	})
}

// A count that the set has already is not written again immediately, and no message waits for it.
func TestAMessageThatChangesNoCountIsDeletedAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(5, 0, "offer 1"))
		s.send(message(6, 1, "assign 1"))
		s.send(message(7, 1, "start 1 a"))
		if s.github.noted("delete 7") != 1 {
			t.Errorf("calls of GitHub: %v, want all deleted", s.github.calls)
		}
	})
}
