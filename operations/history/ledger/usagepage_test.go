package ledger_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// TestNoAdviceWhereWorkIsDoneElsewhere: the runner's container uses 421 MiB of 9 GiB, and the build in dind 7 GiB. That
// some runs were measured before nothing knew of that changes nothing.
func TestNoAdviceWhereWorkIsDoneElsewhere(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		before, built, plain := finished(1, 0), finished(2, 20), finished(3, 40)
		built.Elsewhere, plain.Name = ledger.ElsewhereDocker, "plain"
		put(t, l, before, built, plain)
		addUp(t, l)
		sizes, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{}, ledger.Prices{{CPUHour: 1, GiBHour: 1}}))
		if err != nil || len(sizes) != 2 {
			t.Fatalf("sizes are %+v, %v", sizes, err)
		}
		if advised := sizes[0]; advised.Name != "plain" || advised.Saving <= 0 || advised.Elsewhere != 0 {
			t.Errorf("of a job that is measured as a whole it says %+v", advised)
		}
		if silent := sizes[1]; silent.Elsewhere != 1 || silent.Measured != 0 || silent.Saving != 0 || silent.Jobs != 2 ||
			silent.PeakMemoryBytes != nil || silent.CPUAverageMillis != nil || silent.ThrottledPercent != nil {
			t.Errorf("of a job that is done elsewhere it says %+v", silent)
		}
		usage, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, ledger.Prices{})
		if err != nil || usage.Rows[0].JobsWithKnownUsage != 2 {
			t.Errorf("usage is %+v, %v", usage, err)
		}
	})
}

// pagesOf returns the rows of all pages of usage by job, each as long as the filter says but for the last.
func pagesOf(t *testing.T, l *ledger.Ledger, filter ledger.Filter, prices ledger.Prices) (rows []ledger.Usage) {
	t.Helper()
	for {
		page, err := l.Usage(t.Context(), ledger.ByJob, filter, prices)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if filter.After = page.Next; page.Next == "" {
			return rows
		}
		if len(page.Rows) != filter.Limit {
			t.Errorf("a page has %d rows", len(page.Rows))
		}
	}
}

// TestPagesOfUsageHaveEveryKindASingleTime: 1,500 kinds of jobs, of which an answer without pages names 999. The sum of
// all is the same whatever they are added up by.
func TestPagesOfUsageHaveEveryKindASingleTime(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		const kinds = 1500
		var many []ledger.Job
		for i := range kinds {
			job := finished(i, 0)
			job.Set, job.Name = fmt.Sprint("set-", i%5), fmt.Sprint("job-", i)
			job.CPURequestMillis = new(int64(1000 + i/2))
			many = append(many, job)
		}
		put(t, l, many...)
		addUp(t, l)
		prices, seen, last, cost := ledger.Prices{{CPUHour: 1}}, map[string]bool{}, math.MaxFloat64, 0.0
		for _, row := range pagesOf(t, l, ledger.Filter{Limit: 400}, prices) {
			if seen[row.Name] || row.Cost > last {
				t.Errorf("%s is there twice, or after a cheaper one", row.Name)
			}
			seen[row.Name], last = true, row.Cost
			cost += row.Cost
		}
		all, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{}, prices)
		if err != nil || len(seen) != kinds || len(all.Rows) != 1 || all.Rows[0].Jobs != kinds ||
			math.Abs(all.Rows[0].Cost-cost) > 1e-6 {
			t.Errorf("%d kinds cost %f, and all come to %+v, %v", len(seen), cost, all.Rows, err)
		}
		none, err := l.Usage(t.Context(), ledger.ByAll, ledger.Filter{Set: "nope"}, prices)
		if err != nil || len(none.Rows) != 1 || none.Rows[0].Jobs != 0 {
			t.Errorf("no job comes to %+v, %v", none, err)
		}
		var wrong *ledger.FilterError
		if _, err := l.Usage(t.Context(), ledger.ByJob, ledger.Filter{After: "x"}, prices); !errors.As(err, &wrong) {
			t.Errorf("a page that can't be gives %v", err)
		}
	})
}
