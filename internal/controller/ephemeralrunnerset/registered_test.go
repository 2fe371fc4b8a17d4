package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What is known of a runner that lost its pod before it had a job: it has another pod, and may have another registration.

// GitHub's answer that a registration is removed says nothing of the one that the runner has got meanwhile.
func TestAnswerAboutAFormerRegistrationIsNotHeard(t *testing.T) {
	inBubble(t, func(s *site) {
		s.makeSurplus()
		s.reconcile()
		r := s.runners()[0]
		r.Status.RunnerID++
		if err := s.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		s.reconcile()
		if s.asked != 2 || s.requests["delete"] != 0 {
			t.Errorf("GitHub asked %d times, %d deletions; want it asked about the new registration, and none", s.asked, s.requests["delete"])
		}
		s.reconcile()
		if s.asked != 2 || s.requests["delete"] != 1 {
			t.Errorf("GitHub asked %d times, %d deletions; want 2 and 1", s.asked, s.requests["delete"])
		}
	}, newSet(1))
}

func TestNewRegistrationIsNotMissingBecauseTheFormerWas(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	h.later(idlePatience).pass()
	h.past(r).asked = h.now
	h.past(r).note(answered(answerMissing), h.now)
	r.registration++
	h.later(missingAgain).pass()
	h.past(r).note(answered(answerMissing), h.now)
	if p := h.pass(); len(p.drop) != 0 {
		t.Errorf("dropped after one answer about its registration")
	}
}

func TestWaitForAJobBeginsWithThePod(t *testing.T) {
	h := newHistory(1)
	r := h.add(1, idle)
	h.pass()
	r.phase = v1alpha1.EphemeralRunnerPhasePending
	h.later(defaultRegistrationTimeout - time.Second).pass()
	r.phase = v1alpha1.EphemeralRunnerPhaseRunning
	h.later(time.Minute)
	if p := h.pass(); len(p.remove)+len(p.lookUp) != 0 {
		t.Errorf("removed %v, asked about %v as soon as it was up again", names(p.remove), names(p.lookUp))
	}
	if p := h.later(idlePatience).pass(); len(p.lookUp) != 1 {
		t.Error("want it asked about after 30 s")
	}
}
