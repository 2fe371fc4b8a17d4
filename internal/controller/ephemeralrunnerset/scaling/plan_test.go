package scaling

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
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
			s.want.maxRunners = test.max
			for _, r := range test.runners {
				s.add(1, r)
			}
			s.Remember(s.seen())
			p := s.History.Plan(s.runners, s.want, creations.Unseen{Expected: test.expected})
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
			s.want.maxRunners = v1alpha1.MaxRunnersUnlimited
			refuse(s)
			if p := s.pass(); p.create != maxCreatesPerPass || p.RequeueAt.Equal(s.now) {
				t.Errorf("create %d, again %s after now; want %d, and not at once", p.create, p.RequeueAt.Sub(s.now),
					maxCreatesPerPass)
			}
		})
	}
}

func TestSurplusWaitsForPatienceAndANewerFigure(t *testing.T) {
	s := newScenario(0)
	s.add(2, idle)
	if p := s.pass(); len(p.going()) != 0 || p.RequeueAt.Sub(s.now) != surplusPatience {
		t.Fatalf("at once: deregister %v, again in %s", names(p.With(Deregister)), p.RequeueAt.Sub(s.now))
	}
	if p := s.later(surplusPatience).pass(); len(p.With(Deregister)) != 0 {
		t.Errorf("without a newer figure: deregister %v", names(p.With(Deregister)))
	}
	if p := s.publish(0).pass(); len(p.With(Deregister)) != 2 {
		t.Errorf("with a newer figure: deregister %v, want both", names(p.With(Deregister)))
	}
}

func TestSurplusUnitsHaveTheirOwnClocks(t *testing.T) {
	s := newScenario(2)
	s.add(3, idle)
	s.pass() // one surplus runner
	s.later(20 * time.Second).publish(1).pass()
	if p := s.later(10 * time.Second).publish(1).pass(); len(p.With(Deregister)) != 1 {
		t.Errorf("deregister %v, want the one that has been surplus for 30 s", names(p.With(Deregister)))
	}
	// Returning demand stops the youngest clock.
	s.publish(2).pass()
	if p := s.later(19 * time.Second).publish(1).pass(); len(p.With(Deregister)) != 1 {
		t.Errorf("deregister %v: the second's clock must have restarted", names(p.With(Deregister)))
	}
}

// Planning changes nothing: the clocks of a plan are a copy.
func TestPlanLeavesTheHistoryAsItIs(t *testing.T) {
	s := newScenario(1)
	s.add(3, idle)
	s.pass() // two surplus runners
	s.later(time.Second)
	for _, replicas := range []int{0, 2, 3} {
		s.publish(replicas)
		s.Remember(s.seen())
		before := slices.Clone(s.surplus)
		first, second := s.History.Plan(s.runners, s.want, creations.Unseen{}),
			s.History.Plan(s.runners, s.want, creations.Unseen{})
		if len(first.surplus) != 3-replicas || !slices.Equal(first.surplus, second.surplus) ||
			!slices.Equal(s.surplus, before) {
			t.Errorf("%d replicas: clocks %v, then %v; those remembered were %v, are %v", replicas, first.surplus,
				second.surplus, before, s.surplus)
		}
	}
}

func TestVictims(t *testing.T) {
	s := newScenario(0)
	s.add(1, busyOne)
	up := s.add(1, idle)
	registered := s.add(1, roster.Runner{RegistrationID: 9})
	unregistered := s.add(1, starting)
	s.want.replicas = 1
	s.pass()
	s.later(surplusPatience).publish(1)
	p := s.pass()
	if diff := cmp.Diff([]string{unregistered.Name}, names(p.With(DeleteUnregistered))); diff != "" {
		t.Errorf("deleted if still unregistered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{registered.Name, up.Name}, names(p.With(Deregister))); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

// A runner that GitHub was asked to remove for another reason counts as a victim until GitHub has answered.
func TestVictimWhoseRemovalIsUnderWayCounts(t *testing.T) {
	s := newScenario(1)
	first := s.add(2, idle)
	s.pass()
	s.later(surplusPatience).publish(1)
	s.historyOf(first).AskedAt, s.historyOf(first).Removing = s.now, true
	if p := s.pass(); len(p.going()) != 0 {
		t.Errorf("removed %v, want none except the one whose removal is under way", names(p.With(Deregister)))
	}
	s.answer(first, registrations.Busy)
	s.want.replicas = 1
	if p := s.pass(); len(p.With(Deregister)) != 1 || p.With(Deregister)[0] == first {
		t.Errorf("removed %v; want the other one, as the first is busy", names(p.With(Deregister)))
	}
}

func TestCompletionsOfTheLastSecondsAreNotSurplus(t *testing.T) {
	s := newScenario(1)
	s.add(1, roster.Runner{Phase: busyOne.Phase, HadJob: true, Completed: true, JobPatchID: 1})
	s.add(2, idle)
	s.pass()
	if len(s.surplus) != 0 {
		t.Errorf("%d surplus runners: the figure still has the completion just reported", len(s.surplus))
	}
	s.later(completionWindow).pass()
	if len(s.surplus) != 1 {
		t.Errorf("%d surplus runners after the window, want 1", len(s.surplus))
	}
}

func TestTemplateChangeReplacesIdleRunnersOnly(t *testing.T) {
	s := newScenario(3)
	old := func(r roster.Runner) roster.Runner { r.Template = "former"; return r }
	s.add(1, old(busyOne))
	unregistered := s.add(1, old(starting))
	up := s.add(1, old(idle))
	p := s.pass()
	if diff := cmp.Diff([]string{unregistered.Name}, names(p.With(DeleteUnregistered))); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{up.Name}, names(p.With(Deregister))); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

// An idle runner of an old template is asked about a single time, even if jobs wait as well.
func TestOneThingIsDoneAboutARunner(t *testing.T) {
	s := newScenario(2)
	old := idle
	old.Template = "former"
	r := s.add(1, old)

	s.Remember(s.seen())
	s.historyOf(r).RetryAt = s.now.Add(idleGrace)
	s.pass()
	if p := s.later(idleGrace).pass(); len(p.order) != 1 || p.decided[r] != Deregister {
		t.Errorf("decided %v about %v, want it removed and nothing else", p.decided[r], names(p.order))
	}
}

func TestRemovedRunnersAreDeleted(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.historyOf(r).RemovedAt = s.now
	if p := s.pass(); len(p.With(Delete)) != 1 {
		t.Errorf("delete %v, want the runner GitHub has removed", names(p.With(Delete)))
	}
}

// Whoever may write an EphemeralRunnerSet, such as its listener, gets no more runners than the manager's limit, and no
// overflow: neither a negative number, which would be a surplus of as many runners, nor one that a sum exceeds.
func TestForgedFiguresStayInRange(t *testing.T) {
	for name, test := range map[string]struct {
		spec    v1alpha1.EphemeralRunnerSetSpec
		ceiling int
		// create counts the runners that are created beside two that are idle.
		create int
	}{
		"above the ceiling":        {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt, MaxRunners: new(math.MaxInt)}, 50, 48},
		"no maxRunners":            {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt32}, 50, 48},
		"maxRunners below":         {v1alpha1.EphemeralRunnerSetSpec{Replicas: 40, MaxRunners: new(10)}, 50, 8},
		"no ceiling":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MaxInt, AssignedJobs: math.MaxInt}, 0, maxCreatesPerPass},
		"negative":                 {v1alpha1.EphemeralRunnerSetSpec{Replicas: math.MinInt, AssignedJobs: math.MinInt}, 0, 0},
		"negative, but not by far": {v1alpha1.EphemeralRunnerSetSpec{Replicas: -1_000_000_000}, 0, 0},
		"negative maxRunners":      {v1alpha1.EphemeralRunnerSetSpec{Replicas: 5, MaxRunners: new(-5)}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(0)
			s.add(2, idle)
			s.want = DemandOf(&test.spec).Within((&effective.Plan{}).
				At(&v1alpha1.AutoscalingRunnerSet{}, test.ceiling, s.now),
				&v1alpha1.PlannedCapacity{}).Unserved()
			p := s.pass()
			if p.create != test.create {
				t.Errorf("%d runners are created, want %d", p.create, test.create)
			}
			if len(p.surplus) > 2 {
				t.Errorf("%d of 2 runners are surplus", len(p.surplus))
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
			s.want.maxRunners = test.max
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
		t.Errorf("GitHub is asked to remove %v, which are wanted", names(p.With(Deregister)))
	}
}

func TestTemplateOfARunner(t *testing.T) {
	h := New(&creations.Memory{})
	h.Remember(Seen{Template: "now"})
	for template, old := range map[string]bool{"now": false, "former": true, "": false /* ARC's */} {
		if got := h.oldTemplate(&roster.Runner{Template: template}); got != old {
			t.Errorf("a runner of template %q is of an old one: %t", template, got)
		}
	}
}
