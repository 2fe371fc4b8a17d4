package watch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// The metric counts this cluster's jobs that got worse, and is looked up again only hours later.
func TestMetricsSayHowMuchGotWorse(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		r := record(t, at)
		var jobs []ledger.Job
		for day := 1; day <= 28; day++ {
			took := time.Minute
			if day <= 7 {
				took = 2 * time.Minute
			}
			for number := range 5 {
				for _, cluster := range []string{"c", "other"} {
					finished := noon.AddDate(0, 0, -day).Add(time.Duration(number) * time.Minute)
					jobs = append(jobs, ledger.Job{RunnerUID: fmt.Sprint(cluster, day, ".", number), Cluster: cluster, Namespace: "n", Set: "s",
						Repository: "acme/web", Workflow: "acme/web/ci.yml", Name: "test", Event: "push", Result: "succeeded",
						At: finished.Add(-took), Started: finished.Add(-took), Finished: finished})
				}
			}
		}
		if err := r.Ledger.Put(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		if err := r.Ledger.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		check := func(slower float64) {
			t.Helper()
			for what, want := range map[string]float64{"Slower": slower, "FailsMore": 0, "WaitsLonger": 0} {
				if got := testutil.ToFloat64(r.Metrics.Changes.WithLabelValues(what)); got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
		}
		r.after(time.Second)
		check(1)
		r.after(5 * time.Hour)
		r.after(40 * 24 * time.Hour)
		check(0)
	})
}
