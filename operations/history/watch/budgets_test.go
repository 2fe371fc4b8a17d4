package watch_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// TestMetricsSayWhatIsSpent of this cluster's budgets in a month of UTC, and begin again with the next month.
func TestMetricsSayWhatIsSpent(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		r := record(t, at)
		r.Prices = prices.Rules{{CPUHour: 3}}
		r.Budgets = []prices.Budget{{Repository: "acme/web", PerMonth: 20}, {Namespace: "n", PerMonth: 50}, {Namespace: "empty", PerMonth: 1}}
		begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for i, job := range []struct {
			cluster, repository, resources string
			finished                       time.Time
		}{
			{"c", "acme/web", "", begin}, {"c", "acme/web", "", begin.Add(-time.Second)}, {"c", "acme/web", "", noon},
			{"c", "acme/api", "", noon}, {"c", "acme/web", "nvidia.com/gpu=1", noon}, {"other", "acme/web", "", noon},
		} {
			if err := r.Ledger.Put(t.Context(), []ledger.Job{{RunnerUID: string(rune('a' + i)), Cluster: job.cluster, Namespace: "n",
				Set: "s", Repository: job.repository, At: job.finished.Add(-time.Hour), Started: job.finished.Add(-time.Hour),
				Finished: job.finished, CPURequestMillis: new(int64(1000)), ExtendedResources: job.resources}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Ledger.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		check := func(spent map[[2]string]float64, unknown float64) {
			t.Helper()
			for of, want := range spent {
				if got := testutil.ToFloat64(r.Metrics.BudgetSpent.WithLabelValues(of[0], of[1])); got != want {
					t.Errorf("of the budget of %v %v is spent, want %v", of, got, want)
				}
			}
			if got := testutil.ToFloat64(r.Metrics.BudgetUnknown.WithLabelValues("", "acme/web")); got < unknown-1e-9 || got > unknown+1e-9 {
				t.Errorf("the share %v is unknown, want %v", got, unknown)
			}
			if got := testutil.ToFloat64(r.Metrics.BudgetPerMonth.WithLabelValues("n", "")); got != 50 {
				t.Errorf("the budget is %v", got)
			}
		}
		r.after(time.Second)
		check(map[[2]string]float64{{"", "acme/web"}: 6, {"n", ""}: 9, {"empty", ""}: 0}, 1.0/3)
		r.clock.SetTime(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
		r.after(time.Second)
		check(map[[2]string]float64{{"", "acme/web"}: 0, {"n", ""}: 0, {"empty", ""}: 0}, 0)
	})
}
