package ephemeralrunnerset

import (
	"errors"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/pool"
)

func answered(r answer) pool.Call[answer] { return pool.Call[answer]{Result: r} }

func TestIdleRunnerIsAskedAboutWhileJobsWait(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	if p := h.pass(); len(p.lookUp) != 0 || p.again.Sub(h.now) != idlePatience {
		t.Fatalf("asked at once about %v, again in %s", names(p.lookUp), p.again.Sub(h.now))
	}
	if p := h.later(idlePatience).pass(); len(p.lookUp) != 1 {
		t.Fatal("want it asked about after 30 s")
	}
	h.past(r).asked = h.now
	h.past(r).note(answered(answerMissing), h.now)
	if p := h.later(missingAgain - time.Second).pass(); len(p.lookUp) != 0 {
		t.Error("asked again too early")
	}
	if p := h.later(time.Second).pass(); len(p.lookUp) != 1 {
		t.Error("want it asked about again 15 s after the answer that it is missing")
	}
	h.past(r).note(answered(answerMissing), h.now)
	if p := h.pass(); len(p.drop) != 1 {
		t.Error("want it deleted after two answers 15 s apart")
	}
}

func TestIdleRunnerThatIsRegisteredIsAskedAboutAgainLater(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.later(idlePatience).pass()
	h.past(r).asked = h.now
	h.past(r).note(answered(answerRegistered), h.now)
	if p := h.later(askAgain - time.Second).pass(); len(p.lookUp) != 0 {
		t.Error("asked again within a minute")
	}
	if p := h.later(time.Second).pass(); len(p.lookUp) != 1 {
		t.Error("want it asked about again after a minute")
	}
}

func TestIdleRunnerIsNotAskedAboutWhileNoJobWaits(t *testing.T) {
	h := newHistory(1)
	h.want.assignedJobs = 0 // minRunners 1
	h.add(1, idle)
	h.pass()
	if p := h.later(time.Hour).pass(); len(p.lookUp)+len(p.remove) != 0 {
		t.Error("an idle runner that nobody waits for was asked about")
	}
}

func TestRegistrationTimeout(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.past(r).asked = h.now.Add(defaultRegistrationTimeout - askAgain)
	if p := h.later(defaultRegistrationTimeout).pass(); len(p.remove) != 1 {
		t.Error("want GitHub asked to remove a runner that got no job for so long")
	}
}

func TestWorkingRunnerIsAskedAboutEveryTenMinutes(t *testing.T) {
	h := newHistory(1)
	h.add(1, busyOne)
	h.pass()
	if p := h.later(workingAsk - time.Second).pass(); len(p.lookUp) != 0 {
		t.Error("asked too early")
	}
	if p := h.later(time.Second).pass(); len(p.lookUp) != 1 {
		t.Error("want a lost completion looked for")
	}
}

func TestCompletedRunnerThatLivesOnIsRemoved(t *testing.T) {
	h := newHistory(0)
	r := h.add(1, runner{phase: busyOne.phase, registration: 7, hasJob: true, completed: true, jobPatchID: 1})
	h.pass()
	if p := h.later(lingerPatience).pass(); len(p.remove) != 1 {
		t.Fatal("want GitHub asked after a minute")
	}
	h.past(r).asked = h.now
	h.past(r).note(answered(answerBusy), h.now)
	if p := h.later(lingerPatience - time.Second).pass(); len(p.remove) != 0 {
		t.Error("asked again within a minute")
	}
	if p := h.later(time.Second).pass(); len(p.remove) != 1 {
		t.Error("want GitHub asked again after a minute")
	}
}

func TestQuestionWithoutAnswerIsRepeatedLater(t *testing.T) {
	h := newHistory(0)
	r := h.add(1, idle)
	h.pass()
	h.later(surplusPatience).publish(0).pass()
	h.past(r).note(pool.Call[answer]{Err: errors.New("no answer")}, h.now)
	if p := h.pass(); len(p.remove) != 0 {
		t.Error("GitHub is asked again at once")
	}
	if p := h.later(retryQuestion).pass(); len(p.remove) != 1 {
		t.Error("want GitHub asked again")
	}
}
