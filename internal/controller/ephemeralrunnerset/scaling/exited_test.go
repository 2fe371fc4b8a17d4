package scaling_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// exited is a runner that exited with code 0 without a report of any job.
var exited = roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseSucceeded, RegistrationID: 7}

// exitOne adds a runner that exited so long ago that its slot is free.
func (s *scenario) exitOne() *roster.Runner {
	r := s.add(1, exited)
	s.pass()
	s.later(settleGrace).publish(s.spec.Replicas)
	return r
}

func TestExitWithoutAKnownJobIsNotAnOutcomeWhileAReportMayCome(t *testing.T) {
	s := newScenario(1)
	s.add(1, exited)
	for _, later := range []time.Duration{0, settleGrace, explanationTimeout} {
		if p := s.later(later).pass(); len(p.about())+p.create != 0 {
			t.Errorf("before a newer figure: %+v", p)
		}
	}
}

// GitHub is asked about a runner that exited with code 0 without a known job, and its answer decides.
func TestExitWithoutAKnownJob(t *testing.T) {
	none := pool.Call[registrations.Answer]{Err: errNoAnswer}
	for name, test := range map[string]struct {
		change func(*scenario, *roster.Runner)
		// to questions half a minute apart, or later if the last one got no answer
		answers []pool.Call[registrations.Answer]
		want    string
	}{
		"not answered yet":               {want: "ask"},
		"record gone":                    {answers: []pool.Call[registrations.Answer]{answered(registrations.Missing)}, want: "delete"},
		"record there":                   {answers: []pool.Call[registrations.Answer]{answered(registrations.Registered)}, want: "wait"},
		"record there for half a minute": {answers: []pool.Call[registrations.Answer]{answered(registrations.Registered), answered(registrations.Registered)}, want: "wait"},
		"record there for a minute": {
			answers: []pool.Call[registrations.Answer]{answered(registrations.Registered), answered(registrations.Registered),
				answered(registrations.Registered)}, want: "fail",
		},
		"record gone later":      {answers: []pool.Call[registrations.Answer]{answered(registrations.Registered), answered(registrations.Missing)}, want: "delete"},
		"GitHub is away":         {answers: []pool.Call[registrations.Answer]{none, none, none, none, none}, want: "wait"},
		"GitHub is back":         {answers: []pool.Call[registrations.Answer]{none, none, none, answered(registrations.Registered)}, want: "fail"},
		"no recorded id":         {change: func(_ *scenario, r *roster.Runner) { r.RegistrationID = 0 }, want: "fail"},
		"reported late":          {change: func(_ *scenario, r *roster.Runner) { r.HadJob = true }, want: "delete"},
		"former template":        {change: func(_ *scenario, r *roster.Runner) { r.Template = "former" }, want: "delete"},
		"removed on our behalf":  {change: func(s *scenario, r *roster.Runner) { s.answer(r, registrations.Removed) }, want: "delete"},
		"a later one took a job": {change: func(s *scenario, _ *roster.Runner) { s.add(1, busyOne).CreatedAt = s.now }, want: "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1)
			r := s.exitOne()
			if test.change != nil {
				test.change(s, r)
			}
			p, pause := s.pass(), time.Duration(0)
			for i, call := range test.answers {
				if i > 0 {
					p = s.later(pause).pass()
				}
				if len(p.With(scaling.LookUp)) != 1 {
					t.Fatalf("question %d is not asked", i+1)
				}
				s.ask(r, call)
				p = s.pass()
				if pause = askExitedInterval; call.Err != nil {
					pause = longestQuestionPause
				}
			}
			if got := exitOutcome(p); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if test.want != "wait" {
				return
			}
			if got := exitOutcome(s.later(explanationTimeout).pass()); got != "fail" {
				t.Errorf("%s after a quarter of an hour more, want it given up", got)
			}
		})
	}
}

// exitOutcome names what a plan intends for the one runner that exited.
func exitOutcome(p *plan) string {
	switch {
	case len(p.With(scaling.Delete)) == 1:
		return "delete"
	case len(p.With(scaling.MarkFailed)) == 1:
		return "fail"
	case len(p.With(scaling.LookUp)) == 1:
		return "ask"
	default:
		return "wait"
	}
}

func TestExitThatGitHubNeverExplainsIsAFailure(t *testing.T) {
	s := newScenario(1)
	s.exitOne()
	s.pass()
	if p := s.later(explanationTimeout).pass(); exitOutcome(p) != "fail" || len(p.With(scaling.LookUp)) != 0 {
		t.Errorf("%s, asked about %v; want a failure", exitOutcome(p), names(p.With(scaling.LookUp)))
	}
}

// A runner that GitHub says had a job proves the template, as a report does.
func TestRunnerWithoutARecordHadAJob(t *testing.T) {
	s := newScenario(5)
	s.add(3, failedOne)
	r := s.exitOne()
	s.pass()
	s.answer(r, registrations.Missing)
	if p := s.pass(); s.degraded(p) || p.create != 5 {
		t.Errorf("degraded: %t, create %d; want no failures, and 5", s.degraded(p), p.create)
	}
}

// While GitHub has not answered, runners that exited are replaced as slowly as if they had failed, and no slower. Yet
// the set does not count as degraded.
func TestUnexplainedExitsAreReplacedLikeFailures(t *testing.T) {
	for name, test := range map[string]struct {
		exited, running int
		later           time.Duration
		want            int
	}{
		"one, at once":                      {exited: 1},
		"one, after the pause":              {exited: 1, later: firstBackoff, want: 10},
		"three, at once":                    {exited: 3},
		"three: one is tried":               {exited: 3, later: firstBackoff, want: 1},
		"three, while the try is under way": {exited: 3, running: 1, later: firstBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(10)
			s.add(test.exited, exited)
			s.pass()
			s.later(settleGrace).publish(10).pass()
			s.add(test.running, starting)
			if p := s.later(test.later).pass(); p.create != test.want || s.degraded(p) {
				t.Errorf("create %d, degraded: %t; want %d and not degraded", p.create, s.degraded(p), test.want)
			}
		})
	}
}

// A wrong image exits before the next figure comes, and only then is GitHub asked whether the runner had a job.
func TestARunnerThatHasJustExitedIsATryThatIsUnderWay(t *testing.T) {
	s := newScenario(10)
	s.add(3, exited)
	s.pass()
	s.later(settleGrace).publish(10).pass()
	if p := s.later(firstBackoff).pass(); p.create != 1 {
		t.Fatalf("create %d, want one tried", p.create)
	}
	s.add(1, exited)
	if p := s.pass(); p.create != 0 {
		t.Errorf("create %d at once, want none except the one that has just exited", p.create)
	}
	if p := s.later(settleGrace).publish(10).pass(); p.create != 0 {
		t.Errorf("create %d, want none within the pause after the fourth", p.create)
	}
}

// The runner's status says Running for seconds after it has exited.
func TestARunnerThatHasJustComeUpIsATryThatIsUnderWay(t *testing.T) {
	s := newScenario(10)
	s.add(3, exited)
	s.pass()
	s.later(settleGrace).publish(10).pass()
	s.later(firstBackoff).add(1, idle)
	if p := s.pass(); p.create != 0 || p.RequeueAt.Sub(s.now) != provenGrace {
		t.Errorf("create %d, again in %s; want none until it is proven", p.create, p.RequeueAt.Sub(s.now))
	}
	if p := s.later(provenGrace).pass(); p.create != 1 {
		t.Errorf("create %d, want the next tried", p.create)
	}
}

// GitHub's confirmation that the runners had no job changes nothing about what is allowed: they failed when they
// exited, all together. The pauses after the first round and the second are 5 s and 10 s.
func TestConfirmedFailuresAreDatedToTheExit(t *testing.T) {
	for _, confirmed := range []time.Duration{time.Second, removalLag} {
		s := newScenario(10)
		s.add(3, exited)
		s.pass()
		s.later(settleGrace).publish(10).pass()
		before := s.later(confirmed).pass()
		for _, r := range s.runners {
			r.Phase, r.Reason = v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.ReasonRunnerExitedWithoutJob
		}
		p := s.pass()
		degraded := meta.FindStatusCondition(s.status(p).Conditions, v1alpha1.ConditionDegraded)
		if p.create != before.create || degraded.Reason != v1alpha1.ReasonRunnerExitedWithoutJob ||
			!strings.HasPrefix(degraded.Message, "3 runners in a row failed") {
			t.Errorf("after %s: create %d, was %d; %+v", confirmed, p.create, before.create, degraded)
		}
		if rest := firstBackoff - confirmed; rest > 0 {
			if p.create != 0 || p.RequeueAt.Sub(s.now) != rest {
				t.Errorf("after %s: create %d, again in %s, want in %s", confirmed, p.create, p.RequeueAt.Sub(s.now), rest)
			}
			p = s.later(rest).pass()
		}
		if p.create != 1 {
			t.Errorf("after %s: create %d when the pause is over, want one tried", confirmed, p.create)
		}
		s.add(1, failedOne)
		if p = s.pass(); p.create != 0 || p.RequeueAt.Sub(s.now) != 2*firstBackoff {
			t.Errorf("after %s and another failure: create %d, again in %s", confirmed, p.create, p.RequeueAt.Sub(s.now))
		}
	}
}

// A runner whose job was never reported as started is taken for an idle one. GitHub says that it has a job.
func TestRunnerWithAnUnreportedJobIsNoEvidence(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idleGrace).pass()
	if p := s.later(defaultRegistrationTimeout).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Fatal("want GitHub asked to remove it")
	}
	s.answer(r, registrations.Busy)
	s.pass()
	if doubted := s.doubted(s.later(figuresSettleGrace).pass()); doubted != 0 {
		t.Errorf("%d jobs are doubted", doubted)
	}
}
