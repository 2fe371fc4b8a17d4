package listener

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

func TestStoppingFinishesTheMessageInHand(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.pass(time.Second)
		s.send(message(2, 1, "complete 1 a", "assign 2"))
		s.stop()
		s.pass(10 * time.Second)
		close(release)
		s.pass(0)
		<-s.ended
		if got := s.github.waiting(); len(got) != 0 {
			t.Errorf("messages %v were not deleted", got)
		}
		if got := s.cluster.Last().PatchID; got < s.cluster.Job("a").JobPatchID {
			t.Errorf(
				"patchID %d was published, want the %d that the report carries",
				got, s.cluster.Job("a").JobPatchID,
			)
		}
		if s.github.noted("close session session-1") != 1 || s.cluster.State() != "Stopped/Stopped" {
			t.Errorf(
				"calls of GitHub: %v, state %s; want the session closed and the end written",
				s.github.calls, s.cluster.State(),
			)
		}
	})
}

func TestStoppingPublishesAWithheldPatchIDAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.send(message(2, 1, "complete 1 a", "assign 2"))
		s.pass(queue.GatherInterval)
		if took := s.stopped(); took > 200*time.Millisecond {
			t.Errorf("stopping took %s", took)
		}
		if got, want := s.cluster.Last().PatchID, s.cluster.Job("a").JobPatchID; got < want {
			t.Errorf("patchID %d was published, want the %d of the report", got, want)
		}
	})
}

// Two starts at a time, 2 s each, would leave half of them unwritten, and the message would be redelivered.
func TestStoppingWritesWhatIsInHandInTime(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.cluster.OnJob = func(string) error { <-time.After(2 * time.Second); return nil }
		var started []string
		for i := range 50 {
			started = append(started, fmt.Sprintf("start %d runner-%d", i+1, i))
		}
		s.send(message(1, 1, started...))
		s.pass(queue.GatherInterval)
		s.stop()
		<-s.ended
		if got := s.github.waiting(); len(got) != 0 {
			t.Errorf("messages left: %v, want none", got)
		}
	})
}

func TestStoppingEndsInTimeWhateverHangs(t *testing.T) {
	for _, entry := range []string{"start 1 a", "complete 1 a"} { // ends of jobs are held back while publications fail
		t.Run(entry, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				s.cluster.OnPublish = func() error { return errBroken }
				s.cluster.OnJob = func(string) error { return errBroken }
				s.send(message(1, 1, "assign 1"))
				s.send(message(2, 1, entry))
				if took := s.stopped(); took > 50*time.Second {
					t.Errorf("stopping took %s of the pod's 60 s", took)
				}
				if got := s.github.waiting(); !slices.Contains(got, 2) {
					t.Errorf("messages left: %v, want the one whose report did not get through", got)
				}
				if got := s.github.noted("close session session-1"); got != 1 {
					t.Errorf("calls of GitHub: %v, want the session closed", s.github.calls)
				}
			})
		})
	}
}

// GitHub holds a session whose polls it refuses until it is closed.
func TestStoppingClosesASessionThatWasGivenUp(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.github.onPoll = func() error { return &actions.Error{StatusCode: http.StatusConflict} }
		s.github.onOpen = func() error { return errBroken }
		s.pass(serving.PollHold + time.Minute)
		before := s.github.noted("close 1 session-1")
		s.stop()
		<-s.ended
		if got := s.github.noted("close 1 session-1"); s.github.noted("open 1") < 2 || got != before+1 {
			t.Errorf("closed %d times before the end and %d times after, want once more: %v", before, got, s.github.calls)
		}
	})
}

// The configuration has changed, and no client could be made from it yet.
func TestStoppingClosesASessionWhoseClientWasGivenUp(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.github.onConnect = func() error { return errBroken }
		s.reload(func(c *config.Config) { c.Credentials = &config.Credentials{Token: "second"} })
		s.github.onConnect = nil
		s.release()
		s.stop()
		<-s.ended
		if got := s.github.noted("close 1 session-1"); got != 1 {
			t.Errorf("calls of GitHub: %v, want the first session closed", s.github.calls)
		}
	})
}

func TestStoppingBeforeThereIsASession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onOpen = func() error { return errBroken }
		s.start()
		s.stop()
		<-s.ended
	})
}
