package ledger_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func sample(set string, after time.Duration, running int64) ledger.Sample {
	return ledger.Sample{Cluster: "c", Namespace: "n", Set: set, At: noon.Add(after), Running: running,
		EffectiveMax: new(int64(10)), LimitedReason: "Quota"}
}

func TestSamplesOfATimeBeginBeforeIt(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		all := []ledger.Sample{
			sample("a", 0, 1), sample("a", 10*time.Minute, 2), sample("a", 20*time.Minute, 3), sample("a", 30*time.Minute, 4),
			sample("b", 15*time.Minute, 5), sample("z", -2*time.Hour, 6),
		}
		for range 2 { // two ledgers
			if err := l.PutSamples(t.Context(), all); err != nil {
				t.Fatal(err)
			}
		}
		from := noon.Add(15 * time.Minute)
		got, err := rowsOfPage(l.Samples(t.Context(), ledger.Filter{From: from, To: noon.Add(30 * time.Minute)}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]ledger.Sample{all[1], all[2], all[4]}, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		sets, err := l.Sets(t.Context(), ledger.Filter{From: from})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]ledger.Sample{all[3], all[4]}, sets); diff != "" {
			t.Errorf("sets (-want +got):\n%s", diff)
		}
	})
}

// TestTwoSamplesOfAMinuteAreItsMost: two ledgers, and one that was restarted within the minute.
func TestTwoSamplesOfAMinuteAreItsMost(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		first, second := sample("a", 0, 3), sample("a", 0, 1)
		first.Waiting, second.Waiting, second.LimitedReason, second.Idle = 1, 4, "", 2
		for _, one := range []ledger.Sample{first, second} {
			if err := l.PutSamples(t.Context(), []ledger.Sample{one}); err != nil {
				t.Fatal(err)
			}
		}
		want := second
		want.Running = 3
		got, err := rowsOfPage(l.Samples(t.Context(), ledger.Filter{}))
		if diff := cmp.Diff([]ledger.Sample{want}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestGapsAreWhereNobodyLooked(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		begin := func(after time.Duration) *ledger.Gap {
			t.Helper()
			gap, err := l.Begin(t.Context(), "c", noon.Add(after))
			if err != nil {
				t.Fatal(err)
			}
			return gap
		}
		if gap := begin(0); gap != nil {
			t.Errorf("the first ledger has a gap %v", gap)
		}
		if err := l.Beat(t.Context(), "c", noon.Add(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if gap := begin(20 * time.Second); gap != nil {
			t.Errorf("a quick restart has a gap %v", gap)
		}
		stopped := ledger.Gap{Cluster: "c", From: noon.Add(20 * time.Second), To: noon.Add(time.Hour),
			Reason: ledger.GapStopped}
		if diff := cmp.Diff(&stopped, begin(time.Hour)); diff != "" {
			t.Errorf("gap (-want +got):\n%s", diff)
		}
		back := ledger.Gap{Cluster: "c", From: noon.Add(30 * time.Minute), To: noon.Add(time.Hour),
			Reason: ledger.GapClockSetBack}
		if diff := cmp.Diff(&back, begin(30*time.Minute)); diff != "" {
			t.Errorf("gap (-want +got):\n%s", diff)
		}
		if gap, _ := l.Begin(t.Context(), "other", noon.Add(5*time.Hour)); gap != nil {
			t.Errorf("another cluster has the gap %v", gap)
		}
		gaps, err := rowsOfPage(l.Gaps(t.Context(), ledger.Filter{From: noon.Add(10 * time.Minute), To: noon.Add(20 * time.Minute)}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]ledger.Gap{stopped}, gaps); diff != "" {
			t.Errorf("gaps (-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsOlderThanTheRetentionGoes(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		const days = 24 * time.Hour
		put(t, l, finished(1, 0), finished(2, 3*24*60))
		if err := l.PutSamples(t.Context(), []ledger.Sample{sample("a", 0, 1), sample("a", 3*days, 1)}); err != nil {
			t.Fatal(err)
		}
		addUp(t, l)
		if deleted, err := l.Expire(t.Context(), "c", noon.Add(4*days), 2*days); err != nil || deleted < 3 {
			t.Errorf("%d rows were deleted, %v", deleted, err)
		}
		if left := jobs(t, l, ledger.Filter{}); len(left) != 1 || left[0].RunnerUID != "uid-0002" {
			t.Errorf("jobs are left: %v", left)
		}
		samples, _ := rowsOfPage(l.Samples(t.Context(), ledger.Filter{}))
		usage, _ := l.UsageBy(t.Context(), ledger.ByDay, ledger.Filter{}, ledger.Prices{})
		if len(samples) != 1 || len(usage) != 1 || usage[0].Jobs != 1 {
			t.Errorf("left are samples %v and usage %v", samples, usage)
		}
	})
}

func TestTheFileBecomesSmallerWithTheRetention(t *testing.T) {
	at := databasetest.SQLite(t)
	l := open(t, at)
	var many []ledger.Job
	for i := range 6000 {
		many = append(many, finished(i, 0))
	}
	put(t, l, many...)
	if _, err := l.Expire(t.Context(), "c", noon, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	before := size(t, at)
	if _, err := l.Expire(t.Context(), "c", noon.Add(48*time.Hour), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if after := size(t, at); after > before/10 {
		t.Errorf("the file had %d bytes with 6000 jobs, and has %d without", before, after)
	}
}

func size(t *testing.T, at string) int64 {
	t.Helper()
	info, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
