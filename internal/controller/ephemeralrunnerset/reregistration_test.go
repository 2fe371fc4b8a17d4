package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A runner that lost its pod before it had a job gets another pod, and may get another registration.

// GitHub's answer that a registration is removed says nothing about the one that the runner has got in the meantime.
func TestAnswerAboutAFormerRegistrationIsIgnored(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.makeSurplus()
		f.reconcile()
		r := f.runners()[0]
		r.Status.RunnerID++
		if err := f.api.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 0 {
			t.Errorf("GitHub asked %d times, %d deletions; want it asked about the new registration, and none", f.asked, f.requests["delete"])
		}
		f.reconcile()
		if f.asked != 2 || f.requests["delete"] != 1 {
			t.Errorf("GitHub asked %d times, %d deletions; want 2 and 1", f.asked, f.requests["delete"])
		}
	}, newSet(1))
}

func TestNewRegistrationIsNotMissingBecauseTheFormerWas(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	s.later(idlePatience).pass()
	s.answer(r, answerMissing)
	r.registrationID++
	s.later(askMissingAgainAfter).pass()
	s.answer(r, answerMissing)
	if p := s.pass(); len(p.with(actionDelete)) != 0 {
		t.Errorf("deleted after one answer about its registration")
	}
}

func TestWaitForAJobBeginsWithThePod(t *testing.T) {
	s := newScenario(1)
	r := s.add(1, idle)
	s.pass()
	r.phase = v1alpha1.EphemeralRunnerPhasePending
	s.later(defaultRegistrationTimeout - time.Second).pass()
	r.phase = v1alpha1.EphemeralRunnerPhaseRunning
	s.later(time.Minute)
	if p := s.pass(); len(p.with(actionDeregister))+len(p.with(actionLookUp)) != 0 {
		t.Errorf("removed %v, asked about %v as soon as it was up again", names(p.with(actionDeregister)), names(p.with(actionLookUp)))
	}
	if p := s.later(idlePatience).pass(); len(p.with(actionLookUp)) != 1 {
		t.Error("want it asked about after 30 s")
	}
}
