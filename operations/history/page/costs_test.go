package page_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
	"github.com/harrier-ci/harrier/operations/history/prices"
)

// priced serves pages of a ledger at noon with these rules and budgets, in which two repositories have each used a CPU for
// four hours, and one of them a GPU for another.
func priced(t *testing.T, rules prices.Rules, budgets ...prices.Budget) site {
	t.Helper()
	l, err := ledger.Open(t.Context(), databasetest.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for uid, job := range map[string]ledger.Job{"1": {Repository: "acme/app"}, "2": {Repository: "acme/lib"},
		"3": {Repository: "acme/lib", ExtendedResources: "nvidia.com/gpu=1", Started: noon.Add(-time.Hour)}} {
		if job.RunnerUID, job.Cluster, job.Namespace, job.Set, job.Runner = uid, "c", "n", "s", "r"; job.Started.IsZero() {
			job.Started = noon.Add(-4 * time.Hour)
		}
		job.At, job.Finished, job.CPURequestMillis = job.Started, noon, new(int64(1000))
		if err := l.Put(t.Context(), []ledger.Job{job}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := site{ledger: l, clock: clocktesting.NewFakeClock(noon.Add(20 * time.Second))}
	s.Server = httptest.NewServer(page.Handler(page.Options{Ledger: l, Prices: rules, Budgets: budgets, Name: pagetest.Name,
		Clock: s.clock, Log: logr.Discard()}))
	t.Cleanup(s.Close)
	return s
}

// TestTheShareWithoutAPriceIsTold in all and in its row, and never as a cost of 0.
func TestTheShareWithoutAPriceIsTold(t *testing.T) {
	s := priced(t, prices.Rules{{CPUHour: 10}})
	_, body := s.get(t, "/usage")
	for _, want := range []string{"Known cost 80.00", "acme/lib 2 0 0 5.00 5.00 0 40.00 20 % unknown",
		"Of 1.00 of 9.00 hours (11 %) the cost is unknown",
		"1.00 hours on nodes that nobody has seen, requesting nvidia.com/gpu"} {
		if !strings.Contains(text(body), want) {
			t.Errorf("the page lacks %q: %s", want, text(body))
		}
	}
	s = priced(t, prices.Rules{{NodeLabels: map[string]prices.Values{"kubernetes.io/arch": {"arm64"}}, CPUHour: 10}})
	if _, body = s.get(t, "/usage"); !strings.Contains(text(body), "acme/app 1 0 0 4.00 4.00 0 100 % unknown") {
		t.Errorf("where nothing is known it says %s", text(body))
	}
	s = priced(t, prices.Rules{{CPUHour: 10, ResourceHours: map[string]float64{"nvidia.com/gpu": 5}}})
	if _, body = s.get(t, "/usage"); strings.Contains(text(body), "unknown,") || !strings.Contains(text(body), "Cost 95.00") {
		t.Errorf("where all is known it says %s", text(body))
	}
}

// TestBudgetsHaveALine each: of the month so far, or of one that is over, and of what the page is about.
func TestBudgetsHaveALine(t *testing.T) {
	s := priced(t, prices.Rules{{CPUHour: 10}}, prices.Budget{Repository: "acme/lib", PerMonth: 50}, prices.Budget{Namespace: "n", PerMonth: 40})
	for path, want := range map[string]string{
		"/usage":                     "acme/lib March 2026 so far 40.00 50.00 80 % 20 % namespace n March 2026 so far 80.00 40.00 200 %, exceeded 11 %",
		"/usage?repository=acme/lib": "acme/lib March 2026 so far 40.00 50.00 80 % 20 % Of jobs",
		"/usage?to=2026-02-20T00:00:00Z&from=2026-02-10T00:00:00Z": "acme/lib February 2026 0.00 50.00 0 % namespace n February 2026 0.00 40.00 0 %",
	} {
		if _, body := s.get(t, path); !strings.Contains(text(body), want) {
			t.Errorf("%s lacks %q: %s", path, want, text(body))
		}
	}
	if _, body := priced(t, prices.Rules{{CPUHour: 10}}).get(t, "/usage"); strings.Contains(body, "Budget") {
		t.Errorf("without budgets it has some: %s", body)
	}
}
