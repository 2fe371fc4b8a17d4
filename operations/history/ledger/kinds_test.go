package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	databases "github.com/harrier-ci/harrier/operations/history/database"
	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// rowsOf returns the number of kinds that the largest period of a scale set has in a database.
func rowsOf(t *testing.T, at string) (most int) {
	t.Helper()
	db, err := databases.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT MAX(kinds) FROM (SELECT COUNT(*) AS kinds FROM usage_periods WHERE span > 0 " +
		"GROUP BY span, started, cluster, namespace, set_name) AS each_period").Scan(&most); err != nil {
		t.Fatal(err)
	}
	return most
}

// totals adds up usage that was added up by each property; all must come to the same.
func totals(t *testing.T, l *ledger.Ledger, filter ledger.Filter) (total ledger.Usage) {
	t.Helper()
	for _, by := range []ledger.By{ledger.BySet, ledger.ByDay, ledger.ByRepository, ledger.ByWorkflow, ledger.ByJob} {
		used, err := l.UsageBy(t.Context(), by, filter, ledger.Prices{})
		if err != nil {
			t.Fatal(err)
		}
		if len(used) > ledger.MaxGroups {
			t.Errorf("by %s there are %d rows", by, len(used))
		}
		var sum ledger.Usage
		for i := range used {
			sum.Jobs += used[i].Jobs
			sum.Failed += used[i].Failed
			sum.JobsWithKnownWait += used[i].JobsWithKnownWait
			sum.RunHours += used[i].RunHours
		}
		if total.Jobs > 0 && (sum.Jobs != total.Jobs || sum.Failed != total.Failed ||
			sum.JobsWithKnownWait != total.JobsWithKnownWait || math.Abs(sum.RunHours-total.RunHours) > 1e-6) {
			t.Errorf("by %s it is %+v, and by set %+v", by, sum, total)
		}
		if total.Jobs == 0 {
			total = sum
		}
	}
	return total
}

// flooded are jobs of a tenant who names jobs, workflows and repositories as he likes, in several sets and over days, and
// of another one whose names repeat; each seventh failed.
func flooded() (all []ledger.Job) {
	random := rand.New(rand.NewPCG(7, 8))
	for i := range 4500 {
		job := finished(i, random.IntN(3*24*60))
		switch i % 5 {
		case 0, 1:
			job.Namespace, job.Name = "evil", fmt.Sprint("test ", random.Uint64())
		case 2:
			job.Namespace, job.Set, job.Workflow = "evil", "workflows", fmt.Sprint("acme/app/", random.Uint64())
		case 3:
			job.Namespace, job.Set, job.Repository = "evil", "repositories", fmt.Sprint("acme/", random.Uint64())
		default:
			job.Name = fmt.Sprint("job ", i/5%40)
		}
		if i%7 == 0 {
			job.Result = "failed"
		}
		all = append(all, job)
	}
	return all
}

// TestKindsAreBounded and sums stay exact: those of all jobs, of a tenant who floods, and of his neighbour.
func TestKindsAreBounded(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		l, all := open(t, at), flooded()
		var want ledger.Usage
		good := map[string]int64{}
		for some := range slices.Chunk(all, 500) {
			put(t, l, some...)
			for i := range some {
				want.Jobs++
				want.Failed += count(some[i].Result == "failed")
				want.RunHours += some[i].RunTime().Hours()
				if some[i].Namespace != "evil" {
					good[some[i].Name]++
				}
			}
		}
		addUp(t, l)
		if rows := rowsOf(t, at); rows > ledger.MaxKinds {
			t.Errorf("a period has %d kinds of a scale set", rows)
		}
		for _, filter := range []ledger.Filter{{Namespace: "evil"}, {From: noon.Add(24 * time.Hour)}} {
			totals(t, l, filter)
		}
		got := totals(t, l, ledger.Filter{})
		if got.Jobs != want.Jobs || got.Failed != want.Failed || math.Abs(got.RunHours-want.RunHours) > 1e-6 {
			t.Errorf("all come to %+v, want %+v", got, want)
		}
		jobs, err := l.UsageBy(t.Context(), ledger.ByJob, ledger.Filter{Namespace: "team-a"}, ledger.Prices{})
		names := map[string]int64{}
		for i := range jobs {
			names[jobs[i].Name] = jobs[i].Jobs
		}
		if err != nil || !maps.Equal(names, good) {
			t.Errorf("the neighbour's jobs are %v, want %v; %v", names, good, err)
		}
		checkOthers(t, l)
	})
}

// checkOthers: a row says what is folded, which has no size, and waits have all jobs.
func checkOthers(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	rows, err := l.UsageBy(t.Context(), ledger.ByJob, ledger.Filter{Namespace: "evil", Set: "linux"}, ledger.Prices{})
	if err != nil || !slices.ContainsFunc(rows, func(u ledger.Usage) bool {
		return u.Name == fold.Others && u.Workflow == finished(0, 0).Workflow && u.Repository == "acme/app" && u.Folded()
	}) {
		t.Errorf("no row says that names of a workflow are not kept, %v", err)
	}
	sizes, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{}, ledger.Prices{{CPUHour: 1}}))
	if err != nil || len(sizes) == 0 || len(sizes) > ledger.MaxGroups ||
		slices.ContainsFunc(sizes, func(s ledger.Size) bool { return s.Name == fold.Others }) {
		t.Errorf("%d sizes, or one of what is folded, %v", len(sizes), err)
	}
	for _, by := range []ledger.By{"", ledger.BySet, ledger.ByRepository, ledger.ByJob} {
		waits, err := rowsOfPage(l.WaitsBy(t.Context(), by, ledger.Filter{}))
		jobs := int64(0)
		for i := range waits {
			if waits[i].Phase == ledger.WholeWait {
				jobs += waits[i].Jobs
			}
		}
		if err != nil || jobs != 4500 {
			t.Errorf("by %q %d jobs have waited, %v", by, jobs, err)
		}
	}
}

// TestADatabaseWithoutALimitIsFolded has a database of a former version with sums of many kinds, from before and while
// it is brought in order.
func TestADatabaseWithoutALimitIsFolded(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		const kinds = 2000
		started := noon.Add(-30 * 24 * time.Hour).Truncate(24 * time.Hour).Unix()
		db, err := databases.Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		migrations, err := databases.Migrations(db)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.UpTo(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		for span, begin := range map[int64]int64{3600: started, 86400: started, -86400: started,
			7 * 86400: started - started%(7*86400), 28 * 86400: started - started%(28*86400)} {
			for kind := range kinds {
				name, jobs := fmt.Sprintf("test %d", kind), 1
				if span < 0 {
					if name, jobs = "", kinds; kind > 0 {
						break
					}
				}
				if _, err := db.Exec("INSERT INTO usage_periods VALUES ($1, $2, 'c', 'n', 's', 'o/r', 'o/r/w', $3, $4, $4, 0, 0, 0, "+
					"$4, $5, 0, 0, 0, $4, $4, $4, $4, $4, $4, $4, $4, 2000, 1024, '1:1', '1:1', '1:1', '0:1;;;;;;;0:1')", span,
					begin, name, jobs, 3600*jobs); err != nil {
					t.Fatal(err)
				}
			}
		}
		db.Close()
		l := open(t, at)
		if got := totals(t, l, ledger.Filter{}); got.Jobs != kinds || got.RunHours != kinds {
			t.Errorf("before it is folded there are %+v", got)
		}
		if err := l.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := totals(t, l, ledger.Filter{}); got.Jobs != kinds || got.RunHours != kinds {
			t.Errorf("after it is folded there are %+v", got)
		}
		if rows := rowsOf(t, at); rows != ledger.MaxKinds {
			t.Errorf("a period has %d kinds", rows)
		}
	})
}

// TestScaleSetsOfANamespaceAreBounded: whoever may create runners makes up the scale sets that they are of.
func TestScaleSetsOfANamespaceAreBounded(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range ledger.MaxSets + 50 {
			job := finished(i, 0)
			job.Namespace, job.Set, job.Name = "evil", fmt.Sprint("set-", i), fmt.Sprint("name ", i%7)
			many = append(many, job)
		}
		put(t, l, many...)
		put(t, l, many[len(many)-1]) // again
		put(t, l, finished(10_000, 0))
		for filter, want := range map[ledger.Filter]int{
			{Namespace: "evil", Set: fold.Others}: 50, {Namespace: "team-a", Set: "linux"}: 1,
		} {
			if got := jobs(t, l, filter); len(got) != want {
				t.Errorf("%d jobs are of %s/%s, want %d", len(got), filter.Namespace, filter.Set, want)
			}
		}
	})
}

// TestImpossibleSumsKeepNobodyFromAnAnswer: sums that are as large as they can be, in two periods.
func TestImpossibleSumsKeepNobodyFromAnAnswer(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		l := open(t, at)
		put(t, l, finished(1, 0), finished(2, 60))
		addUp(t, l)
		db, err := databases.Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("UPDATE usage_periods SET run_seconds = $1, cpu_requested = $1, memory_requested = $1, "+
			"wait_placed = $1", int64(math.MaxInt64)); err != nil {
			t.Fatal(err)
		}
		for _, by := range []ledger.By{ledger.BySet, ledger.ByJob} {
			filter := ledger.Filter{From: noon, To: noon.Add(2 * time.Hour)} // two hours
			used, err := l.UsageBy(t.Context(), by, filter, ledger.Prices{{CPUHour: 1}})
			if err != nil || len(used) != 1 || used[0].RunHours <= 0 || used[0].Cost <= 0 {
				t.Errorf("by %s it is %+v, %v", by, used, err)
			}
		}
	})
}

// TestNoCallOutlastsADatabaseThatHangs calls everything while PostgreSQL neither answers nor ends a connection.
func TestNoCallOutlastsADatabaseThatHangs(t *testing.T) {
	through, hang, resume := databasetest.Hanging(t, databasetest.PostgreSQL(t))
	l := open(t, through)
	put(t, l, finished(1, 0))
	l.EndCallsAfter(100 * time.Millisecond)
	hang()
	ctx := context.Background() // without a deadline of its own
	for name, call := range map[string]func() error{
		"Put":     func() error { return l.Put(ctx, []ledger.Job{finished(2, 0)}) },
		"Gone":    func() error { return l.Gone(ctx, []string{"uid-0001"}, noon) },
		"Running": func() error { _, err := l.Running(ctx, "c", ""); return err },
		"Jobs":    func() error { _, err := l.Jobs(ctx, ledger.Filter{}); return err },
		"Usage": func() error {
			_, err := l.UsageBy(ctx, ledger.BySet, ledger.Filter{}, ledger.Prices{})
			return err
		},
		"Waits":   func() error { _, err := l.WaitsBy(ctx, "", ledger.Filter{}); return err },
		"Sizes":   func() error { _, err := l.Sizes(ctx, ledger.Filter{}, ledger.Prices{}); return err },
		"Trends":  func() error { _, err := l.Trends(ctx, ledger.ByJob, "day", ledger.Filter{}); return err },
		"Changes": func() error { _, err := l.Changes(ctx, ledger.Filter{Now: noon}); return err },
		"Samples": func() error { _, err := l.Samples(ctx, ledger.Filter{}); return err },
		"PutSamples": func() error {
			return l.PutSamples(ctx, []ledger.Sample{{Cluster: "c", Namespace: "n", Set: "s", At: noon}})
		},
		"Gaps":   func() error { _, err := l.Gaps(ctx, ledger.Filter{}); return err },
		"PutGap": func() error { return l.PutGap(ctx, ledger.Gap{Cluster: "c", From: noon, To: noon}) },
		"Beat":   func() error { return l.Beat(ctx, "c", noon) },
		"Begin":  func() error { _, err := l.Begin(ctx, "c", noon); return err },
		"AddUp":  func() error { return l.AddUp(ctx) },
		"Fold":   func() error { return l.Fold(ctx) },
		"Expire": func() error { _, err := l.Expire(ctx, "c", noon, time.Hour); return err },
		"Ping":   func() error { return l.Ping(ctx) },
	} {
		if err := call(); err == nil || (!errors.Is(err, context.DeadlineExceeded) &&
			!strings.Contains(err.Error(), "timeout")) {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	resume()
	l.EndCallsAfter(time.Minute)
	put(t, l, finished(3, 0))
	if got := jobs(t, l, ledger.Filter{}); len(got) != 2 {
		t.Errorf("then there are %d jobs", len(got))
	}
}
