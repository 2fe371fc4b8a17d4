package scaling_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

func TestCreation(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, max, expected int
		runners                 []roster.Runner
		want                    int
	}{
		"from nothing":                          {replicas: 5, max: 10, want: 5},
		"within maxRunners":                     {replicas: 5, max: 3, want: 3},
		"expected ones count":                   {replicas: 5, max: 10, expected: 4, want: 1},
		"expected ones count towards max":       {replicas: 9, max: 5, expected: 4, want: 1},
		"waiting and working count":             {replicas: 5, max: 10, runners: []roster.Runner{idle, busyOne, starting}, want: 2},
		"held ones count":                       {replicas: 2, max: 10, runners: []roster.Runner{succeeded, failedJob}, want: 0},
		"held ones leave room under maxRunners": {replicas: 3, max: 2, runners: []roster.Runner{succeeded, busyOne}, want: 1},
		"enough":                                {replicas: 1, max: 10, runners: []roster.Runner{idle, idle}, want: 0},
		"nothing wanted":                        {replicas: 0, max: 10, want: 0},
		"a negative figure":                     {replicas: -3, max: 10, want: 0},
		"an absurd figure, in parts":            {replicas: 1 << 31, max: v1alpha1.MaxRunnersUnlimited, want: maxCreatesPerPass},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(test.replicas)
			s.spec.MaxRunners = new(test.max)
			for _, r := range test.runners {
				s.add(1, r)
			}
			s.out.Expected = test.expected
			p := s.pass()
			if p.create != test.want {
				t.Errorf("create %d, want %d", p.create, test.want)
			}
			if continues := p.RequeueAt.Equal(s.now); continues != (test.want == maxCreatesPerPass) {
				t.Errorf("continues at once: %t", continues)
			}
		})
	}
}

// The rest of an absurd figure is not planned a thousand times a second while nothing may be created.
func TestAbsurdFigureWaitsForTheNextTry(t *testing.T) {
	for name, refuse := range map[string]func(*scenario){
		"refused":              func(s *scenario) { s.Creations.Settle(errOverQuota, s.now) },
		"namespace terminates": func(s *scenario) { s.Creations.Closed = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1 << 31)
			s.spec.MaxRunners = new(v1alpha1.MaxRunnersUnlimited)
			refuse(s)
			if p := s.pass(); p.create != 0 || p.RequeueAt.Equal(s.now) {
				t.Errorf("create %d, again %s after now; want none, and not at once", p.create, p.RequeueAt.Sub(s.now))
			}
			s.Creations.Closed = false
			if p := s.later(firstCreateBackoff).pass(); p.create != maxCreatesPerPass || !p.RequeueAt.Equal(s.now) {
				t.Errorf("create %d, again %s after now; want %d, and the rest at once", p.create,
					p.RequeueAt.Sub(s.now), maxCreatesPerPass)
			}
		})
	}
}

func TestSurplusWaitsForPatienceAndANewerFigure(t *testing.T) {
	s := newScenario(0)
	s.add(2, idle)
	if p := s.pass(); len(p.going()) != 0 || p.RequeueAt.Sub(s.now) != surplusPatience {
		t.Fatalf("at once: deregister %v, again in %s", names(p.With(scaling.Deregister)), p.RequeueAt.Sub(s.now))
	}
	if p := s.later(surplusPatience).pass(); len(p.With(scaling.Deregister)) != 0 {
		t.Errorf("without a newer figure: deregister %v", names(p.With(scaling.Deregister)))
	}
	if p := s.publish(0).pass(); len(p.With(scaling.Deregister)) != 2 {
		t.Errorf("with a newer figure: deregister %v, want both", names(p.With(scaling.Deregister)))
	}
}

// A runner that a program has created counts, and goes for none of the set's own reasons.
func TestRunnerThatStandsAloneIsNoSurplus(t *testing.T) {
	s := newScenario(0)
	own := s.add(1, idle)
	alone := s.add(1, with(idle, func(r *roster.Runner) { r.Standalone, r.Template = true, "other" }))
	s.pass()
	if p := s.later(surplusPatience).publish(0).pass(); p.decided(own) != scaling.Deregister || p.decided(alone) != scaling.None {
		t.Errorf("the set's own: %v, the program's: %v; want the former to go", p.decided(own), p.decided(alone))
	}
	if p := s.publish(1).pass(); p.create != 0 {
		t.Errorf("%d runners are created beside one that waits for a job", p.create)
	}
	failed := with(failedOne, func(r *roster.Runner) { r.Standalone = true })
	if !failed.Blameless() {
		t.Error("its failure is held against the set's template")
	}
}

func TestSurplusUnitsHaveTheirOwnClocks(t *testing.T) {
	s := newScenario(2)
	s.add(3, idle)
	s.pass() // one surplus runner
	s.later(20 * time.Second).publish(1).pass()
	if p := s.later(10 * time.Second).publish(1).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("deregister %v, want the one that has been surplus for 30 s", names(p.With(scaling.Deregister)))
	}
	// Returning demand stops the youngest clock.
	s.publish(2).pass()
	if p := s.later(19 * time.Second).publish(1).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("deregister %v: the second's clock must have restarted", names(p.With(scaling.Deregister)))
	}
}

// Planning changes nothing: the same is planned again, and a plan that nobody follows neither begins nor stops the
// clocks of surplus runners.
func TestPlanLeavesTheHistoryAsItIs(t *testing.T) {
	s := newScenario(1)
	s.add(3, idle)
	s.pass() // two surplus runners
	s.later(time.Second)
	for _, replicas := range []int{0, 2, 3} {
		s.publish(replicas)
		s.Remember(s.seen())
		first, second := s.plan(), s.plan()
		if diff := cmp.Diff(names(first.about()), names(second.about())); diff != "" ||
			first.create != second.create || !first.RequeueAt.Equal(second.RequeueAt) {
			t.Errorf("%d replicas: create %d and then %d, again at %s and %s, about (-first +second):\n%s", replicas,
				first.create, second.create, first.RequeueAt, second.RequeueAt, diff)
		}
	}
	s.later(surplusPatience - time.Second).publish(0)
	if p := s.pass(); len(p.going()) != 2 {
		t.Errorf("%v go, want the two that have been surplus for 30 s", names(p.going()))
	}
	s.later(surplusPatience - time.Second).publish(0)
	if p := s.pass(); len(p.going()) != 2 {
		t.Errorf("%v go, and the third has been surplus for 29 s", names(p.going()))
	}
	s.later(time.Second).publish(0)
	if p := s.pass(); len(p.going()) != 3 {
		t.Errorf("%v go, and the third has been surplus for 30 s", names(p.going()))
	}
}

func TestVictims(t *testing.T) {
	s := newScenario(0)
	s.add(1, busyOne)
	up := s.add(1, idle)
	registered := s.add(1, roster.Runner{RegistrationID: 9})
	unregistered := s.add(1, starting)
	s.spec.Replicas = 1
	s.pass()
	s.later(surplusPatience).publish(1)
	p := s.pass()
	if diff := cmp.Diff([]string{unregistered.Name}, names(p.With(scaling.DeleteUnregistered))); diff != "" {
		t.Errorf("deleted if still unregistered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{registered.Name, up.Name}, names(p.With(scaling.Deregister))); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

// A runner that GitHub was asked to remove for another reason counts as a victim until GitHub has answered.
func TestVictimWhoseRemovalIsUnderWayCounts(t *testing.T) {
	s := newScenario(1)
	first := s.add(2, idle)
	s.pass()
	s.later(surplusPatience).publish(1)
	s.RememberAsked(first, true)
	if p := s.pass(); len(p.going()) != 0 {
		t.Errorf("removed %v, want none except the one whose removal is under way", names(p.With(scaling.Deregister)))
	}
	s.answer(first, registrations.Busy)
	s.spec.Replicas = 1
	if p := s.pass(); len(p.With(scaling.Deregister)) != 1 || p.With(scaling.Deregister)[0] == first {
		t.Errorf("removed %v; want the other one, as the first is busy", names(p.With(scaling.Deregister)))
	}
}

// A figure still has the completion that was just reported, for 10 s; only then the 30 s of a surplus runner begin.
func TestCompletionsOfTheLastSecondsAreNotSurplus(t *testing.T) {
	s := newScenario(1)
	s.add(1, roster.Runner{Phase: busyOne.Phase, HadJob: true, Completed: true, JobPatchID: 1})
	s.add(2, idle)
	for s.now.Before(start.Add(completionWindow + surplusPatience)) {
		if p := s.publish(1).pass(); len(p.going()) != 0 {
			t.Fatalf("%v go after %s", names(p.going()), s.now.Sub(start))
		}
		s.later(time.Second)
	}
	if p := s.publish(1).pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("%v go after 40 s, want one of those that are idle", names(p.going()))
	}
}

func TestTemplateChangeReplacesIdleRunnersOnly(t *testing.T) {
	s := newScenario(3)
	old := func(r roster.Runner) roster.Runner { r.Template = "former"; return r }
	s.add(1, old(busyOne))
	unregistered := s.add(1, old(starting))
	up := s.add(1, old(idle))
	p := s.pass()
	if diff := cmp.Diff([]string{unregistered.Name}, names(p.With(scaling.DeleteUnregistered))); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{up.Name}, names(p.With(scaling.Deregister))); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

// An idle runner of an old template is asked about a single time, even if jobs wait as well.
func TestOneThingIsDoneAboutARunner(t *testing.T) {
	s := newScenario(2)
	old := idle
	old.Template = "former"
	r := s.add(1, old)

	s.pass()
	s.ask(r, pool.Call[registrations.Answer]{Err: errNoAnswer})
	s.pass()
	if p := s.later(idleGrace).pass(); len(p.about()) != 1 || p.decided(r) != scaling.Deregister {
		t.Errorf("decided %v about %v, want it removed and nothing else", p.decided(r), names(p.about()))
	}
}

func TestRemovedRunnersAreDeleted(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.answer(r, registrations.Removed)
	if p := s.pass(); len(p.With(scaling.Delete)) != 1 {
		t.Errorf("delete %v, want the runner GitHub has removed", names(p.With(scaling.Delete)))
	}
}

// Whoever may write an EphemeralRunnerSet, such as its listener, gets no more runners than the manager's limit, and no
// overflow: neither a negative number, which would be a surplus of as many runners, nor one that a sum exceeds.
func TestForgedFiguresStayInRange(t *testing.T) {
	for name, test := range map[string]struct {
		spec    v1alpha1.EphemeralRunnerSetSpec
		ceiling int
		// create counts the runners that are created beside two that are idle, and due those of the two that go.
		create, due int
	}{
		"above the ceiling":        {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt, MaxRunners: new(math.MaxInt)}, 50, 48, 0},
		"no maxRunners":            {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt32}, 50, 48, 0},
		"maxRunners below":         {v1alpha1.EphemeralRunnerSetSpec{Replicas: 40, MaxRunners: new(10)}, 50, 8, 0},
		"no ceiling":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt, AssignedJobs: math.MaxInt}, 0, maxCreatesPerPass, 0},
		"negative":                 {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MinInt, AssignedJobs: math.MinInt}, 0, 0, 2},
		"negative, but not by far": {v1alpha1.EphemeralRunnerSetSpec{Replicas: -1_000_000_000}, 0, 0, 2},
		"negative maxRunners":      {v1alpha1.EphemeralRunnerSetSpec{Replicas: 5, MaxRunners: new(-5)}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(0)
			s.add(2, idle)
			s.spec, s.unserved = test.spec, true
			s.numbers = (&effective.Plan{}).At(&v1alpha1.AutoscalingRunnerSet{}, test.ceiling, s.now)
			if p := s.pass(); p.create != test.create {
				t.Errorf("%d runners are created, want %d", p.create, test.create)
			}
			s.patchID++
			if p := s.later(surplusPatience).pass(); len(p.going()) != test.due {
				t.Errorf("%d of 2 runners go, want %d", len(p.going()), test.due)
			}
		})
	}
}

func TestRepetitions(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, max        int
		out                  creations.Unseen
		runners              []roster.Runner
		wantRepeat, wantMade int
	}{
		"all are wanted":                  {replicas: 3, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, wantRepeat: 3},
		"more are wanted":                 {replicas: 5, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, wantRepeat: 3, wantMade: 2},
		"some are wanted":                 {replicas: 2, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, wantRepeat: 2},
		"none is wanted":                  {replicas: 0, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}},
		"there are others":                {replicas: 5, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, runners: []roster.Runner{idle, idle, busyOne}, wantRepeat: 2},
		"others are expected":             {replicas: 5, max: 10, out: creations.Unseen{Expected: 6, Uncertain: 2, Beside: 0}, wantRepeat: 1},
		"as many as maxRunners may exist": {replicas: 3, max: 3, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, wantRepeat: 3},
		"too many may exist":              {replicas: 3, max: 3, out: creations.Unseen{Expected: 4, Uncertain: 4, Beside: 0}},
		"one is tried at a time":          {replicas: 9, max: 10, out: creations.Unseen{Expected: 3, Uncertain: 3, Beside: 0}, runners: []roster.Runner{outdated}, wantRepeat: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(test.replicas)
			s.spec.MaxRunners = new(test.max)
			for _, r := range test.runners {
				s.add(1, r)
			}
			s.pass()
			s.out = test.out
			if p := s.later(longestBackoff).pass(); p.Repeat != test.wantRepeat || p.create != test.wantMade {
				t.Errorf("repeat %d, create %d; want %d and %d", p.Repeat, p.create, test.wantRepeat, test.wantMade)
			}
		})
	}
}

// No existing runner is removed in place of one that may not even exist.
func TestUnansweredCreationsAreNotSurplus(t *testing.T) {
	s := newScenario(5)
	s.add(5, idle)
	s.out = creations.Unseen{Expected: 5, Uncertain: 5}
	s.pass()
	if p := s.later(surplusPatience).publish(5).pass(); len(p.going()) != 0 {
		t.Errorf("GitHub is asked to remove %v, which are wanted", names(p.With(scaling.Deregister)))
	}
}

func TestTemplateOfARunner(t *testing.T) {
	for template, want := range map[string]scaling.Action{
		"template": scaling.None, "former": scaling.Deregister, "": scaling.None, // ARC's
	} {
		s := newScenario(1)
		r := s.add(1, with(idle, func(r *roster.Runner) { r.Template = template }))
		if p := s.pass(); p.decided(r) != want {
			t.Errorf("a runner of template %q: %v is decided, want %v", template, p.decided(r), want)
		}
	}
}
