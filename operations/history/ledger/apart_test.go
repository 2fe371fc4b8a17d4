package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// TestNothingIsCountedTwiceOrNotAtAll while hours begin and pass: jobs of two sets in three days, of which each tenth is told
// two hours late, by two ledgers in turn. After each AddUp all questions have all jobs.
func TestNothingIsCountedTwiceOrNotAtAll(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		ledgers, random := []*ledger.Ledger{open(t, at), open(t, at)}, rand.New(rand.NewPCG(3, 4))
		all := int64(0)
		for hour := range 60 {
			l := ledgers[random.IntN(2)]
			for number := range 4 {
				job := finished(10*hour+number, 60*hour+random.IntN(40)-120*(random.IntN(10)/9))
				job.Set = []string{"linux", "large"}[random.IntN(2)]
				put(t, l, job)
				all++
				if number%2 == 1 {
					addUp(t, l)
				}
			}
			if hour%7 > 0 {
				continue
			}
			if got := totals(t, l, ledger.Filter{}); got.Jobs != all {
				t.Fatalf("in hour %d there are %d jobs, want %d", hour, got.Jobs, all)
			}
			for _, every := range []string{rows.EveryDay, rows.EveryWeek, rows.EveryAll} {
				if got := countTrends(t, l, every); got != all {
					t.Fatalf("in hour %d trends of each %s have %d jobs, want %d", hour, every, got, all)
				}
			}
		}
	})
}

// countTrends counts the jobs of all repositories, by day or week if they are told so.
func countTrends(t *testing.T, l *ledger.Ledger, every string) (jobs int64) {
	t.Helper()
	found, err := l.Trends(t.Context(), ledger.ByRepository, every, ledger.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found.Rows {
		if found.Rows[i].Every == every {
			jobs += found.Rows[i].Jobs
		}
	}
	return jobs
}

// TestTheNewestHourLeavesItsDayAlone: a day is added up when an hour has passed, and not with each job.
func TestTheNewestHourLeavesItsDayAlone(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		l := open(t, at)
		db, err := databases.Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for number, want := range []int64{0, 0, 2, 2, 4} { // jobs of the day's row after one more, two in an hour
			put(t, l, finished(number, 60*(number/2)))
			if number == 4 {
				idle := finished(100, 60*(number/2)) // of another set, whose hour passes those of all
				idle.Set = "large"
				put(t, l, idle)
			}
			addUp(t, l)
			for table, condition := range map[string]string{"usage_periods": "span = -86400", "trend_periods": "span = 86400 AND property = 'set'"} {
				var jobs int64
				if err := db.QueryRow(fmt.Sprintf("SELECT COALESCE(SUM(jobs), 0) FROM %s WHERE %s", table, condition)).Scan(&jobs); err != nil {
					t.Fatal(err)
				}
				if jobs != want {
					t.Errorf("with %d jobs %s has %d of the day, want %d", number+1, table, jobs, want)
				}
			}
			filter := ledger.Filter{From: noon.Truncate(24 * time.Hour), To: noon.Truncate(24 * time.Hour).Add(24 * time.Hour)}
			if got := totals(t, l, filter); got.Jobs < int64(number)+1 {
				t.Errorf("with %d jobs the day is said to have %d", number+1, got.Jobs)
			}
		}
	})
}

// TestWorkflowsAreAddedUpThemselves: what tells no names of jobs apart reads none of their rows.
func TestWorkflowsAreAddedUpThemselves(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		l := open(t, at)
		lint := finished(3, 60)
		lint.Name = "lint"
		put(t, l, finished(1, 0), finished(2, 60), lint)
		addUp(t, l)
		db, err := databases.Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("DELETE FROM usage_periods WHERE span > 0"); err != nil {
			t.Fatal(err)
		}
		for by, filter := range map[ledger.By]ledger.Filter{
			ledger.ByWorkflow: {}, ledger.ByRepository: {}, ledger.ByDay: {Workflow: lint.Workflow}, ledger.BySet: {},
		} {
			used, err := l.UsageBy(t.Context(), by, filter, ledger.Prices{{CPUHour: 1}})
			if err != nil || len(used) != 1 || used[0].Jobs != 3 || used[0].Cost != 1 || used[0].UnpricedHours != 0 {
				t.Errorf("by %s it is %+v, %v", by, used, err)
			}
		}
	})
}
