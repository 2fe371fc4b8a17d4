package listener

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// stray is a scenario in which GitHub counts two registrations more than there are runners.
func stray(s *scenario) {
	s.cluster.Set.Runners = cluster.RunnerCounts{Running: 1}
	s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 3, TotalIdleRunners: 1}
}

// The manager is told a single time, after three minutes, and again when they are gone. Nothing else of the status
// changes.
func TestStraysAreShownAfterThreeMinutes(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.pass(serving.PollHold)
		written, before := len(s.cluster.States), s.cluster.States[len(s.cluster.States)-1]
		stray(s)
		s.pass(3 * time.Minute)
		if got := s.cluster.States[written:]; len(got) != 0 {
			t.Fatalf("wrote %+v in the first three minutes", got)
		}
		s.pass(2 * serving.PollHold)
		after := before
		after.StrayRegistrations = 2
		if got := s.cluster.States[written:]; len(got) != 1 || !equality.Semantic.DeepEqual(got[0], after) {
			t.Fatalf("wrote %+v, want %+v", got, after)
		}
		s.pass(time.Hour)
		s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 1, TotalIdleRunners: 1}
		s.pass(2 * serving.PollHold)
		if got := s.cluster.States[written+1:]; len(got) != 1 || !equality.Semantic.DeepEqual(got[0], before) {
			t.Errorf("wrote %+v, want %+v", got, before)
		}
	})
}

// Registrations that GitHub removes late come and go. A figure without them starts the wait anew.
func TestStraysThatPassAreNotShown(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		for range 5 {
			stray(s)
			s.pass(3*time.Minute - serving.PollHold)
			s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 1, TotalIdleRunners: 1}
			s.pass(2 * serving.PollHold)
		}
		for _, status := range s.cluster.States {
			if status.StrayRegistrations != 0 {
				t.Errorf("wrote %+v", status)
			}
		}
	})
}

// The next process has no figures of its own yet: what its predecessor said no longer holds.
func TestANewProcessStartsWithoutStrays(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.Set.Listener = &v1alpha1.ListenerStatus{
			State: v1alpha1.ListenerStateListening, Reason: "Listening", StrayRegistrations: 2,
		}
		s.start()
		s.pass(time.Second)
		if last := s.cluster.States[len(s.cluster.States)-1]; last.StrayRegistrations != 0 ||
			last.State != v1alpha1.ListenerStateListening {
			t.Errorf("wrote %+v", last)
		}
	})
}

// A restore takes the set back in time. The listener, which lives on, writes everything that it had written.
func TestARestoredSetGetsEverything(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		old := s.cluster.Set
		s.pass(20 * serving.PollHold)
		newest := s.cluster.Last()
		old.SessionID, old.Listener = "older",
			&v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStarting, StrayRegistrations: 1}
		s.cluster.Set = old
		s.pass(2 * serving.PollHold)
		if got := s.cluster.Last(); got.PatchID <= newest.PatchID || got.SessionID != newest.SessionID {
			t.Errorf("published %+v after %+v", got, newest)
		}
		if last := s.cluster.States[len(s.cluster.States)-1]; last.State != v1alpha1.ListenerStateListening ||
			last.StrayRegistrations != 0 {
			t.Errorf("state %+v", last)
		}
	})
}

// Jobs that ended badly on runners that the cluster doesn't know are told, at most every ten seconds. A job that
// succeeded has lost nothing, and neither has one that only started.
func TestJobsOfUnknownRunnersAreToldInTheStatus(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.OnJob = func(runner string) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("ephemeralrunners").GroupResource(), runner)
		}
		s.start()
		s.pass(time.Minute)
		written := len(s.cluster.States)
		s.send(message(1, 0, "start 5 runner-a", "complete 6 runner-b"))
		s.pass(time.Second)
		if got := s.cluster.States[written:]; len(got) != 0 {
			t.Fatalf("wrote %+v about a job that succeeded", got)
		}
		for id := range int64(4) {
			lost := message(2+id, 0, fmt.Sprintf("complete %d runner-%d", 10+id, id))
			lost.JobsCompleted[0].Result = "failed"
			s.send(lost)
			s.pass(time.Second)
		}
		s.pass(10 * time.Second)
		got := s.cluster.States[written:]
		if len(got) != 2 || got[0].UnknownRunnerJobs.Count != 1 || got[1].UnknownRunnerJobs.Count != 4 ||
			got[1].State != v1alpha1.ListenerStateListening ||
			!strings.Contains(got[1].UnknownRunnerJobs.Last, "ended as failed on runner runner-3") {
			t.Errorf("wrote %+v", got)
		}
		s.pass(time.Hour)
		if again := s.cluster.States[written+2:]; len(again) != 0 {
			t.Errorf("wrote it again: %+v", again)
		}
	})
}
