package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestCreation(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, max, expected int
		runners                 []runner
		want                    int
	}{
		"from nothing":                          {replicas: 5, max: 10, want: 5},
		"within maxRunners":                     {replicas: 5, max: 3, want: 3},
		"expected ones count":                   {replicas: 5, max: 10, expected: 4, want: 1},
		"expected ones count towards max":       {replicas: 9, max: 5, expected: 4, want: 1},
		"waiting and working count":             {replicas: 5, max: 10, runners: []runner{idle, busyOne, starting}, want: 2},
		"held ones count":                       {replicas: 2, max: 10, runners: []runner{succeeded, failedJob}, want: 0},
		"held ones leave room under maxRunners": {replicas: 3, max: 2, runners: []runner{succeeded, busyOne}, want: 1},
		"enough":                                {replicas: 1, max: 10, runners: []runner{idle, idle}, want: 0},
		"nothing wanted":                        {replicas: 0, max: 10, want: 0},
		"a negative figure":                     {replicas: -3, max: 10, want: 0},
		"an absurd figure, in parts":            {replicas: 1 << 31, max: v1alpha1.MaxRunnersUnlimited, want: createAtMost},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(test.replicas)
			h.want.maxRunners = test.max
			for _, r := range test.runners {
				h.add(1, r)
			}
			h.memory.note(h.runners, h.patchID, "template", h.now)
			p := h.memory.plan(h.runners, h.want, test.expected)
			if p.create != test.want {
				t.Errorf("create %d, want %d", p.create, test.want)
			}
			if goesOn := p.again.Equal(h.now); goesOn != (test.want == createAtMost) {
				t.Errorf("goes on at once: %t", goesOn)
			}
		})
	}
}

// The rest of an absurd figure is not looked at a thousand times a second while nothing may be made.
func TestAbsurdFigureWaitsForTheNextTry(t *testing.T) {
	for name, refuse := range map[string]func(*history){
		"refused":              func(h *history) { h.memory.createAfter = h.now.Add(longestCreatePause) },
		"namespace terminates": func(h *history) { h.memory.closed = true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1 << 31)
			h.want.maxRunners = v1alpha1.MaxRunnersUnlimited
			refuse(h)
			if p := h.pass(); p.create != createAtMost || p.again.Equal(h.now) {
				t.Errorf("create %d, again %s after now; want %d, and not at once", p.create, p.again.Sub(h.now), createAtMost)
			}
		})
	}
}

func TestSurplusWaitsForPatienceAndANewerFigure(t *testing.T) {
	h := newHistory(0)
	h.add(2, idle)
	if p := h.pass(); len(p.going()) != 0 || p.again.Sub(h.now) != surplusPatience {
		t.Fatalf("at once: remove %v, again in %s", names(p.remove), p.again.Sub(h.now))
	}
	if p := h.later(surplusPatience).pass(); len(p.remove) != 0 {
		t.Errorf("without a newer figure: remove %v", names(p.remove))
	}
	if p := h.publish(0).pass(); len(p.remove) != 2 {
		t.Errorf("with a newer figure: remove %v, want both", names(p.remove))
	}
}

func TestSurplusUnitsHaveTheirOwnClocks(t *testing.T) {
	h := newHistory(2)
	h.add(3, idle)
	h.pass() // one too many
	h.later(20 * time.Second).publish(1).pass()
	if p := h.later(10 * time.Second).publish(1).pass(); len(p.remove) != 1 {
		t.Errorf("remove %v, want the one that has been too many for 30 s", names(p.remove))
	}
	// Demand that comes back stops the youngest clock.
	h.publish(2).pass()
	if p := h.later(19 * time.Second).publish(1).pass(); len(p.remove) != 1 {
		t.Errorf("remove %v: the second's clock must have started anew", names(p.remove))
	}
}

func TestVictims(t *testing.T) {
	h := newHistory(0)
	h.add(1, busyOne)
	up := h.add(1, idle)
	registered := h.add(1, runner{registration: 9})
	unregistered := h.add(1, starting)
	h.want.replicas = 1
	h.pass()
	h.later(surplusPatience).publish(1)
	p := h.pass()
	if diff := cmp.Diff([]string{unregistered.name}, names(p.dropUnseen)); diff != "" {
		t.Errorf("deleted unless seen again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{registered.name, up.name}, names(p.remove)); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

func TestCompletionsOfTheLastSecondsAreNoSurplus(t *testing.T) {
	h := newHistory(1)
	h.add(1, runner{phase: busyOne.phase, hasJob: true, completed: true, jobPatchID: 1})
	h.add(2, idle)
	h.pass()
	if len(h.surplus) != 0 {
		t.Errorf("%d too many: the completion just reported is in the figure still", len(h.surplus))
	}
	h.later(completionWindow).pass()
	if len(h.surplus) != 1 {
		t.Errorf("%d too many after the window, want 1", len(h.surplus))
	}
}

func TestTemplateChangeReplacesIdleRunnersOnly(t *testing.T) {
	h := newHistory(3)
	old := func(r runner) runner { r.template = "former"; return r }
	h.add(1, old(busyOne))
	unregistered := h.add(1, old(starting))
	up := h.add(1, old(idle))
	p := h.pass()
	if diff := cmp.Diff([]string{unregistered.name}, names(p.dropUnseen)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{up.name}, names(p.remove)); diff != "" {
		t.Errorf("GitHub is asked about (-want +got):\n%s", diff)
	}
}

func TestRemovedRunnersAreDeleted(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.past(r).removed = h.now
	if p := h.pass(); len(p.drop) != 1 {
		t.Errorf("drop %v, want the runner GitHub has removed", names(p.drop))
	}
}

func TestExitWithoutJobIsAFailure(t *testing.T) {
	h := newHistory(1)
	h.add(1, runner{phase: succeeded.phase, registration: 7})
	if p := h.pass(); len(p.exitedIdle) != 0 {
		t.Error("a report of its job may still come")
	}
	if p := h.later(settleAfterEnd).publish(1).pass(); len(p.exitedIdle) != 1 {
		t.Error("want it to count as a failure once its slot is released")
	}
}
