package scaling_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// slot is a runner's slot, in the words of docs/decisions/0007-a-slot-follows-the-job.md.
type slot string

const (
	slotFree    slot = "free"
	slotWaiting slot = "waiting"
	slotWorking slot = "working"
	slotHeld    slot = "held"
)

// slotOf returns the slot of the only runner of a set with one job, by what a pass makes of it: a working one has the
// job, a waiting one can be replaced, and if the slot is free another runner is created.
func (s *scenario) slotOf(p *plan, r *roster.Runner) slot {
	switch working, waits := s.working(p) == 1, s.GiveWay(s.plan().Plan, r); {
	case working && !waits && p.create == 0:
		return slotWorking
	case waits && !working && p.create == 0:
		return slotWaiting
	case !working && !waits && p.create == 1:
		return slotFree
	case !working && !waits && p.create == 0:
		return slotHeld
	}
	return "of several kinds"
}

func TestSlots(t *testing.T) {
	deleting := func(r roster.Runner) roster.Runner { r.Deleting = true; return r }
	completedAt := func(r roster.Runner, patchID int) roster.Runner {
		r.HadJob, r.Completed, r.JobPatchID = true, true, patchID
		return r
	}
	for name, test := range map[string]struct {
		runner roster.Runner
		want   slot
		// After failures a free slot is filled when so much time has passed.
		pause time.Duration
	}{
		"just created":                                {starting, slotWaiting, 0},
		"up without a job":                            {idle, slotWaiting, 0},
		"up with a job":                               {busyOne, slotWorking, 0},
		"deleted while it starts":                     {deleting(starting), slotFree, 0},
		"deleted while idle":                          {deleting(idle), slotFree, 0},
		"deleted while it has a job":                  {deleting(busyOne), slotWorking, 0},
		"deleted, and GitHub says it is busy":         {func() roster.Runner { r := deleting(idle); r.Draining = true; return r }(), slotWorking, 0},
		"completed, figure seen":                      {completedAt(busyOne, 1), slotFree, 0},
		"completed, figure not seen, pod alive":       {completedAt(busyOne, 2), slotWorking, 0},
		"completed, figure not seen, pod gone":        {completedAt(succeeded, 2), slotHeld, 0},
		"completed and failed, figure seen":           {completedAt(failedJob, 1), slotFree, 0},
		"exited with 0, no report":                    {succeeded, slotHeld, 0},
		"failed with a job, no report":                {failedJob, slotHeld, 0},
		"failed without a job":                        {failedOne, slotFree, 5 * time.Second},
		"refused as outdated":                         {outdated, slotFree, 5 * time.Minute},
		"deleted, completed, but figure not seen yet": {deleting(completedAt(busyOne, 2)), slotWorking, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(1)
			r := s.add(1, test.runner)
			p := s.pass()
			if test.pause > 0 {
				p = s.later(test.pause).pass()
			}
			if got := s.slotOf(p, r); got != test.want {
				t.Errorf("slot %s, want %s", got, test.want)
			}
		})
	}
}

func TestSlotOfRunnerThatGitHubCallsBusy(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.answer(r, registrations.Busy)
	if got := s.slotOf(s.pass(), r); got != slotWorking {
		t.Errorf("slot %s, want working", got)
	}
}

// The slot of a runner that exited without a report is held until a figure comes that is new enough to reflect it.
func TestHeldUntilFigureAfterEnd(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, succeeded)
	s.pass()
	if got := s.slotOf(s.later(2*time.Second).publish(1).pass(), r); got != slotHeld {
		t.Errorf("2 s after the end: slot %s, want held", got)
	}
	if got := s.slotOf(s.later(time.Minute).pass(), r); got != slotHeld {
		t.Errorf("no newer figure: slot %s, want held", got)
	}
	if got := s.slotOf(s.publish(1).pass(), r); got != slotFree {
		t.Errorf("newer figure: slot %s, want free", got)
	}
}

// A failed runner's slot is held until GitHub has removed the runner and a newer figure has come, for 15 minutes at
// most.
func TestHeldUntilGitHubGivesUpTheJob(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, failedJob)
	if p := s.pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Fatalf("GitHub is asked to remove %v, want the failed runner", names(p.With(scaling.Deregister)))
	}
	s.answer(r, registrations.Removed)
	if got := s.slotOf(s.later(time.Minute).pass(), r); got != slotHeld {
		t.Errorf("agreed, no newer figure: slot %s, want held", got)
	}
	if p := s.publish(1).pass(); p.create != 1 || len(p.With(scaling.Delete)) != 1 {
		t.Errorf("agreed, newer figure: create %d, delete %v", p.create, names(p.With(scaling.Delete)))
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
	if len(p.With(scaling.Deregister)) != 1 || p.RequeueAt.Sub(s.now) != heldTimeout {
		t.Errorf("GitHub is asked to remove %v, planned again in %s; want the runner, and %s",
			names(p.With(scaling.Deregister)),
			p.RequeueAt.Sub(s.now), heldTimeout)
	}
	if p = s.later(heldTimeout).pass(); p.create != 1 || len(p.With(scaling.Delete)) != 0 {
		t.Errorf("create %d, delete %v after %s; want 1, and not to delete it again", p.create, names(p.With(scaling.Delete)),
			heldTimeout)
	}
}

// A restore has taken the set back to an old patchID, and its listener has died before it wrote a new one.
func TestACompletedRunnerIsHeldAtMostFifteenMinutes(t *testing.T) {
	s := newScenario(1)
	completed := succeeded
	completed.HadJob, completed.Completed, completed.JobPatchID = true, true, 50_000
	r := s.add(1, completed)
	if p := s.pass(); s.slotOf(p, r) != slotHeld || p.RequeueAt.Sub(s.now) != heldTimeout {
		t.Errorf("slot %s, planned again in %s; want held, and %s", s.slotOf(p, r), p.RequeueAt.Sub(s.now),
			heldTimeout)
	}
	if p := s.later(heldTimeout).pass(); p.create != 1 || len(p.With(scaling.Delete)) != 1 {
		t.Errorf("after 15 minutes: create %d, delete %v", p.create, names(p.With(scaling.Delete)))
	}
}

func TestHeldAtMostFifteenMinutes(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, failedJob)
	s.pass()
	if got := s.slotOf(s.later(heldTimeout-time.Second).pass(), r); got != slotHeld {
		t.Errorf("slot %s before 15 minutes are over, want held", got)
	}
	if got := s.slotOf(s.later(time.Second).pass(), r); got != slotFree {
		t.Errorf("slot %s after 15 minutes, want free", got)
	}
}
