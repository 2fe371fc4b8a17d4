package scaling_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// Without a job there is no demand, and without capacity there is no job: a set whose jobs were cancelled while its
// runners failed must be given one, and at no moment may 0 be announced.
func TestFailingSetWithoutDemandIsGivenAJob(t *testing.T) {
	for name, shape := range map[string]roster.Runner{"degraded": failedOne, "outdated": outdated} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(3)
			s.add(3, shape)
			s.pass()
			s.publish(0)
			for _, later := range []time.Duration{0, time.Second, longestBackoff, time.Hour} {
				if got := s.status(s.later(later).pass()).Capacity; got == nil || *got != 1 {
					t.Errorf("capacity %v, want 1", got)
				}
			}
		})
	}
}

// The listener was down while three jobs ran: their runners were treated as idle until the reports came.
func TestLateReportsOfJobsEndDegradation(t *testing.T) {
	s := newScenario(5)
	ended := s.add(3, roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed,
		Reason: v1alpha1.ReasonRunnerExitedWithoutJob, RegistrationID: 7})
	if !s.degraded(s.pass()) {
		t.Fatal("the set is not degraded by three runners that exited without a job")
	}
	ended.HadJob, ended.Completed, ended.JobPatchID = true, true, s.patchID
	if p := s.pass(); s.degraded(p) || p.create != 5 {
		t.Errorf("degraded: %t, create %d after the report of a job, want no failures and so no pause, and 5",
			s.degraded(p), p.create)
	}
}

// GitHub refused to remove the runner because of its job, which nobody has reported.
func TestRunnerThatGitHubCalledBusyDidNotExitWithoutAJob(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.answer(r, registrations.Busy)
	ended := *r
	ended.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	s.runners[0] = &ended
	s.later(time.Second).pass()
	if p := s.later(settleGrace).publish(1).pass(); len(p.With(scaling.MarkFailed)) != 0 ||
		len(p.With(scaling.Delete)) != 1 {
		t.Errorf("treated as idle: %v, deleted: %v; want it deleted", names(p.With(scaling.MarkFailed)),
			names(p.With(scaling.Delete)))
	}
}

func TestRunnersRefusedTogetherAreOneTry(t *testing.T) {
	s := newScenario(10)
	s.add(10, outdated)
	if p := s.pass(); p.RequeueAt.Sub(s.now) != 5*time.Minute {
		t.Errorf("a probe in %s, want %s", p.RequeueAt.Sub(s.now), 5*time.Minute)
	}
}

// A runner is up for seconds before GitHub refuses it: until it has a job it is the one probe.
func TestProbeThatIsUpIsStillTheProbe(t *testing.T) {
	s := newScenario(10)
	s.add(1, outdated)
	s.pass()
	if p := s.later(5 * time.Minute).pass(); p.create != 1 {
		t.Fatalf("create %d when a probe is due, want 1", p.create)
	}
	s.add(1, idle)
	if p := s.later(time.Second).pass(); p.create != 0 {
		t.Errorf("create %d beside a probe that is up", p.create)
	}
}
