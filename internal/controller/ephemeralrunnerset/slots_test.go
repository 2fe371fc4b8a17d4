package ephemeralrunnerset

import (
	"testing"
	"time"
)

func TestSlots(t *testing.T) {
	deleting := func(r runner) runner { r.deleting = true; return r }
	completedAt := func(r runner, patchID int) runner {
		r.hasJob, r.completed, r.jobPatchID = true, true, patchID
		return r
	}
	for name, test := range map[string]struct {
		runner runner
		want   slot
	}{
		"just created":                                {starting, slotWaiting},
		"up without a job":                            {idle, slotWaiting},
		"up with a job":                               {busyOne, slotWorking},
		"deleted while it starts":                     {deleting(starting), slotFree},
		"deleted while idle":                          {deleting(idle), slotFree},
		"deleted while it has a job":                  {deleting(busyOne), slotWorking},
		"deleted and busy by GitHub's word":           {func() runner { r := deleting(idle); r.draining = true; return r }(), slotWorking},
		"completed, figure seen":                      {completedAt(busyOne, 1), slotFree},
		"completed, figure not seen, pod alive":       {completedAt(busyOne, 2), slotWorking},
		"completed, figure not seen, pod gone":        {completedAt(succeeded, 2), slotHeld},
		"completed and failed, figure seen":           {completedAt(failedJob, 1), slotFree},
		"exited with 0, no report":                    {succeeded, slotHeld},
		"failed with a job, no report":                {failedJob, slotHeld},
		"failed without a job":                        {failedOne, slotFree},
		"refused as outdated":                         {outdated, slotFree},
		"deleted, completed, but figure not seen yet": {deleting(completedAt(busyOne, 2)), slotWorking},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1)
			r := h.add(1, test.runner)
			h.pass()
			if got := h.slotOf(r); got != test.want {
				t.Errorf("slot %d, want %d", got, test.want)
			}
		})
	}
}

func TestSlotOfRunnerThatGitHubCallsBusy(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.past(r).busy = true
	if got := h.slotOf(r); got != slotWorking {
		t.Errorf("slot %d, want working", got)
	}
}

// An exit without a report is held until a figure that is young enough to reflect it.
func TestHeldUntilFigureAfterEnd(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, succeeded)
	h.pass()
	h.later(2 * time.Second).publish(1).pass()
	if got := h.slotOf(r); got != slotHeld {
		t.Errorf("2 s after the end: slot %d, want held", got)
	}
	h.later(time.Minute).pass()
	if got := h.slotOf(r); got != slotHeld {
		t.Errorf("no newer figure: slot %d, want held", got)
	}
	h.publish(0).pass()
	if got := h.slotOf(r); got != slotFree {
		t.Errorf("newer figure: slot %d, want free", got)
	}
}

// A failed runner's job is held until GitHub has let go of the runner and a newer figure has come, or 15 minutes.
func TestHeldUntilGitHubLetsGo(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, failedJob)
	if p := h.pass(); len(p.remove) != 1 {
		t.Fatalf("GitHub is asked to remove %v, want the failed runner", names(p.remove))
	}
	h.past(r).removed = h.now
	h.later(time.Minute).pass()
	if got := h.slotOf(r); got != slotHeld {
		t.Errorf("agreed, no newer figure: slot %d, want held", got)
	}
	h.publish(1)
	if p := h.pass(); h.slotOf(r) != slotFree || p.create != 1 || len(p.drop) != 1 {
		t.Errorf("agreed, newer figure: slot %d, create %d, drop %v", h.slotOf(r), p.create, names(p.drop))
	}
}

func TestHeldAtMostFifteenMinutes(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, failedJob)
	h.pass()
	h.later(heldAtMost - time.Second).pass()
	if h.slotOf(r) != slotHeld {
		t.Error("released too early")
	}
	h.later(time.Second).pass()
	if h.slotOf(r) != slotFree {
		t.Error("still held after 15 minutes")
	}
}
