package listener

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

var errBroken = errors.New("broken")

func TestTheBeginningIsPublishedWithTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(3)
		s.file.MinRunners = 1
		s.start()
		want := Publication{Desired{Replicas: 4, PatchID: 7 + reservedPatchIDs + 1, AssignedJobs: 3}, "session-1"}
		if diff := cmp.Diff([]Publication{want}, s.cluster.published); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

func TestUnchangedReplicasArePublishedEveryThreeSecondsAtMost(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		for id := range int64(20) {
			s.send(message(id+1, 0, "complete 1"))
			s.pass(300 * time.Millisecond)
		}
		want := []string{"0s publish 0 #1001", "3s publish 0 #1011", "6s publish 0 #1021"}
		if diff := cmp.Diff(want, s.cluster.calls); diff != "" {
			t.Errorf("calls of the API server (-want +got):\n%s", diff)
		}
	})
}

func TestStatisticsAreReadAfreshTenSecondsAfterTheLastMessage(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 2, "assign 1", "assign 2"))
		s.github.statistics = statistics(1)
		s.pass(9 * time.Second)
		if got := s.cluster.last().Replicas; got != 2 {
			t.Errorf("replicas = %d before the 10 s are over, want 2", got)
		}
		s.pass(time.Second)
		if got := s.cluster.last(); got.Replicas != 1 || s.github.noted("read") != 1 {
			t.Errorf("published %+v after %d reads, want one replica after one read", got, s.github.noted("read"))
		}
	})
}

func TestAnIdleListenerWritesOncePerPoll(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		before := len(s.cluster.calls)
		s.pass(10 * pollHoldPeriod)
		if got := len(s.cluster.calls) - before; got != 10 {
			t.Errorf("%d writes in 10 polls, want 10", got)
		}
		if got := s.github.noted("read"); got != 10 {
			t.Errorf("%d reads of the scale set in 10 polls, want 10", got)
		}
		if len(s.cluster.states) != 2 {
			t.Errorf("states written: %v, want Starting and Listening", s.cluster.states)
		}
	})
}

func TestUnreadStatisticsPromiseNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 2, "assign 1", "assign 2"))
		published := s.cluster.publications()
		s.github.onRead = func() error { return errBroken }
		s.pass(40 * time.Second)
		if got := s.cluster.publications(); got != published {
			t.Errorf("%d publications without statistics", got-published)
		}
		s.github.onRead = nil
		s.pass(maxPause)
		if got := s.cluster.publications(); got == published {
			t.Error("nothing was published once the statistics could be read")
		}
	})
}

func TestAFailedPublicationIsRepeatedWithNewStatistics(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		failing := true
		s.cluster.onPublish = func() error {
			if failing {
				return errBroken
			}
			return nil
		}
		s.send(message(1, 2, "assign 1", "assign 2"))
		s.pass(failureGracePeriod + maxPause + time.Second)
		if got := s.cluster.state(); got != "Retrying/PublishFailed" {
			t.Errorf("state = %s while it fails", got)
		}
		s.github.statistics = statistics(5)
		failing = false
		s.pass(maxPause + time.Second)
		if got := s.cluster.last(); got.Replicas != 5 {
			t.Errorf("published %+v, want the 5 jobs of statistics read after the failure", got)
		}
		if slices.ContainsFunc(s.cluster.published, func(p Publication) bool { return p.Replicas == 2 }) {
			t.Errorf("published %+v: the count from before the failure is old", s.cluster.published)
		}
		if got := s.cluster.state(); got != "Listening/Listening" {
			t.Errorf("state = %s", got)
		}
	})
}

// The manager deletes a runner whose job has ended, and would replace it while the count still includes the job.
func TestEndsOfJobsWaitForAPublicationThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		failing time.Duration
		ended   bool
	}{"for a while": {maxHold - time.Minute, false}, "for too long": {maxHold + time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				s.send(message(1, 2, "start 1 a", "start 2 b"))
				s.cluster.onPublish = func() error { return errBroken }
				s.send(message(2, 1, "assign 3"))
				s.pass(maxPublishPause)
				s.send(message(3, 1, "complete 1 a", "start 3 c"))
				s.pass(test.failing)
				if got := s.cluster.job("a").JobResult != ""; got != test.ended || s.cluster.job("c").JobID == "" {
					t.Errorf("the end is reported: %t, want %t; the start: %+v", got, test.ended, s.cluster.job("c"))
				}
				s.cluster.onPublish = nil
				s.pass(maxPublishPause)
				if s.cluster.job("a").JobResult == "" {
					t.Error("the end is not reported once the count is published")
				}
			})
		})
	}
}

func TestPublicationsGoOnWhileOneHangs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		s.cluster.onPublish = func() error { <-release; return nil }
		s.send(message(1, 1, "assign 1"))
		s.send(message(2, 4, "assign 2"))
		s.send(message(3, 6, "assign 3"))
		close(release)
		s.pass(0)
		if got := s.cluster.last().Replicas; got != 6 {
			t.Errorf("replicas = %d, want the last count, 6", got)
		}
		if got := s.cluster.publications(); got != 3 {
			t.Errorf("%d publications, want 3: the beginning, the one that hung, the last", got)
		}
	})
}

func TestCapacityFollowsTheSetWhileItCannotRunJobs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		running := 2
		s.cluster.set.Capacity = &running
		s.start()
		if got := s.github.lastPollAt().capacity; got != 2 {
			t.Errorf("capacity = %d, want the 2 the set allows", got)
		}
		s.cluster.set.Capacity = nil
		s.pass(2 * pollHoldPeriod)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d once the set is well, want maxRunners", got)
		}
		more := 50
		s.cluster.set.Capacity = &more
		s.pass(2 * pollHoldPeriod)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d, want no more than maxRunners", got)
		}
	})
}

func TestWhenAPublicationIsDue(t *testing.T) {
	last := Publication{Desired{Replicas: 2, PatchID: 5, AssignedJobs: 2}, "session"}
	written, forced := publicationState{last: last, lastAt: noon}, publicationState{last: last, lastAt: noon, force: true}
	change := func(f func(*Publication)) Publication {
		want := last
		f(&want)
		return want
	}
	for name, test := range map[string]struct {
		state publicationState
		want  Publication
		at    time.Time
		due   bool
	}{
		"first":             {publicationState{}, last, time.Time{}, true},
		"no change":         {written, last, time.Time{}, false},
		"replicas":          {written, change(func(p *Publication) { p.Replicas++ }), time.Time{}, true},
		"session":           {written, change(func(p *Publication) { p.SessionID = "next" }), time.Time{}, true},
		"patchID":           {written, change(func(p *Publication) { p.PatchID++ }), noon.Add(publishInterval), true},
		"patchID, forced":   {forced, change(func(p *Publication) { p.PatchID++ }), time.Time{}, true},
		"jobs at the limit": {written, change(func(p *Publication) { p.AssignedJobs++ }), noon.Add(publishInterval), true},
	} {
		t.Run(name, func(t *testing.T) {
			at, due := test.state.due(test.want)
			if due != test.due || !at.Equal(test.at) {
				t.Errorf("due = %v at %v, want %v at %v", due, at, test.due, test.at)
			}
		})
	}
}

func TestASessionWithoutStatisticsHasThemReadAtOnce(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.silent = true
		s.github.statistics = statistics(3)
		s.start()
		if got := s.cluster.last().Replicas; got != 3 {
			t.Errorf("replicas = %d at the beginning, want 3", got)
		}
	})
}

// Statistics that were requested before a message came are older than the message.
func TestStatisticsOfAMessageAreNotUndoneByOlderOnes(t *testing.T) {
	inBubble(t, func(s *scenario) {
		release := make(chan struct{})
		s.github.onRead = func() error { <-release; return nil }
		s.start()
		s.send(message(1, 1, "assign 1"))
		s.pass(refreshAfter + time.Second) // the statistics are being read
		s.send(message(2, 4, "assign 2"))
		s.github.statistics = statistics(1)
		s.release()
		close(release)
		s.pass(time.Second)
		if got := s.cluster.last().Replicas; got != 4 {
			t.Errorf("replicas = %d, want the 4 of the message", got)
		}
	})
}

// The end of a job must not be reported to its runner before the count that reflects it is published.
func TestReportsWaitForThePublicationUnderWay(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		s.cluster.onPublish = func() error { <-release; return nil }
		s.send(message(1, 1, "complete 1 a", "assign 2"))
		s.pass(time.Second)
		if got := s.cluster.job("a").JobResult; got != "" {
			t.Errorf("the end %q was reported before the count was published", got)
		}
		close(release)
		s.pass(0)
		if got := s.cluster.job("a").JobResult; got != "succeeded" {
			t.Errorf("reported %q after the publication", got)
		}
	})
}

func TestNothingIsConcludedFromSilence(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = nil
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.published; len(got) != 0 {
			t.Errorf("published %+v without ever having seen statistics", got)
		}
		s.github.statistics = statistics(3)
		s.pass(maxPause)
		if got := s.cluster.last().Replicas; got != 3 {
			t.Errorf("replicas = %d, want 3", got)
		}
	})
}

// A set that was deleted by hand is recreated under the same name, without what was written into the old one.
func TestASetCreatedAnewGetsEverything(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.set.UID = "first"
		s.start()
		s.pass(time.Second)
		written, read := len(s.cluster.states), s.github.noted("read")
		s.cluster.set = RunnerSet{UID: "second"}
		s.pass(2 * pollHoldPeriod)
		if got := s.cluster.states[written:]; len(got) != 1 || got[0].State != v1alpha1.ListenerStateListening {
			t.Errorf("wrote %+v, want that the listener listens, once", got)
		}
		if got := s.github.noted("read") - read; got != 3 {
			t.Errorf("statistics were read %d times, want after both polls and for the new set", got)
		}
	})
}
