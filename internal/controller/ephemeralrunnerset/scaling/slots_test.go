package scaling

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

func TestSlots(t *testing.T) {
	deleting := func(r roster.Runner) roster.Runner { r.Deleting = true; return r }
	completedAt := func(r roster.Runner, patchID int) roster.Runner {
		r.HadJob, r.Completed, r.JobPatchID = true, true, patchID
		return r
	}
	for name, test := range map[string]struct {
		runner roster.Runner
		want   slot
	}{
		"just created":                                {starting, slotWaiting},
		"up without a job":                            {idle, slotWaiting},
		"up with a job":                               {busyOne, slotWorking},
		"deleted while it starts":                     {deleting(starting), slotFree},
		"deleted while idle":                          {deleting(idle), slotFree},
		"deleted while it has a job":                  {deleting(busyOne), slotWorking},
		"deleted, and GitHub says it is busy":         {func() roster.Runner { r := deleting(idle); r.Draining = true; return r }(), slotWorking},
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
			s := newScenario(1)
			r := s.add(1, test.runner)
			s.pass()
			if got := s.slotOf(r); got != test.want {
				t.Errorf("slot %d, want %d", got, test.want)
			}
		})
	}
}

func TestSlotOfRunnerThatGitHubCallsBusy(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.historyOf(r).Busy = true
	if got := s.slotOf(r); got != slotWorking {
		t.Errorf("slot %d, want working", got)
	}
}

// The slot of a runner that exited without a report is held until a figure comes that is new enough to reflect it.
func TestHeldUntilFigureAfterEnd(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, succeeded)
	s.pass()
	s.later(2 * time.Second).publish(1).pass()
	if got := s.slotOf(r); got != slotHeld {
		t.Errorf("2 s after the end: slot %d, want held", got)
	}
	s.later(time.Minute).pass()
	if got := s.slotOf(r); got != slotHeld {
		t.Errorf("no newer figure: slot %d, want held", got)
	}
	s.publish(0).pass()
	if got := s.slotOf(r); got != slotFree {
		t.Errorf("newer figure: slot %d, want free", got)
	}
}

// A failed runner's slot is held until GitHub has removed the runner and a newer figure has come, for 15 minutes at
// most.
func TestHeldUntilGitHubGivesUpTheJob(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, failedJob)
	if p := s.pass(); len(p.With(Deregister)) != 1 {
		t.Fatalf("GitHub is asked to remove %v, want the failed runner", names(p.With(Deregister)))
	}
	s.historyOf(r).RemovedAt = s.now
	s.later(time.Minute).pass()
	if got := s.slotOf(r); got != slotHeld {
		t.Errorf("agreed, no newer figure: slot %d, want held", got)
	}
	s.publish(1)
	if p := s.pass(); s.slotOf(r) != slotFree || p.create != 1 || len(p.With(Delete)) != 1 {
		t.Errorf("agreed, newer figure: slot %d, create %d, delete %v", s.slotOf(r), p.create, names(p.With(Delete)))
	}
}

// A runner that failed with a job is being deleted, and somebody's finalizer keeps its pod. GitHub is asked about its
// slot nevertheless, and the slot becomes free without an event.
func TestHeldSlotOfADeletedRunnerIsAskedAbout(t *testing.T) {
	s := newScenario(1)
	r := failedJob
	r.Deleting = true
	s.add(1, r)
	p := s.pass()
	if len(p.With(Deregister)) != 1 || p.RequeueAt.Sub(s.now) != heldTimeout {
		t.Errorf("GitHub is asked to remove %v, planned again in %s; want the runner, and %s",
			names(p.With(Deregister)),
			p.RequeueAt.Sub(s.now), heldTimeout)
	}
	if p = s.later(heldTimeout).pass(); p.create != 1 || len(p.With(Delete)) != 0 {
		t.Errorf("create %d, delete %v after %s; want 1, and not to delete it again", p.create, names(p.With(Delete)),
			heldTimeout)
	}
}

// A restore has taken the set back to an old patchID, and its listener has died before it wrote a new one.
func TestACompletedRunnerIsHeldAtMostFifteenMinutes(t *testing.T) {
	s := newScenario(1)
	completed := succeeded
	completed.HadJob, completed.Completed, completed.JobPatchID = true, true, 50_000
	r := s.add(1, completed)
	if p := s.pass(); s.slotOf(r) != slotHeld || p.RequeueAt.Sub(s.now) != heldTimeout {
		t.Errorf("slot %d, planned again in %s; want held, and %s", s.slotOf(r), p.RequeueAt.Sub(s.now), heldTimeout)
	}
	if p := s.later(heldTimeout).pass(); s.slotOf(r) != slotFree || p.create != 1 || len(p.With(Delete)) != 1 {
		t.Errorf("after 15 minutes: slot %d, create %d, delete %v", s.slotOf(r), p.create, names(p.With(Delete)))
	}
}

func TestHeldAtMostFifteenMinutes(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, failedJob)
	s.pass()
	s.later(heldTimeout - time.Second).pass()
	if s.slotOf(r) != slotHeld {
		t.Error("released too early")
	}
	s.later(time.Second).pass()
	if s.slotOf(r) != slotFree {
		t.Error("still held after 15 minutes")
	}
}
