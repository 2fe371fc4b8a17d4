package listener

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

var errBroken = errors.New("broken")

func TestTheBeginningIsPublishedWithTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.statistics = statistics(3)
		s.file.MinRunners = 1
		s.start()
		want := cluster.Publication{
			Desired:   cluster.Desired{Replicas: 4, PatchID: 7 + 1001, AssignedJobs: 3},
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
		s.pass(longestPause)
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
		s.pass(30*time.Second + longestPause + time.Second)
		if got := s.cluster.State(); got != "Retrying/PublishFailed" {
			t.Errorf("state = %s while it fails", got)
		}
		s.github.statistics = statistics(5)
		failing = false
		s.pass(longestPause + time.Second)
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
	}{"for a while": {4 * time.Minute, false}, "for too long": {6 * time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.start()
				s.send(message(1, 2, "start 1 a", "start 2 b"))
				attempts := 0
				s.cluster.OnPublish = func() error { attempts++; return errBroken }
				s.send(message(2, 1, "assign 3"))
				s.pass(7 * time.Second)
				s.send(message(3, 1, "complete 1 a", "start 3 c"))
				s.pass(test.failing)
				if got := s.cluster.Job("a").JobResult != ""; got != test.ended || s.cluster.Job("c").JobID == "" {
					t.Errorf("the end is reported: %t, want %t; the start: %+v", got, test.ended, s.cluster.Job("c"))
				}
				// Pauses grow to 7 s, and chance halves them at most.
				if least, most := int(test.failing/(7*time.Second)), int(test.failing/(3*time.Second)); attempts < least ||
					attempts > most {
					t.Errorf("%d attempts in %s, want %d to %d", attempts, test.failing, least, most)
				}
				s.cluster.OnPublish = nil
				s.pass(7 * time.Second)
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

// beginning is what the table below expects of every set: its first publication.
const beginning = "0s publish 2 #1001"

// Another count or session is written immediately, another patchID alone only if somebody waits for it, and then 3 s
// after the write before. 10 s after a message the statistics are read again and written in any case, so each row ends
// before that. What is surplus is acted on 30 s after fewer are wanted, or some seconds later: somebody waits for 45 s.
func TestWhenAPublicationIsDue(t *testing.T) {
	two := cluster.RunnerCounts{Pending: 1, Running: 1}
	three := cluster.RunnerCounts{Pending: 1, Running: 2}
	for name, test := range map[string]struct {
		runners cluster.RunnerCounts
		play    func(s *scenario) // from 1 s on
		want    []string
	}{
		"no change": {two, func(*scenario) {}, []string{beginning}},
		"replicas":  {two, sending(message(1, 3, "assign 3")), []string{beginning, "1s publish 3 #1002"}},
		"session":   {two, func(s *scenario) { s.github.evict() }, []string{beginning, "1s publish 2 #1002"}},
		"patchID, forced": {two, func(s *scenario) {
			bare := message(1, 2, "start 1 a")
			bare.Statistics = nil // they are read immediately
			s.send(bare)
		}, []string{beginning, "1s publish 2 #1002"}},
		"patchID for nobody": {two, sending(message(1, 2, "start 1 a")), []string{beginning}},
		"patchID, the end of a job is reported": {
			two, sending(message(1, 2, "complete 1 a")), []string{beginning, "3s publish 2 #1002"},
		},
		"patchID, and a covered end": {two, func(s *scenario) {
			s.send(message(1, 2, "complete 1 a"))
			s.pass(4 * time.Second)
			s.send(message(2, 2, "start 2 b"))
		}, []string{beginning, "3s publish 2 #1002"}},
		"patchID, more runners than are wanted": {
			three, sending(message(1, 2, "start 1 a")), []string{beginning, "3s publish 2 #1002"},
		},
		"patchID, fewer runners wanted just now": {cluster.RunnerCounts{}, func(s *scenario) {
			s.send(message(1, 1, "start 1 a"))
			s.pass(time.Second)
			s.send(message(2, 1, "start 2 b"))
			s.pass(43 * time.Second)
			s.send(message(3, 1, "start 3 c"))
		}, []string{
			beginning, "1s publish 1 #1002", "4s publish 1 #1003", "12s publish 1 #1004", "45s publish 1 #1005",
		}},
		"patchID, as many runners as wanted": {cluster.RunnerCounts{}, func(s *scenario) {
			s.send(message(1, 1, "start 1 a"))
			s.pass(46 * time.Second)
			s.send(message(2, 1, "start 2 b"))
		}, []string{beginning, "1s publish 1 #1002", "11s publish 1 #1003"}},
		"jobs at the limit": {two, func(s *scenario) {
			s.reload(func(c *config.Config) { c.MaxRunners = 2 })
			s.send(message(1, 3, "assign 3"))
		}, []string{beginning, "3s publish 2 #1002"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.cluster.Set.Runners, s.github.statistics = test.runners, statistics(2)
				s.start()
				s.pass(time.Second)
				test.play(s)
				s.pass(9 * time.Second)
				published := slices.DeleteFunc(slices.Clone(s.cluster.Calls), func(call string) bool {
					return !strings.Contains(call, "publish")
				})
				if diff := cmp.Diff(test.want, published); diff != "" {
					t.Errorf("calls of the API server (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// sending returns a step that sends a message.
func sending(message *actions.Message) func(*scenario) {
	return func(s *scenario) { s.send(message) }
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
		s.pass(11 * time.Second) // the statistics are being read
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
		s.pass(longestPause)
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
