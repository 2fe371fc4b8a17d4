package listener

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/failure"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

var (
	errBroken = errors.New("broken")
	noon      = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

func TestTheBeginningIsPublishedWithTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(3)
		s.file.MinRunners = 1
		s.start()
		want := cluster.Publication{
			Desired:   cluster.Desired{Replicas: 4, PatchID: 7 + scaling.ReservedPatchIDs + 1, AssignedJobs: 3},
			SessionID: "session-1",
		}
		if diff := cmp.Diff([]cluster.Publication{want}, s.cluster.Published); diff != "" {
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
		if diff := cmp.Diff(want, s.cluster.Calls); diff != "" {
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
		if got := s.cluster.Last().Replicas; got != 2 {
			t.Errorf("replicas = %d before the 10 s are over, want 2", got)
		}
		s.pass(time.Second)
		if got := s.cluster.Last(); got.Replicas != 1 || s.github.noted("read") != 1 {
			t.Errorf("published %+v after %d reads, want one replica after one read", got, s.github.noted("read"))
		}
	})
}

func TestAnIdleListenerWritesOncePerPoll(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		before := len(s.cluster.Calls)
		s.pass(10 * serving.PollHold)
		if got := len(s.cluster.Calls) - before; got != 10 {
			t.Errorf("%d writes in 10 polls, want 10", got)
		}
		if got := s.github.noted("read"); got != 10 {
			t.Errorf("%d reads of the scale set in 10 polls, want 10", got)
		}
		if len(s.cluster.States) != 2 {
			t.Errorf("states written: %v, want Starting and Listening", s.cluster.States)
		}
	})
}

func TestUnreadStatisticsPromiseNothing(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.send(message(1, 2, "assign 1", "assign 2"))
		published := s.cluster.Publications()
		s.github.onRead = func() error { return errBroken }
		s.pass(40 * time.Second)
		if got := s.cluster.Publications(); got != published {
			t.Errorf("%d publications without statistics", got-published)
		}
		s.github.onRead = nil
		s.pass(longestBackoff)
		if got := s.cluster.Publications(); got == published {
			t.Error("nothing was published once the statistics could be read")
		}
	})
}

func TestAFailedPublicationIsRepeatedWithNewStatistics(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		failing := true
		s.cluster.OnPublish = func() error {
			if failing {
				return errBroken
			}
			return nil
		}
		s.send(message(1, 2, "assign 1", "assign 2"))
		s.pass(failure.Grace + longestBackoff + time.Second)
		if got := s.cluster.State(); got != "Retrying/PublishFailed" {
			t.Errorf("state = %s while it fails", got)
		}
		s.github.statistics = statistics(5)
		failing = false
		s.pass(longestBackoff + time.Second)
		if got := s.cluster.Last(); got.Replicas != 5 {
			t.Errorf("published %+v, want the 5 jobs of statistics read after the failure", got)
		}
		if slices.ContainsFunc(s.cluster.Published, func(p cluster.Publication) bool { return p.Replicas == 2 }) {
			t.Errorf("published %+v: the count from before the failure is old", s.cluster.Published)
		}
		if got := s.cluster.State(); got != "Listening/Listening" {
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
				s.cluster.OnPublish = func() error { return errBroken }
				s.send(message(2, 1, "assign 3"))
				s.pass(longestPublishBackoff)
				s.send(message(3, 1, "complete 1 a", "start 3 c"))
				s.pass(test.failing)
				if got := s.cluster.Job("a").JobResult != ""; got != test.ended || s.cluster.Job("c").JobID == "" {
					t.Errorf("the end is reported: %t, want %t; the start: %+v", got, test.ended, s.cluster.Job("c"))
				}
				s.cluster.OnPublish = nil
				s.pass(longestPublishBackoff)
				if s.cluster.Job("a").JobResult == "" {
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
		s.cluster.OnPublish = func() error { <-release; return nil }
		s.send(message(1, 1, "assign 1"))
		s.send(message(2, 4, "assign 2"))
		s.send(message(3, 6, "assign 3"))
		close(release)
		s.pass(0)
		if got := s.cluster.Last().Replicas; got != 6 {
			t.Errorf("replicas = %d, want the last count, 6", got)
		}
		if got := s.cluster.Publications(); got != 3 {
			t.Errorf("%d publications, want 3: the beginning, the one that hung, the last", got)
		}
	})
}

func TestCapacityFollowsTheSetWhileItCannotRunJobs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		running := 2
		s.cluster.Set.Capacity = &running
		s.start()
		if got := s.github.lastPollAt().capacity; got != 2 {
			t.Errorf("capacity = %d, want the 2 the set allows", got)
		}
		s.cluster.Set.Capacity = nil
		s.pass(2 * serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d once the set is well, want maxRunners", got)
		}
		more := 50
		s.cluster.Set.Capacity = &more
		s.pass(2 * serving.PollHold)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("capacity = %d, want no more than maxRunners", got)
		}
	})
}

// While all that is announced is assigned, a listener reads its set twelve times a minute more than otherwise at most,
// whatever the set says meanwhile, and four times when that doesn't change any more.
func TestReadsOfAFullSetAreBounded(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 1000
		s.cluster.Set.Capacity, s.github.statistics = new(20), statistics(2000)
		s.start()
		for minute := range 10 {
			reads := s.cluster.Reads()
			for range 6 {
				s.cluster.Set.Capacity = new(20 + 10*minute)
				s.pass(10 * time.Second)
			}
			if got := s.cluster.Reads() - reads; got == 0 || got > 12 {
				t.Errorf("minute %d, in which there is more room: %d reads, want 1 to 12", minute, got)
			}
		}
		s.pass(time.Minute)
		reads := s.cluster.Reads()
		s.pass(10 * time.Minute)
		if got := s.cluster.Reads() - reads; got == 0 || got > 4*10 {
			t.Errorf("%d reads in ten minutes without a change, want 4 a minute at most", got)
		}
	})
}

// A set that announces what its cluster places is asked before the first poll, and while GitHub has assigned all that
// it was told of.
func TestRoomIsReadOfASetThatPlacesJobs(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 100
		s.start()
		if polls := s.github.pollTimes(); len(polls) > 0 {
			t.Errorf("polls at %v, before the set has said for how many jobs there is room", polls)
		}
		s.pass(5 * time.Second)
		s.cluster.Set.Capacity = new(20)
		s.pass(2 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 20 {
			t.Errorf("the first poll says %d, want 20", got)
		}
		reads := s.cluster.Reads()
		s.pass(5 * time.Minute)
		if more := s.cluster.Reads() - reads; more > 0 {
			t.Errorf("%d reads though there is room", more)
		}
		s.send(message(1, 20, "assign 1"))
		s.pass(2 * time.Second)
		s.cluster.Set.Capacity = new(50)
		s.pass(15 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 50 {
			t.Errorf("15 s later a poll says %d, want 50", got)
		}
	})
	inBubble(t, func(s *scenario) {
		s.file.PlacesJobs, s.file.MaxRunners = true, 100
		s.start()
		s.pass(11 * time.Second)
		if got := s.github.lastPollAt().capacity; got != 10 {
			t.Errorf("the set has said nothing for ten seconds, and the first poll says %d, want 10", got)
		}
	})
}

func TestWhenAPublicationIsDue(t *testing.T) {
	last := cluster.Publication{
		Desired:   cluster.Desired{Replicas: 2, PatchID: 5, AssignedJobs: 2},
		SessionID: "session",
	}
	written, forced := publicationState{last: last, lastAt: noon},
		publicationState{last: last, lastAt: noon, force: true}
	ended, surplus, fewer := written, written, written
	ended.owed, surplus.runners, fewer.fellAt = 6, 3, noon.Add(-surplusGrace+time.Second)
	covered, settled := written, written
	covered.owed, settled.runners, settled.fellAt = 5, 2, noon.Add(-surplusGrace)
	newer := func(p *cluster.Publication) { p.PatchID++ }
	change := func(f func(*cluster.Publication)) cluster.Publication {
		want := last
		f(&want)
		return want
	}
	for name, test := range map[string]struct {
		state publicationState
		want  cluster.Publication
		at    time.Time
		due   bool
	}{
		"first":     {publicationState{}, last, time.Time{}, true},
		"no change": {written, last, time.Time{}, false},
		"replicas": {
			written, change(func(p *cluster.Publication) { p.Replicas++ }), time.Time{}, true,
		},
		"session": {
			written, change(func(p *cluster.Publication) { p.SessionID = "next" }), time.Time{}, true,
		},
		"patchID, forced":                        {forced, change(newer), time.Time{}, true},
		"patchID for nobody":                     {written, change(newer), time.Time{}, false},
		"patchID, the end of a job is reported":  {ended, change(newer), noon.Add(publishInterval), true},
		"patchID, and a covered end":             {covered, change(newer), time.Time{}, false},
		"patchID, more runners than are wanted":  {surplus, change(newer), noon.Add(publishInterval), true},
		"patchID, fewer runners wanted just now": {fewer, change(newer), noon.Add(publishInterval), true},
		"patchID, as many runners as wanted":     {settled, change(newer), time.Time{}, false},
		"jobs at the limit": {
			written, change(func(p *cluster.Publication) { p.AssignedJobs++ }), noon.Add(publishInterval), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, due := test.state.due(test.want, noon)
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
		if got := s.cluster.Last().Replicas; got != 3 {
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
		s.pass(refreshInterval + time.Second) // the statistics are being read
		s.send(message(2, 4, "assign 2"))
		s.github.statistics = statistics(1)
		s.release()
		close(release)
		s.pass(time.Second)
		if got := s.cluster.Last().Replicas; got != 4 {
			t.Errorf("replicas = %d, want the 4 of the message", got)
		}
	})
}

// The end of a job must not be reported to its runner before the count that reflects it is published.
func TestReportsWaitForThePublicationUnderWay(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		release := make(chan struct{})
		s.cluster.OnPublish = func() error { <-release; return nil }
		s.send(message(1, 1, "complete 1 a", "assign 2"))
		s.pass(time.Second)
		if got := s.cluster.Job("a").JobResult; got != "" {
			t.Errorf("the end %q was reported before the count was published", got)
		}
		close(release)
		s.pass(0)
		if got := s.cluster.Job("a").JobResult; got != "succeeded" {
			t.Errorf("reported %q after the publication", got)
		}
	})
}

func TestNothingIsConcludedFromSilence(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = nil
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.Published; len(got) != 0 {
			t.Errorf("published %+v without ever having seen statistics", got)
		}
		s.github.statistics = statistics(3)
		s.pass(longestBackoff)
		if got := s.cluster.Last().Replicas; got != 3 {
			t.Errorf("replicas = %d, want 3", got)
		}
	})
}

// A set that was deleted by hand is recreated under the same name, without what was written into the old one.
func TestASetCreatedAnewGetsEverything(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.Set.UID = "first"
		s.start()
		s.pass(time.Second)
		written, read := len(s.cluster.States), s.github.noted("read")
		s.cluster.Set = cluster.RunnerSet{UID: "second"}
		s.pass(2 * serving.PollHold)
		if got := s.cluster.States[written:]; len(got) != 1 || got[0].State != v1alpha1.ListenerStateListening {
			t.Errorf("wrote %+v, want that the listener listens, once", got)
		}
		if got := s.github.noted("read") - read; got != 3 {
			t.Errorf("statistics were read %d times, want after both polls and for the new set", got)
		}
	})
}
