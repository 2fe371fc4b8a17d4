package listener

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

func TestStrayRegistrations(t *testing.T) {
	for name, test := range map[string]struct {
		registered, busy, idle int
		known                  RunnerCounts
		want                   int
	}{
		"nothing":                            {},
		"all known":                          {registered: 7, busy: 3, idle: 2, known: RunnerCounts{Pending: 2, Running: 5}},
		"strays":                             {registered: 9, busy: 3, idle: 2, known: RunnerCounts{Pending: 2, Running: 5}, want: 2},
		"strays while runners start":         {registered: 4, idle: 1, known: RunnerCounts{Pending: 2, Running: 1}, want: 1},
		"runners that had a job":             {registered: 9, busy: 9, known: RunnerCounts{Running: 5}},
		"the manager has not counted yet":    {registered: 5, idle: 5},
		"a runner is down and another known": {registered: 5, idle: 4, known: RunnerCounts{Running: 5}},
		"GitHub does not say who is idle":    {registered: 5, known: RunnerCounts{Running: 5}},
		"no figures at all":                  {known: RunnerCounts{Running: 5}},
		"nonsense":                           {registered: -3, busy: -9, idle: -9, known: RunnerCounts{Running: 1}},
	} {
		statistics := actions.Statistics{TotalRegisteredRunners: test.registered, TotalBusyRunners: test.busy, TotalIdleRunners: test.idle}
		if got := strayRegistrations(&statistics, test.known); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// stray is a scenario in which GitHub counts two registrations more than there are runners.
func stray(s *scenario) {
	s.cluster.set.Runners = RunnerCounts{Running: 1}
	s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 3, TotalIdleRunners: 1}
}

// The manager is told once, after three minutes, and once more when they are gone. Nothing else of the status changes.
func TestStraysAreShownAfterThreeMinutes(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		s.pass(pollHoldPeriod)
		written, before := len(s.cluster.states), s.cluster.states[len(s.cluster.states)-1]
		stray(s)
		s.pass(straysAfter)
		if got := s.cluster.states[written:]; len(got) != 0 {
			t.Fatalf("wrote %+v in the first three minutes", got)
		}
		s.pass(2 * pollHoldPeriod)
		after := before
		after.StrayRegistrations = 2
		if got := s.cluster.states[written:]; len(got) != 1 || got[0] != after {
			t.Fatalf("wrote %+v, want %+v", got, after)
		}
		s.pass(time.Hour)
		s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 1, TotalIdleRunners: 1}
		s.pass(2 * pollHoldPeriod)
		if got := s.cluster.states[written+1:]; len(got) != 1 || got[0] != before {
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
			s.pass(straysAfter - pollHoldPeriod)
			s.github.statistics = &actions.Statistics{TotalRegisteredRunners: 1, TotalIdleRunners: 1}
			s.pass(2 * pollHoldPeriod)
		}
		for _, status := range s.cluster.states {
			if status.StrayRegistrations != 0 {
				t.Errorf("wrote %+v", status)
			}
		}
	})
}

// The next process has no figures of its own yet: what its predecessor said no longer holds.
func TestANewProcessStartsWithoutStrays(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.set.Listener = &v1alpha1.ListenerStatus{
			State: v1alpha1.ListenerStateListening, Reason: reasonListening, StrayRegistrations: 2,
		}
		s.start()
		s.pass(time.Second)
		if last := s.cluster.states[len(s.cluster.states)-1]; last.StrayRegistrations != 0 || last.State != v1alpha1.ListenerStateListening {
			t.Errorf("wrote %+v", last)
		}
	})
}

// A restore takes the set back in time. The listener, which lives on, writes everything that it had written.
func TestARestoredSetGetsEverything(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.start()
		old := s.cluster.set
		s.pass(20 * pollHoldPeriod)
		newest := s.cluster.last()
		old.SessionID, old.Listener = "older", &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateStarting, StrayRegistrations: 1}
		s.cluster.set = old
		s.pass(2 * pollHoldPeriod)
		if got := s.cluster.last(); got.PatchID <= newest.PatchID || got.SessionID != newest.SessionID {
			t.Errorf("published %+v after %+v", got, newest)
		}
		if last := s.cluster.states[len(s.cluster.states)-1]; last.State != v1alpha1.ListenerStateListening || last.StrayRegistrations != 0 {
			t.Errorf("state %+v", last)
		}
	})
}

// Jobs that ended badly on runners that the cluster doesn't know are told, at most every ten seconds. A job that succeeded has lost
// nothing, and neither has one that only started.
func TestJobsOfUnknownRunnersAreToldInTheStatus(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.onJob = func(runner string) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("ephemeralrunners").GroupResource(), runner)
		}
		s.start()
		s.pass(time.Minute)
		written := len(s.cluster.states)
		s.send(message(1, 0, "start 5 runner-a", "complete 6 runner-b"))
		s.pass(time.Second)
		if got := s.cluster.states[written:]; len(got) != 0 {
			t.Fatalf("wrote %+v about a job that succeeded", got)
		}
		for id := range int64(4) {
			lost := message(2+id, 0, fmt.Sprintf("complete %d runner-%d", 10+id, id))
			lost.JobsCompleted[0].Result = "failed"
			s.send(lost)
			s.pass(time.Second)
		}
		s.pass(detailsInterval)
		got := s.cluster.states[written:]
		if len(got) != 2 || got[0].UnknownRunnerJobs.Count != 1 || got[1].UnknownRunnerJobs.Count != 4 ||
			got[1].State != v1alpha1.ListenerStateListening || !strings.Contains(got[1].UnknownRunnerJobs.Last, "ended as failed on runner runner-3") {
			t.Errorf("wrote %+v", got)
		}
		s.pass(time.Hour)
		if again := s.cluster.states[written+2:]; len(again) != 0 {
			t.Errorf("wrote it again: %+v", again)
		}
	})
}
