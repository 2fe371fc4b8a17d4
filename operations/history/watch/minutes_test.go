package watch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// TestAMinuteHasItsMost: two rounds of two jobs of 25 s, and then nothing.
func TestAMinuteHasItsMost(t *testing.T) {
	var minutes watch.Minutes
	looks := func(running, waiting int64) ledger.Sample {
		return ledger.Sample{Cluster: "c", Namespace: "n", Set: "s", Running: running, Waiting: waiting}
	}
	for seconds, seen := range []ledger.Sample{5: looks(0, 2), 8: looks(2, 0), 33: looks(0, 0), 70: looks(0, 1), 75: looks(1, 0),
		125: looks(0, 0), 302: looks(3, 0)} {
		if seen.Set != "" {
			minutes.Saw(seen, noon.Add(time.Duration(seconds)*time.Second))
		}
	}
	for at, want := range map[int]ledger.Sample{2: looks(1, 0), 3: looks(0, 0), 4: looks(0, 0), 5: looks(3, 0), 6: looks(3, 0)} {
		want.At = noon.Add(time.Duration(at) * time.Minute)
		if diff := cmp.Diff(want, minutes.In(want.At, looks(3, 0))); diff != "" {
			t.Errorf("minute %d (-want +got):\n%s", at, diff)
		}
	}
}

// TestASampleIsOfTheMinuteThatIsOver, so that it has all that was in it, and is dated to its begin.
func TestASampleIsOfTheMinuteThatIsOver(t *testing.T) {
	r := record(t, databasetest.SQLite(t))
	r.cluster.samples = []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s"}}
	for seconds := range 150 {
		r.cluster.samples[0].Running = int64(seconds / 60)
		r.after(time.Second)
	}
	want := []time.Time{noon, noon, noon.Add(time.Minute)}
	if diff := cmp.Diff(want, r.cluster.asked); diff != "" {
		t.Errorf("it asked for the minutes (-want +got):\n%s", diff)
	}
}
