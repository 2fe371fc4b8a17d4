package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestFailuresAreReplacedWithGrowingPauses(t *testing.T) {
	h := newHistory(1)
	for round, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		h.add(1, failedOne)
		p := h.pass()
		if p.create != 0 || p.again.Sub(h.now) != want {
			t.Fatalf("round %d: create %d, again in %s, want 0 in %s", round+1, p.create, p.again.Sub(h.now), want)
		}
		if p = h.later(want).pass(); p.create != 1 {
			t.Fatalf("round %d: create %d after the pause, want 1", round+1, p.create)
		}
	}
}

func TestPauseIsBounded(t *testing.T) {
	trouble := trouble{rounds: 500}
	if got := trouble.pause(); got != longestPause {
		t.Errorf("pause %s, want %s", got, longestPause)
	}
}

// A hundred runners that fail together are one round, and after it one runner at a time is tried.
func TestDegradedSetTriesOneAtATime(t *testing.T) {
	h := newHistory(100)
	h.add(100, failedOne)
	h.pass()
	if p := h.later(firstPause).pass(); p.create != 1 {
		t.Fatalf("create %d, want one try", p.create)
	}
	h.add(1, starting)
	if p := h.pass(); p.create != 0 {
		t.Errorf("create %d while the try is under way", p.create)
	}
	h.runners[len(h.runners)-1].hasJob = true
	if p := h.pass(); p.create != 99 {
		t.Errorf("create %d after a runner took a job, want the other 99", p.create)
	}
}

func TestDegradedCarriesThePodsReasonAndHeals(t *testing.T) {
	h := newHistory(3)
	h.add(3, failedOne)
	h.pass()
	got := h.degraded(newSet(0))
	if got.Status != "True" || got.Reason != "ErrImagePull" {
		t.Errorf("condition %+v", got)
	}
	h.memory.note(h.runners, h.patchID, "another template", h.now)
	if got := h.degraded(newSet(0)); got.Status != "False" {
		t.Errorf("condition %+v after the template changed", got)
	}
}

func TestOutdatedSetStopsButForAProbe(t *testing.T) {
	h := newHistory(10)
	for _, pause := range []time.Duration{5, 10, 20, 30, 30} {
		h.add(1, outdated)
		if p := h.pass(); p.create != 0 || p.again.Sub(h.now) != pause*time.Minute {
			t.Fatalf("create %d, again in %s, want a probe in %d minutes", p.create, p.again.Sub(h.now), pause)
		}
		if p := h.later(pause * time.Minute).pass(); p.create != 1 {
			t.Fatalf("create %d after %d minutes, want one probe", p.create, pause)
		}
	}
}

func TestHistoryIsLimited(t *testing.T) {
	h := newHistory(0)
	h.add(5, failedOne)
	if p := h.pass(); len(p.drop) != 2 {
		t.Errorf("drop %v of 5 failed runners, want the 2 oldest", names(p.drop))
	}
	if p := h.later(historyAge).pass(); len(p.drop) != 5 {
		t.Errorf("drop %v after an hour, want all", names(p.drop))
	}
}

func TestHistoryEndsWhenALaterRunnerWorks(t *testing.T) {
	h := newHistory(1)
	h.add(1, failedOne)
	h.pass()
	h.later(time.Minute)
	h.add(1, busyOne)
	if p := h.pass(); len(p.drop) != 1 {
		t.Errorf("drop %v, want the failed runner", names(p.drop))
	}
}

func TestOutdatedEvidenceSurvivesEveryLimit(t *testing.T) {
	h := newHistory(0)
	h.want.failedHistory = 0
	h.add(2, outdated)
	if p := h.later(24 * time.Hour).pass(); len(p.drop) != 1 {
		t.Errorf("drop %v, want all but the newest", names(p.drop))
	}
}

func TestCapacityWhileDegraded(t *testing.T) {
	h := newHistory(100)
	h.add(3, failedOne)
	h.add(2, busyOne)
	h.add(3, failedOne)
	h.runners[3].created = start.Add(-time.Minute)
	p := h.pass()
	var status v1alpha1.EphemeralRunnerSetStatus
	h.describe(&status, &v1alpha1.EphemeralRunnerSet{}, h.runners, p)
	if status.Capacity == nil || *status.Capacity != 2 {
		t.Errorf("capacity %v, want the two that run", status.Capacity)
	}
}
