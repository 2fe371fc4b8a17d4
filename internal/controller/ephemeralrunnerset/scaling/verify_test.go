package scaling_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

func TestIdleRunnerIsAskedAboutWhileJobsWait(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	if p := s.pass(); len(p.With(scaling.LookUp)) != 0 || p.RequeueAt.Sub(s.now) != idleGrace {
		t.Fatalf("asked at once about %v, again in %s", names(p.With(scaling.LookUp)), p.RequeueAt.Sub(s.now))
	}
	if p := s.later(idleGrace).pass(); len(p.With(scaling.LookUp)) != 1 {
		t.Fatal("want it asked about after 30 s")
	}
	s.answer(r, registrations.Missing)
	if p := s.later(registrations.MissingGrace - time.Second).pass(); len(p.With(scaling.LookUp)) != 0 {
		t.Error("asked again too early")
	}
	if p := s.later(time.Second).pass(); len(p.With(scaling.LookUp)) != 1 {
		t.Error("want it asked about again 15 s after the answer that it is missing")
	}
	s.answer(r, registrations.Missing)
	if p := s.pass(); len(p.With(scaling.Delete)) != 1 {
		t.Error("want it deleted after two answers 15 s apart")
	}
}

func TestIdleRunnerThatIsRegisteredIsAskedAboutAgainLater(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idleGrace).pass()
	s.answer(r, registrations.Registered)
	if p := s.later(askAgainInterval - time.Second).pass(); len(p.With(scaling.LookUp)) != 0 {
		t.Error("asked again within a minute")
	}
	if p := s.later(time.Second).pass(); len(p.With(scaling.LookUp)) != 1 {
		t.Error("want it asked about again after a minute")
	}
}

// A registration that is gone must be noticed before a job needs the runner: each is asked about every ten minutes, at
// a moment of its own, so that 500 cost 50 questions a minute, evenly, also after a restart of the manager.
func TestIdleRunnersAreAskedAboutInTurnsWhileNoJobWaits(t *testing.T) {
	const runners, minutes = 500, 40
	for name, restart := range map[string]bool{"all up at once": false, "manager restarted": true} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(runners)
			s.spec.AssignedJobs, s.numbers.Min = 0, runners
			s.add(runners, idle)
			s.pass()
			if restart {
				s.later(47 * time.Minute)
				s.History = scaling.New(&creations.Memory{})
				s.pass()
			}
			began, asked, last := s.now, make([]int, minutes), map[*roster.Runner]time.Time{}
			for second := range minutes * 60 {
				for _, r := range s.later(time.Second).pass().With(scaling.LookUp) {
					if before, again := last[r]; again && s.now.Sub(before) < askIdleInterval {
						t.Fatalf("%s is asked about again after %s", r.Name, s.now.Sub(before))
					}
					last[r] = s.now
					asked[second/60]++
					s.answer(r, registrations.Registered)
				}
				if age := s.now.Sub(began); age < newRegistrationAge && len(last) > 0 && !restart {
					t.Fatalf("asked about a runner that was registered %s ago", age)
				}
			}
			for minute, n := range asked[1:] {
				if n > 90 || (minute > 10 && n < 20) {
					t.Errorf("%d questions in minute %d, want about 50", n, minute+1)
				}
			}
		})
	}
}

func TestIdleRunnerWithoutRegistrationIsReplacedThoughNoJobWaits(t *testing.T) {
	s := newScenario(1)
	s.spec.AssignedJobs, s.numbers.Min = 0, 1
	r := s.add(1, idle)
	for {
		p := s.pass()
		asked := len(p.With(scaling.LookUp)) == 1
		if s.now.Sub(start) > askIdleInterval+newRegistrationAge+registrations.MissingGrace {
			t.Fatalf("not deleted after %s", s.now.Sub(start))
		}
		if len(p.With(scaling.Delete)) == 1 {
			break
		}
		if asked {
			s.answer(r, registrations.Missing)
			s.later(registrations.MissingGrace)
			continue
		}
		s.later(p.RequeueAt.Sub(s.now))
	}
}

// While GitHub limits the questions, none is asked about any runner, and those that have become due meanwhile are not
// all asked when the limit ends.
func TestGitHubsLimitHoldsAllQuestionsUp(t *testing.T) {
	const limit = 30 * time.Minute
	s := newScenario(100)
	s.spec.AssignedJobs, s.numbers.Min = 0, 100
	r := s.add(100, idle)
	s.add(1, busyOne) // the question about it is due after ten minutes
	s.pass()
	limited := &actions.RateLimitedError{Until: s.now.Add(limit), Err: &actions.Error{StatusCode: http.StatusForbidden}}
	s.ask(r, pool.Call[registrations.Answer]{Err: fmt.Errorf("ask GitHub: %w", limited)})
	for s.now.Before(start.Add(limit - time.Second)) {
		if p := s.later(time.Second).pass(); len(p.With(scaling.LookUp)) > 0 {
			t.Fatalf("asked about %v, %s before the limit ends", names(p.With(scaling.LookUp)), limited.Until.Sub(s.now))
		}
	}
	s.later(time.Minute)
	if p := s.pass(); len(p.With(scaling.LookUp)) == 0 || len(p.With(scaling.LookUp)) > 30 {
		t.Errorf("%d questions in the minute after the limit, want about 10", len(p.With(scaling.LookUp)))
	}
}

// The runners of minRunners exist for this job: the time that they were idle before it says nothing about them.
func TestIdleRunnersAreLeftAloneWhenAJobComesAfterALongTime(t *testing.T) {
	s := newScenario(5)
	s.spec.AssignedJobs, s.numbers.Min = 0, 5
	s.add(5, idle)
	s.pass()
	s.later(time.Hour).pass()
	for _, r := range s.runners {
		s.answer(r, registrations.Registered) // in their turn
	}
	s.later(time.Minute).pass()
	s.spec.AssignedJobs = 1
	if p := s.pass(); len(p.With(scaling.LookUp))+len(p.With(scaling.Deregister)) != 0 ||
		p.RequeueAt.Sub(s.now) != idleGrace {
		t.Fatalf("the job has just come: asked about %v, removing %v, again in %s", names(p.With(scaling.LookUp)),
			names(p.With(scaling.Deregister)), p.RequeueAt.Sub(s.now))
	}
	if p := s.later(idleGrace).pass(); len(p.With(scaling.LookUp)) != 5 || len(p.With(scaling.Deregister)) != 0 {
		t.Errorf("the job has waited for 30 s: asked about %v, removing %v", names(p.With(scaling.LookUp)),
			names(p.With(scaling.Deregister)))
	}
	if p := s.later(defaultRegistrationTimeout).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("the job has waited for more than the registration timeout: removing %v, want one replaced",
			names(p.With(scaling.Deregister)))
	}
}

func TestIdleRunnersThatWereAskedAboutAreLeftAloneWhenTheNextJobComes(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idleGrace).pass()
	s.answer(r, registrations.Registered)
	s.spec.AssignedJobs = 0
	s.later(askIdleInterval - time.Minute).pass()
	s.spec.AssignedJobs = 1
	if p := s.pass(); len(p.With(scaling.LookUp)) != 0 || p.RequeueAt.Sub(s.now) != idleGrace {
		t.Errorf("asked about %v, again in %s", names(p.With(scaling.LookUp)), p.RequeueAt.Sub(s.now))
	}
}

func TestRegistrationTimeout(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idleGrace).pass()
	if p := s.later(defaultRegistrationTimeout - time.Second).pass(); len(p.With(scaling.Deregister)) != 0 {
		t.Error("GitHub is asked to remove a runner too early")
	}
	s.answer(r, registrations.Registered)
	if p := s.later(time.Second).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Error("want GitHub asked to remove a runner that got no job for so long")
	}
}

func TestWorkingRunnerIsAskedAboutEveryTenMinutes(t *testing.T) {
	s := newScenario(1)
	s.add(1, busyOne)
	s.pass()
	if p := s.later(askWorkingInterval - time.Second).pass(); len(p.With(scaling.LookUp)) != 0 {
		t.Error("asked too early")
	}
	if p := s.later(time.Second).pass(); len(p.With(scaling.LookUp)) != 1 {
		t.Error("want a lost completion looked for")
	}
}

func TestCompletedRunnerThatLivesOnIsRemoved(t *testing.T) {
	s := newScenario(0)
	r := s.add(1, lingering)
	s.pass()
	if p := s.later(lingerGrace).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Fatal("want GitHub asked after a minute")
	}
	s.answer(r, registrations.Busy)
	if p := s.later(lingerGrace - time.Second).pass(); len(p.With(scaling.Deregister)) != 0 {
		t.Error("asked again within a minute")
	}
	if p := s.later(time.Second).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Error("want GitHub asked again after a minute")
	}
}

// A late report was about an earlier registration: none is recorded now, so there is no id to ask about. The runner
// must not count towards maxRunners forever.
func TestCompletedRunnerWithoutARecordedRegistrationIsDeleted(t *testing.T) {
	for name, phase := range map[string]v1alpha1.EphemeralRunnerPhase{
		"no pod yet": "", "pending": v1alpha1.EphemeralRunnerPhasePending, "running": v1alpha1.EphemeralRunnerPhaseRunning,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1)
			s.spec.MaxRunners = new(1)
			shape := lingering
			shape.Phase, shape.RegistrationID = phase, 0
			s.add(1, shape)
			s.pass()
			p := s.later(lingerGrace - time.Second).pass()
			if len(p.going()) != 0 || p.RequeueAt.Sub(s.now) != time.Second {
				t.Errorf("within the minute: delete %v, again in %s", names(p.With(scaling.Delete)), p.RequeueAt.Sub(s.now))
			}
			if p := s.later(time.Second).pass(); len(p.With(scaling.Delete)) != 1 ||
				len(p.With(scaling.Deregister))+len(p.With(scaling.LookUp)) != 0 {
				t.Errorf("delete %v, ask about %v and %v; want it deleted", names(p.With(scaling.Delete)),
					names(p.With(scaling.Deregister)),
					names(p.With(scaling.LookUp)))
			}
		})
	}
}

// No question about a runner, of either kind, is asked before the time that GitHub has named.
func TestQuestionsWaitForAsLongAsGitHubWants(t *testing.T) {
	// longer than any pause of ours, and a failed runner is held for longer
	const wanted = askWorkingInterval + 2*time.Minute
	for name, test := range map[string]struct {
		shape    roster.Runner
		replicas int
	}{
		"surplus":           {shape: idle},
		"up without a job":  {shape: idle, replicas: 1},
		"working":           {shape: busyOne, replicas: 1},
		"completed":         {shape: lingering},
		"failed with a job": {shape: failedJob, replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(test.replicas)
			r := s.add(1, test.shape)
			s.pass()
			before := &actions.Error{StatusCode: http.StatusServiceUnavailable, RetryAt: s.now.Add(wanted)}
			s.ask(r, pool.Call[registrations.Answer]{Err: fmt.Errorf("ask GitHub: %w", before)})
			if got := s.outcomeOf(); got.after != wanted || (got.what != "deregister" && got.what != "look up") {
				t.Errorf("%v; want GitHub asked after %s", got, wanted)
			}
		})
	}
}

func TestQuestionWithoutAnswerIsRepeatedLater(t *testing.T) {
	s := newScenario(0)
	r := s.add(1, idle)
	s.pass()
	s.later(surplusPatience).publish(0).pass()
	s.ask(r, pool.Call[registrations.Answer]{Err: errNoAnswer})
	if p := s.pass(); len(p.With(scaling.Deregister)) != 0 {
		t.Error("GitHub is asked again at once")
	}
	if p := s.later(retryQuestionAfter).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Error("want GitHub asked again")
	}
}

// The runner that is kept idle while jobs are doubted is one of maxRunners, and a set that is drained keeps none.
func TestNoRunnerIsKeptBeyondMaxRunners(t *testing.T) {
	s := newScenario(3)
	s.add(3, idle)
	s.pass()
	s.later(idleGrace).pass()
	if doubted := s.doubted(s.later(defaultRegistrationTimeout).pass()); doubted != 3 {
		t.Fatalf("%d jobs are doubted", doubted)
	}
	s.spec.MaxRunners, s.spec.Replicas = new(0), 0
	s.pass()
	s.later(surplusPatience)
	s.patchID++
	if p := s.pass(); len(p.With(scaling.Deregister)) != 3 {
		t.Errorf("removing %v, want all", names(p.With(scaling.Deregister)))
	}
}

// That a user lowers minRunners says nothing about jobs: the first ones that do come to nothing are the first of which
// the set knows, and so the figures are believed anew after them.
func TestLowerLimitsAreNoDisappointment(t *testing.T) {
	s := newScenario(0)
	for range 4 {
		s.numbers.Min = 5
		s.add(6, idle)
		s.publish(1)
		s.spec.Replicas = 6
		s.pass()
		s.numbers.Min = 0
		s.later(time.Minute).publish(0).pass()
		s.later(surplusPatience).publish(0).pass()
		s.later(time.Second).pass()
		s.runners = nil
		s.later(time.Hour).publish(0).pass()
	}
	if doubted := s.doubted(s.publish(1).pass()); doubted != 0 {
		t.Errorf("%d jobs are doubted at once", doubted)
	}
	s.add(2, idle)
	s.publish(2).pass()
	s.later(idleGrace).pass()
	if doubted := s.doubted(s.later(defaultRegistrationTimeout).pass()); doubted != 2 {
		t.Fatalf("%d jobs are doubted that have waited beside idle runners", doubted)
	}
	s.publish(0).pass()
	s.later(figuresSettleGrace).pass()
	if doubted := s.doubted(s.publish(2).pass()); doubted != 0 {
		t.Errorf("%d jobs are doubted at once after the first that came to nothing", doubted)
	}
}

func TestNewRegistrationIsNotMissingBecauseTheFormerWas(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idleGrace).pass()
	s.answer(r, registrations.Missing)
	r.RegistrationID++
	s.later(registrations.MissingGrace).pass()
	s.answer(r, registrations.Missing)
	if p := s.pass(); len(p.With(scaling.Delete)) != 0 {
		t.Errorf("deleted after one answer about its registration")
	}
}

func TestWaitForAJobBeginsWithThePod(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	r.Phase = v1alpha1.EphemeralRunnerPhasePending
	s.later(defaultRegistrationTimeout - time.Second).pass()
	r.Phase = v1alpha1.EphemeralRunnerPhaseRunning
	s.later(time.Minute)
	if p := s.pass(); len(p.With(scaling.Deregister))+len(p.With(scaling.LookUp)) != 0 {
		t.Errorf("removed %v, asked about %v as soon as it was up again", names(p.With(scaling.Deregister)),
			names(p.With(scaling.LookUp)))
	}
	if p := s.later(idleGrace).pass(); len(p.With(scaling.LookUp)) != 1 {
		t.Error("want it asked about after 30 s")
	}
}
