package scaling_test

import (
	"math"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// cancel has the listener publish that a job was cancelled, with the figure that goes with it.
func (s *scenario) cancel(jobs int) *scenario {
	s.canceled += jobs
	return s.publish(max(0, s.spec.AssignedJobs-jobs))
}

// A cancellation excuses as many runners as there were jobs, of those that there were, and no later ones: a wrong image
// is told all the same.
func TestCancellationsExcuseNoMoreRunnersThanJobs(t *testing.T) {
	for name, test := range map[string]struct {
		cancel func(*scenario)
		failed int
	}{
		"none":                         {func(*scenario) {}, 4},
		"of as many jobs":              {func(s *scenario) { s.cancel(4).pass() }, 0},
		"of fewer":                     {func(s *scenario) { s.cancel(3).pass() }, 1},
		"a moment later":               {func(s *scenario) { s.later(20 * time.Second).cancel(4).pass() }, 0},
		"minutes later":                {func(s *scenario) { s.later(50 * time.Second).cancel(4).pass() }, 4},
		"of a number that nobody has":  {func(s *scenario) { s.cancel(math.MaxInt).pass() }, 0},
		"of one below the last number": {func(s *scenario) { s.cancel(-4).pass() }, 4},
	} {
		s := newScenario(4)
		first := s.made
		s.add(4, exited)
		s.pass()
		test.cancel(s)
		s.later(settleGrace).publish(0).pass()
		for range 4 {
			s.later(askExitedInterval)
			p := s.pass()
			for _, r := range p.With(scaling.LookUp) {
				s.answer(r, registrations.Registered)
			}
		}
		p := s.pass()
		if got := len(p.With(scaling.MarkFailed)); got != test.failed || s.made-first != 4 {
			t.Errorf("%s: %d runners have failed, want %d", name, got, test.failed)
		}
	}
}

// Each cancelled job excuses a single runner: when the last one is used up, runners without a job are failures again.
func TestCancellationsAreUsedUp(t *testing.T) {
	s := newScenario(8)
	s.add(8, exited)
	s.pass()
	s.cancel(4).pass() // of four of the eight
	s.later(settleGrace).publish(8).pass()
	for range 4 {
		for _, r := range s.later(askExitedInterval).pass().With(scaling.LookUp) {
			s.answer(r, registrations.Registered)
		}
	}
	p := s.pass()
	failed := p.With(scaling.MarkFailed)
	if len(failed) != 4 {
		t.Errorf("%d of eight runners have failed, want those beyond the four cancelled jobs", len(failed))
	}
	for _, r := range failed {
		r.Phase, r.Reason = failedOne.Phase, "RunnerExitedWithoutJob"
	}
	if p := s.pass(); !s.degraded(p) {
		t.Error("the set is not degraded, although four runners failed that nothing excuses")
	}
}

func TestRunnersThatCameAfterTheCancellationAreNotExcused(t *testing.T) {
	s := newScenario(4)
	s.pass()
	s.cancel(4).pass()
	s.later(time.Second).add(4, exited)
	s.publish(4).pass()
	s.later(settleGrace).publish(4).pass()
	if p := s.pass(); len(p.With(scaling.LookUp)) != 4 || p.create != 0 {
		t.Errorf("%d questions, %d creations, want GitHub to be asked about all, and none", len(p.With(scaling.LookUp)),
			p.create)
	}
}

// Runners that wait healthily while no job was cancelled are as many as are counted on; GitHub may take its time.
func TestIdleRunnersAreCountedOnWhileNoJobWasCancelled(t *testing.T) {
	for _, canceled := range []int{0, 2} {
		s := newScenario(0)
		s.add(3, idle)
		s.pass()
		s.later(time.Second).cancel(canceled).pass()
		s.later(time.Second).publish(3).pass()
		if p := s.later(2 * time.Second).pass(); p.create != canceled {
			t.Errorf("%d jobs cancelled: %d runners beside 3 idle ones", canceled, p.create)
		}
	}
}

// maxRunners leaves no room beside runners that hang: GitHub is asked to remove these as soon as jobs wait.
func TestRunnersThatHangGiveTheirRoom(t *testing.T) {
	s := newScenario(0)
	s.spec.MaxRunners = new(3)
	s.numbers = inForce(0, 3)
	s.add(3, idle)
	s.pass()
	s.later(20 * time.Second).cancel(3).pass()
	s.later(time.Second).publish(3).pass()
	p := s.later(2 * time.Second).pass()
	if p.create != 0 || len(p.With(scaling.Deregister)) != 3 {
		t.Fatalf("%d created, %d removed, want none, and all", p.create, len(p.With(scaling.Deregister)))
	}
	for _, r := range p.With(scaling.Deregister) {
		s.answer(r, registrations.Busy) // it is not known of what
	}
	if p = s.pass(); len(p.going()) != 0 {
		t.Errorf("%v go although GitHub says that they have a job", names(p.going()))
	}
	if p = s.later(askAgainInterval).pass(); len(p.With(scaling.Deregister)) != 3 {
		t.Errorf("GitHub is asked again about %d", len(p.With(scaling.Deregister)))
	}
}

// A runner may be seen up only after its job was cancelled. It hangs if jobs wait beside it for longer than a report of
// a job of its own can take; one that was created after the cancellation doesn't, nor does one more than were cancelled.
func TestRunnersThatAreSeenUpAfterTheCancellationHang(t *testing.T) {
	for name, test := range map[string]struct {
		canceled, after, create int // jobs; runners that were created after that; runners in the place of those that hang
	}{
		"all of them":               {4, 0, 4},
		"as many as were cancelled": {3, 0, 3},
		"none that came later":      {4, 4, 0},
	} {
		s := newScenario(4)
		before := 4 - test.after
		s.add(before, starting)
		s.pass()
		s.later(time.Second).cancel(test.canceled).pass()
		s.later(time.Second).add(test.after, starting)
		s.publish(4).pass()
		s.later(time.Second)
		for i, r := range s.runners {
			up := with(*r, func(r *roster.Runner) { r.Phase, r.RegistrationID = idle.Phase, idle.RegistrationID })
			s.runners[i] = &up
		}
		s.pass()
		if p := s.later(provenGrace - time.Second).pass(); p.create != 0 || p.RequeueAt.After(s.now.Add(time.Second)) {
			t.Errorf("%s: %d created before it is known, planned again at %s", name, p.create, p.RequeueAt)
		}
		if p := s.later(time.Second).pass(); p.create != test.create {
			t.Errorf("%s: %d created, want %d", name, p.create, test.create)
		}
		if p := s.pass(); p.create != test.create {
			t.Errorf("%s: the same pass again creates %d, want %d", name, p.create, test.create)
		}
	}
}

// That a runner hangs is not forgotten while no job happens to wait, or the same pass would find it idle again.
func TestARunnerThatHangsStaysOne(t *testing.T) {
	s := newScenario(0)
	s.add(2, idle)
	s.pass()
	s.later(20 * time.Second).cancel(2).pass()
	s.later(time.Second).publish(2).pass()
	s.later(2 * time.Second).pass()
	s.publish(0).pass()
	if p := s.publish(2).pass(); p.create != 2 {
		t.Errorf("%d created beside two that hang", p.create)
	}
}
