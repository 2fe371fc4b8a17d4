package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Without a job there is no demand, and without capacity there is no job: a set whose jobs were cancelled while it was in
// trouble has to be given one when a try is due.
func TestTroubledSetWithoutDemandIsGivenAJobWhenATryIsDue(t *testing.T) {
	for name, shape := range map[string]runner{"degraded": failedOne, "outdated": outdated} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(3)
			h.add(3, shape)
			h.pass()
			h.publish(0)
			p := h.pass()
			if got := *h.memory.capacity(p); got != 0 {
				t.Errorf("capacity %d right after the failure, want 0", got)
			}
			due := h.memory.trouble.due()
			if !p.again.Equal(due) {
				t.Errorf("looked at again at %s, want it when a try is due, at %s", p.again, due)
			}
			if got := *h.memory.capacity(h.later(due.Sub(h.now)).pass()); got != 1 {
				t.Errorf("capacity %d when a try is due, want 1", got)
			}
		})
	}
}

// The listener was away while three jobs ran: their runners were taken for idle ones until the reports came.
func TestLateReportsOfJobsEndTheTrouble(t *testing.T) {
	h := newHistory(5)
	ended := h.add(3, runner{phase: v1alpha1.EphemeralRunnerPhaseFailed, reason: v1alpha1.ReasonRunnerExitedWithoutJob, registration: 7})
	h.pass()
	if !h.memory.trouble.isDegraded() {
		t.Fatal("three runners that exited without a job are no trouble")
	}
	ended.hasJob, ended.completed, ended.jobPatchID = true, true, h.patchID
	h.pass()
	if h.memory.trouble.isDegraded() || h.memory.trouble.failures != 0 {
		t.Errorf("%d failures after the report of a job, want none", h.memory.trouble.failures)
	}
}

// GitHub has refused to remove the runner because it had a job; nobody has reported it.
func TestRunnerThatGitHubCalledBusyDidNotExitWithoutAJob(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.memory.past(r).busy = true
	ended := *r
	ended.phase = v1alpha1.EphemeralRunnerPhaseSucceeded
	h.runners[0] = &ended
	h.later(time.Second).pass()
	if p := h.later(settleAfterEnd).publish(1).pass(); len(p.exitedIdle) != 0 || len(p.drop) != 1 {
		t.Errorf("taken for idle: %v, dropped: %v; want it dropped", names(p.exitedIdle), names(p.drop))
	}
}

func TestRunnersRefusedTogetherAreOneTry(t *testing.T) {
	h := newHistory(10)
	h.add(10, outdated)
	if p := h.pass(); p.again.Sub(h.now) != outdatedPauses[0] {
		t.Errorf("a probe in %s, want %s", p.again.Sub(h.now), outdatedPauses[0])
	}
}

// A runner is up for seconds before GitHub refuses it: as long as it has no job it is the one probe.
func TestProbeThatIsUpIsStillTheProbe(t *testing.T) {
	h := newHistory(10)
	h.add(1, outdated)
	h.pass()
	if p := h.later(outdatedPauses[0]).pass(); p.create != 1 {
		t.Fatalf("create %d when a probe is due, want 1", p.create)
	}
	h.add(1, idle)
	if p := h.later(time.Second).pass(); p.create != 0 {
		t.Errorf("create %d beside a probe that is up", p.create)
	}
}
