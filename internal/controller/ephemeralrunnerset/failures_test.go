package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestFailuresAreReplacedWithGrowingPauses(t *testing.T) {
	s := newScenario(1)
	for round, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s.add(1, failedOne)
		p := s.pass()
		if p.create != 0 || p.requeueAt.Sub(s.now) != want {
			t.Fatalf("round %d: create %d, again in %s, want 0 in %s", round+1, p.create, p.requeueAt.Sub(s.now), want)
		}
		if p = s.later(want).pass(); p.create != 1 {
			t.Fatalf("round %d: create %d after the pause, want 1", round+1, p.create)
		}
	}
}

func TestPauseIsBounded(t *testing.T) {
	failures := runnerFailures{rounds: 500}
	if got := failures.pause(); got != longestPause {
		t.Errorf("pause %s, want %s", got, longestPause)
	}
}

// A hundred runners that fail together are one round; after it one runner at a time is tried.
func TestDegradedSetTriesOneAtATime(t *testing.T) {
	s := newScenario(100)
	s.add(100, failedOne)
	s.pass()
	if p := s.later(firstPause).pass(); p.create != 1 {
		t.Fatalf("create %d, want one try", p.create)
	}
	s.add(1, starting)
	if p := s.pass(); p.create != 0 {
		t.Errorf("create %d while the try is under way", p.create)
	}
	s.runners[len(s.runners)-1].hadJob = true
	if p := s.pass(); p.create != 99 {
		t.Errorf("create %d after a runner took a job, want the other 99", p.create)
	}
}

func TestDegradedCarriesThePodsReasonAndHeals(t *testing.T) {
	s := newScenario(3)
	s.add(3, failedOne)
	p := s.pass()
	got := s.degraded(newSet(0), p)
	if got.Status != "True" || got.Reason != "ErrImagePull" {
		t.Errorf("condition %+v", got)
	}
	s.history.note(s.runners, s.patchID, "another template", s.now)
	if got := s.degraded(newSet(0), p); got.Status != "False" {
		t.Errorf("condition %+v after the template changed", got)
	}
}

func TestOutdatedSetStopsButForAProbe(t *testing.T) {
	s := newScenario(10)
	for _, pause := range []time.Duration{5, 10, 20, 30, 30} {
		s.add(1, outdated)
		if p := s.pass(); p.create != 0 || p.requeueAt.Sub(s.now) != pause*time.Minute {
			t.Fatalf("create %d, again in %s, want a probe in %d minutes", p.create, p.requeueAt.Sub(s.now), pause)
		}
		if p := s.later(pause * time.Minute).pass(); p.create != 1 {
			t.Fatalf("create %d after %d minutes, want one probe", p.create, pause)
		}
	}
}

func TestHistoryIsLimited(t *testing.T) {
	s := newScenario(0)
	s.add(5, failedOne)
	if p := s.pass(); len(p.with(actionDelete)) != 2 {
		t.Errorf("delete %v of 5 failed runners, want the 2 oldest", names(p.with(actionDelete)))
	}
	if p := s.later(maxFailedHistoryAge).pass(); len(p.with(actionDelete)) != 5 {
		t.Errorf("delete %v after an hour, want all", names(p.with(actionDelete)))
	}
}

func TestHistoryEndsWhenALaterRunnerWorks(t *testing.T) {
	s := newScenario(1)
	s.add(1, failedOne)
	s.pass()
	s.later(time.Minute)
	s.add(1, busyOne)
	if p := s.pass(); len(p.with(actionDelete)) != 1 {
		t.Errorf("delete %v, want the failed runner", names(p.with(actionDelete)))
	}
}

func TestOutdatedEvidenceSurvivesEveryLimit(t *testing.T) {
	s := newScenario(0)
	s.want.failedHistoryLimit = 0
	s.add(2, outdated)
	if p := s.later(24 * time.Hour).pass(); len(p.with(actionDelete)) != 1 {
		t.Errorf("delete %v, want all but the newest", names(p.with(actionDelete)))
	}
}

func TestCapacityWhileDegraded(t *testing.T) {
	s := newScenario(100)
	s.add(3, failedOne)
	s.add(2, busyOne)
	s.add(3, failedOne)
	s.runners[3].createdAt = start.Add(-time.Minute)
	p := s.pass()
	var status v1alpha1.EphemeralRunnerSetStatus
	s.describe(&status, &v1alpha1.EphemeralRunnerSet{}, s.runners, p)
	if diff := cmp.Diff(new(3), status.Capacity); diff != "" {
		t.Errorf("capacity (-want +got), want the two that run and one:\n%s", diff)
	}
}
