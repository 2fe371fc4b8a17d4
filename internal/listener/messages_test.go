package listener

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestAMessageIsPublishedReportedAndDeletedInThisOrder(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.pass(time.Second)
		s.send(message(100000001, 1, "assign 1"))
		s.pass(time.Second)
		s.send(message(100000002, 0, "complete 1 runner"))
		s.pass(0)
		want := []string{"0s publish 0 #1001", "1s publish 1 #1002", "2s publish 0 #1003", "2s report runner succeeded"}
		if diff := cmp.Diff(want, s.cluster.Calls); diff != "" {
			t.Errorf("calls of the API server (-want +got):\n%s", diff)
		}
		if s.github.noted("delete 100000001") != 1 || s.github.noted("delete 100000002") != 1 {
			t.Errorf("calls of GitHub: %v, want each message deleted once", s.github.calls)
		}
	})
}

func TestAReportCarriesThePatchIDThatReflectsIt(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 2, "start 1 a", "assign 2"))
		published := s.cluster.Last().PatchID
		got := s.cluster.Job("a")
		if got.JobPatchID != published {
			t.Errorf("jobPatchID = %d, want %d, published with the same statistics", got.JobPatchID, published)
		}
		if got.JobID != "job-1" || got.JobRequestID != 1 || got.JobRepositoryName != "org/repo" ||
			got.WorkflowRunID != 41 ||
			got.JobDisplayName != "build" || got.JobWorkflowRef == "" || got.JobResult != "" || got.FinishedAt != nil {
			t.Errorf("report of a start = %+v", got)
		}
	})
}

// One job ends and another comes: replicas stay the same, so nothing must be published immediately, but the slot of the
// first is freed only when the patchID in its report has been published.
func TestAWithheldPatchIDIsInTheReportAndPublishedNext(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.pass(time.Second)
		s.send(message(2, 1, "complete 1 a", "assign 2"))
		if got := s.cluster.Last().PatchID; got >= s.cluster.Job("a").JobPatchID {
			t.Fatalf("patchID %d was published at once", got)
		}
		s.pass(2 * time.Second)
		if got, want := s.cluster.Last().PatchID, s.cluster.Job("a").JobPatchID; got < want {
			t.Errorf("published patchID = %d 3 s after the one before, want at least %d of the report", got, want)
		}
	})
}

func TestReportsOfAMessageWithoutStatisticsWaitForTheNext(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 1, "start 1 a"))
		s.github.statistics = statistics(0)
		bare := message(2, 0, "complete 1 a")
		bare.Statistics = nil
		s.send(bare)
		s.pass(time.Second)
		if got := s.cluster.Last(); got.Replicas != 0 || got.PatchID < s.cluster.Job("a").JobPatchID {
			number := s.cluster.Job("a").JobPatchID
			t.Errorf("published %+v, want statistics read afresh under number %d of the report", got, number)
		}
	})
}

func TestStartAndEndInOneMessageAreOneReport(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 0, "start 1 a", "complete 1 a", "complete 2"))
		reports := slices.DeleteFunc(slices.Clone(s.cluster.Calls), func(call string) bool {
			return !strings.Contains(call, "report")
		})
		if diff := cmp.Diff([]string{"0s report a succeeded"}, reports); diff != "" {
			t.Errorf("reports, of which a job without a runner has none (-want +got):\n%s", diff)
		}
		if got := s.cluster.Job("a"); got.FinishedAt == nil || got.JobResult != "succeeded" {
			t.Errorf("report = %+v, want the result and when it came", got)
		}
	})
}

func TestWhenTheNextPollGoesOut(t *testing.T) {
	full := make([]string, 50)
	for i := range full {
		full[i] = "complete 1 a"
	}
	for name, test := range map[string]struct {
		entries []string
		want    time.Duration
	}{
		"offers":                     {[]string{"offer 1"}, time.Second},
		"assignments":                {[]string{"start 1 a", "assign 2"}, time.Second},
		"a full message":             {full, time.Second},
		"starts and completions":     {[]string{"start 1 a", "complete 2 b"}, 1200 * time.Millisecond},
		"a message without contents": {nil, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				s.pass(time.Second)
				s.send(message(1, 0, test.entries...))
				s.pass(time.Second)
				want := []string{at(0), at(test.want)}
				if diff := cmp.Diff(want, s.github.pollTimes()); diff != "" {
					t.Errorf("polls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A service without a message should hold a poll. One that answers immediately is polled five times a second.
func TestPollsThatAreNotHeldAreSpaced(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.immediatePolls = 1000
		s.start()
		s.pass(10*time.Second - time.Millisecond)
		if got := len(s.github.pollTimes()); got != 50 {
			t.Errorf("%d polls in 10 s, want 50", got)
		}
		if got := s.github.noted("read"); got > 4 {
			t.Errorf("statistics were read %d times in 10 s, want 4 at most: every 3 s", got)
		}
	})
}

func TestPollsCarryLastMessageAndCapacity(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(100000007, 1, "assign 1"))
		if got := s.github.lastPollAt(); got.lastID != 100000007 || got.capacity != 10 {
			t.Errorf("poll = %+v, want last message 100000007 and capacity 10", got)
		}
	})
}

func TestOnlySoManyMessagesAreUnderWay(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.start()
		for id := range int64(52) {
			s.github.enqueue(message(id+1, 1, "start 1 a", "assign 2"))
		}
		s.pass(5 * time.Second)
		if got := s.github.lastPollAt().lastID; got != 49 {
			t.Errorf("the last poll was after message %d, want it after 49: the 50th is the last that fits", got)
		}
		close(release)
		s.pass(time.Second)
		if got := s.github.waiting(); len(got) != 0 {
			t.Errorf("messages %v are left, want none once reports get through", got)
		}
	})
}

// A service that ignores lastMessageId answers with the same message until it is deleted.
func TestAMessageUnderWayIsNotHandledAgain(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.cluster.OnJob = func(string) error { <-release; return nil }
		s.github.heedless = true
		s.start()
		s.send(message(5, 1, "start 1 a", "assign 2"))
		s.pass(20 * time.Second)
		if got := len(s.github.pollTimes()); got != 2 {
			t.Errorf("%d polls went out, want the two that brought the message", got)
		}
		close(release)
		s.pass(time.Second)
		if s.github.noted("delete 5") != 1 || len(s.github.pollTimes()) != 3 {
			t.Errorf("calls of GitHub: %v, want one deletion and the next poll", s.github.calls)
		}
	})
}

// IDs may come in any order, and a deleted message may come again: it is handled again, and polls go on after the
// highest ID.
func TestMessagesOutOfOrderAndTwice(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.heedless = true
		s.start()
		for _, id := range []int64{7, 5, 7, 6} {
			s.send(message(id, 1, "start 1 a", "assign 2"))
			s.pass(time.Second)
		}
		// A poll that was answered before a deletion, but is heard of after it, brings the message again.
		if s.github.noted("delete 7") < 2 || s.github.noted("delete 5") < 1 || s.github.noted("delete 6") < 1 {
			t.Errorf("calls of GitHub: %v, want each message deleted as often as it came", s.github.calls)
		}
		if got := s.github.lastPollAt().lastID; got != 7 {
			t.Errorf("the last poll was after message %d, want 7", got)
		}
		if took, left := s.stopped(), s.github.waiting(); took > 0 || len(left) > 0 {
			t.Errorf("stopping took %s, messages left: %v; want nothing in hand", took, left)
		}
	})
}

func TestAMalformedMessageIsUsedAsFarAsItGoesAndDeleted(t *testing.T) {
	inBubble(t, func(s *scenario) {
		broken := true
		s.github.onPoll = func() error {
			if !broken {
				return nil
			}
			broken = false
			return &actions.MalformedMessageError{MessageID: 9, Message: message(9, 3), Err: errBroken}
		}
		s.start()
		if s.github.noted("delete 9") != 1 {
			t.Errorf("calls of GitHub: %v, want the message deleted", s.github.calls)
		}
		if got := s.cluster.Last().Replicas; got != 3 {
			t.Errorf("replicas = %d, want the 3 of its statistics", got)
		}
	})
}

// A GitHub whose answers can't be read costs no more than a GitHub that can't be reached.
func TestMessagesThatCantBeReadAreAskedForWithPauses(t *testing.T) {
	inBubble(t, func(s *scenario) {
		id := int64(0)
		s.github.onPoll = func() error {
			id++
			return &actions.MalformedMessageError{MessageID: id, Message: &actions.Message{ID: id}, Err: errBroken}
		}
		s.start()
		s.pass(time.Minute)
		if polls := len(s.github.pollTimes()); polls < 4 || polls > 15 {
			t.Errorf("%d polls in a minute, want pauses that grow to %s", polls, longestPause)
		}
		if deleted := s.github.noted("delete 4"); deleted != 1 {
			t.Errorf("calls of GitHub: %v, want each message deleted", s.github.calls)
		}
	})
}

func TestAMessageWithoutAnIDIsAskedForWithPauses(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onPoll = func() error {
			return &actions.MalformedMessageError{Message: &actions.Message{}, Err: errBroken}
		}
		s.start()
		s.pass(time.Minute)
		if polls := len(s.github.pollTimes()); polls < 4 || polls > 15 {
			t.Errorf("%d polls in a minute, want pauses that grow to %s", polls, longestPause)
		}
		if got := s.cluster.State(); got != "Retrying/MalformedMessage" {
			t.Errorf("state = %s", got)
		}
	})
}

// Small messages whose reports are slow don't keep an offer waiting while fewer than 50 wait.
func TestOffersDoNotWaitBehindStarts(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.OnJob = func(string) error { <-time.After(time.Second); return nil }
		s.start()
		for second := range 60 {
			for i := range 5 {
				id := int64(5*second + i + 1)
				s.send(message(id, 1, fmt.Sprintf("start %d a%d", 2*id, id), fmt.Sprintf("start %d b%d", 2*id+1, id)))
				s.pass(200 * time.Millisecond)
			}
		}
		s.send(message(1000, 1, "offer 5000"))
		s.pass(time.Second)
		if s.github.noted("acquire [5000]") != 1 {
			t.Errorf("the offer is not acquired; %d messages are under way", len(s.github.waiting()))
		}
	})
}

// At five messages a second, an offer behind 600 messages would be seen after 2 min, and runners would end before it is
// known that they had a job.
func TestAQueueOfOneEventMessagesIsReadQuickly(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.log = logr.Discard()
		s.start()
		for id := range int64(600) {
			s.github.enqueue(message(id+1, 0, fmt.Sprintf("complete %d runner-%d", id+1, id)))
		}
		s.github.enqueue(message(601, 0, "offer 9000"))
		s.pass(4 * time.Second)
		if got := s.github.waiting(); len(got) != 0 || s.github.noted("acquire [9000]") != 1 {
			t.Errorf("after 4 s %d messages are left", len(got))
		}
	})
}
