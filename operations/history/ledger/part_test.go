package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// allPages reads a table page by page, and returns it with what the first page says that there is in all.
func allPages[T any](t *testing.T, limit int, ask func(ledger.Filter) (ledger.Part[T], error)) (rows []T, total int64) {
	t.Helper()
	filter := ledger.Filter{Limit: limit}
	for {
		page, err := ask(filter)
		if err != nil {
			t.Fatal(err)
		}
		if rows == nil {
			total = page.Total
		}
		rows = append(rows, page.Rows...)
		if filter.After = page.Next; page.Next == "" {
			return rows, total
		}
	}
}

// manyKinds are jobs of 1,500 names in five sets, as many of each name as its place among seven says.
func manyKinds() (all []ledger.Job) {
	for i := range 1500 {
		for again := range 1 + i%7 {
			job := finished(len(all), again)
			job.Set, job.Name = fmt.Sprint("set-", i%5), fmt.Sprint("job-", i)
			job.CPURequestMillis = new(int64(1000 + i))
			all = append(all, job)
		}
	}
	return all
}

// Pages of waits have each group a single time, with all its rows, those with most jobs first; a whole answer has 999 of
// 1,500 by name.
func TestPagesOfWaitsHaveEveryGroupASingleTime(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		put(t, l, manyKinds()...)
		addUp(t, l)
		rows, total := allPages(t, 400, func(filter ledger.Filter) (ledger.Part[ledger.Wait], error) {
			return l.WaitsBy(t.Context(), ledger.ByJob, filter)
		})
		seen, jobs, last := map[string]bool{}, int64(0), int64(7)
		for _, row := range rows {
			if row.Phase != ledger.WholeWait {
				continue
			}
			if seen[row.Name] || row.Jobs > last || row.MeanSeconds != 50 {
				t.Errorf("%+v is there twice, after one with fewer jobs, or not as the jobs were", row)
			}
			seen[row.Name], last = true, row.Jobs
			jobs += row.Jobs
		}
		if len(seen) != 1500 || total != 1500 || jobs != int64(len(manyKinds())) {
			t.Errorf("%d groups of %d, with %d jobs", len(seen), total, jobs)
		}
		for by, want := range map[ledger.By]int64{ledger.BySet: 5, ledger.ByWorkflow: 1, ledger.ByDay: 1, ledger.ByAll: 1} {
			rows, total := allPages(t, 2, func(filter ledger.Filter) (ledger.Part[ledger.Wait], error) {
				return l.WaitsBy(t.Context(), by, filter)
			})
			whole, err := rowsOfPage(l.WaitsBy(t.Context(), by, ledger.Filter{}))
			if err != nil || total != want || len(rows) != len(whole) {
				t.Errorf("by %s %d rows of %d groups, want %d of %d; %v", by, len(rows), total, len(whole), want, err)
			}
		}
	})
}

// Pages of sizes have every kind, the dearest first; what they say of it is what the whole table says.
func TestPagesOfSizesHaveEveryKindASingleTime(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		put(t, l, manyKinds()...)
		addUp(t, l)
		prices := ledger.Prices{{CPUHour: 1}}
		rows, total := allPages(t, 700, func(filter ledger.Filter) (ledger.Part[ledger.Size], error) {
			return l.Sizes(t.Context(), filter, prices)
		})
		paged := map[string]ledger.Size{}
		dearer := int64(7 * 2500)
		for _, row := range rows {
			cost := row.Jobs * row.CPURequestMillis
			if _, twice := paged[row.Name]; twice || cost > dearer {
				t.Errorf("%s is there twice, or after a cheaper one", row.Name)
			}
			paged[row.Name], dearer = row, cost
		}
		whole, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{}, prices))
		if err != nil || len(paged) != 1500 || total != 1500 || len(whole) != ledger.MaxGroups {
			t.Errorf("%d kinds of %d on pages, %d without; %v", len(paged), total, len(whole), err)
		}
		for _, size := range whole {
			if diff := cmp.Diff(size, paged[size.Name]); diff != "" {
				t.Fatalf("a page says something else (-whole +page):\n%s", diff)
			}
		}
	})
}

// Samples, and the gaps of all clusters, come whole or in pages; a set that hasn't changed since has a sample of before.
func TestPagesOfSamplesAndGaps(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var samples []ledger.Sample
		for set := range 30 {
			for minute := range 5 {
				samples = append(samples, ledger.Sample{Cluster: "c", Namespace: "n", Set: fmt.Sprintf("s-%02d", set),
					At: noon.Add(time.Duration(minute*10) * time.Minute), Running: int64(minute)})
			}
			if err := l.PutGap(t.Context(), ledger.Gap{Cluster: fmt.Sprint("c", set), From: noon, To: noon.Add(time.Hour),
				Reason: ledger.GapStopped}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.PutSamples(t.Context(), samples); err != nil {
			t.Fatal(err)
		}
		from := noon.Add(15 * time.Minute)
		rows, total := allPages(t, 7, func(filter ledger.Filter) (ledger.Part[ledger.Sample], error) {
			filter.From = from
			return l.Samples(t.Context(), filter)
		})
		want := slices.DeleteFunc(slices.Clone(samples), func(s ledger.Sample) bool { return s.At.Before(from.Add(-5 * time.Minute)) })
		if diff := cmp.Diff(want, rows); diff != "" || total != 120 {
			t.Errorf("%d samples in all (-want +got):\n%s", total, diff)
		}
		sets, err := l.Sets(t.Context(), ledger.Filter{From: from})
		if err != nil || len(sets) != 30 || sets[29].Running != 4 {
			t.Errorf("sets are %+v, %v", sets, err)
		}
		gaps, total := allPages(t, 7, func(filter ledger.Filter) (ledger.Part[ledger.Gap], error) {
			return l.Gaps(t.Context(), filter)
		})
		of := map[string]bool{}
		for _, gap := range gaps {
			of[gap.Cluster] = true
		}
		if len(gaps) != 30 || len(slices.Collect(maps.Keys(of))) != 30 || total != 30 {
			t.Errorf("%d gaps of %d clusters, %d in all", len(gaps), len(of), total)
		}
	})
}

// A place that no page has named is refused, in every table.
func TestAPlaceThatCantBeIsRefused(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		filter := ledger.Filter{After: "-1"}
		_, waits := l.WaitsBy(t.Context(), ledger.ByJob, filter)
		_, sizes := l.Sizes(t.Context(), filter, ledger.Prices{})
		_, samples := l.Samples(t.Context(), filter)
		_, gaps := l.Gaps(t.Context(), filter)
		_, sets := ledger.PartOf([]ledger.Sample{{}}, &filter)
		for _, err := range []error{waits, sizes, samples, gaps, sets} {
			if _, is := errors.AsType[*ledger.FilterError](err); !is {
				t.Errorf("it is answered by %v", err)
			}
		}
		beyond := ledger.Filter{After: "9223372036854775806"}
		page, err := l.WaitsBy(t.Context(), ledger.ByJob, beyond)
		if sizes, failed := l.Sizes(t.Context(), beyond, ledger.Prices{}); err != nil || failed != nil || len(page.Rows)+
			len(sizes.Rows) > 0 {
			t.Errorf("behind the last page there are %v, %v; %v, %v", page, sizes, err, failed)
		}
	})
}
