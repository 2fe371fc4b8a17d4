package ephemeralrunnerset

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
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
	r := h.add(1, lingering)
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

// A report came late, and of an earlier registration: nothing is recorded of the present one, and nobody knows an id to ask
// about. It must not take a place of maxRunners forever.
func TestCompletedRunnerWithoutARecordedRegistrationIsDropped(t *testing.T) {
	for name, phase := range map[string]v1alpha1.EphemeralRunnerPhase{
		"no pod yet": "", "pending": v1alpha1.EphemeralRunnerPhasePending, "running": v1alpha1.EphemeralRunnerPhaseRunning,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1)
			h.want.maxRunners = 1
			shape := lingering
			shape.phase, shape.registration = phase, 0
			h.add(1, shape)
			h.pass()
			p := h.later(lingerPatience - time.Second).pass()
			if len(p.going()) != 0 || p.again.Sub(h.now) != time.Second {
				t.Errorf("within the minute: drop %v, again in %s", names(p.drop), p.again.Sub(h.now))
			}
			if p := h.later(time.Second).pass(); len(p.drop) != 1 || len(p.remove)+len(p.lookUp) != 0 {
				t.Errorf("drop %v, ask about %v and %v; want it dropped", names(p.drop), names(p.remove), names(p.lookUp))
			}
		})
	}
}

// No question about a runner comes before GitHub wants to be asked again, whatever it is asked for.
func TestQuestionsWaitForAsLongAsGitHubWants(t *testing.T) {
	const wanted = workingAsk + 2*time.Minute // longer than any pause of ours, and a failed runner is held for longer
	for name, test := range map[string]struct {
		shape    runner
		replicas int
	}{
		"surplus":           {shape: idle},
		"up without a job":  {shape: idle, replicas: 1},
		"working":           {shape: busyOne, replicas: 1},
		"completed":         {shape: lingering},
		"failed with a job": {shape: failedJob, replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(test.replicas)
			r := h.add(1, test.shape)
			h.pass()
			limited := &actions.RateLimitedError{Until: h.now.Add(wanted), Err: &actions.Error{StatusCode: http.StatusTooManyRequests}}
			h.past(r).note(pool.Call[answer]{Err: fmt.Errorf("ask GitHub: %w", limited)}, h.now)
			if got := h.outcomeOf(); got.after != wanted || got.what != "remove" && got.what != "look up" {
				t.Errorf("%v; want GitHub asked after %s", got, wanted)
			}
		})
	}
}

func TestRetryAt(t *testing.T) {
	limited := func(wait time.Duration) error {
		return &actions.RateLimitedError{Until: start.Add(wait), Err: errNoAnswer}
	}
	for name, test := range map[string]struct {
		err  error
		want time.Duration
	}{
		"no answer":                        {errNoAnswer, retryQuestion},
		"to be left alone for an hour":     {limited(time.Hour), time.Hour},
		"to be left alone for a moment":    {limited(time.Second), retryQuestion},
		"to be left alone, until long ago": {limited(-time.Hour), retryQuestion},
	} {
		if got := retryAt(test.err, start).Sub(start); got != test.want {
			t.Errorf("%s: asked again after %s, want %s", name, got, test.want)
		}
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
