package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// changing returns jobs of so many days before noon, of two repositories, on several branches and for several events.
func changing(days, aDay int) (all []ledger.Job) {
	random := rand.New(rand.NewPCG(5, 5))
	for number := range days * aDay {
		job := finished(number, -24*60*(number/aDay)-random.IntN(11*60))
		job.Repository = []string{"acme/app", "acme/api"}[random.IntN(2)]
		job.Workflow = job.Repository + "/.github/workflows/ci.yaml"
		job.Name = []string{"test", "lint"}[random.IntN(2)]
		job.Set = []string{"linux", "large"}[random.IntN(2)]
		job.Event, job.Ref = "push", "refs/heads/main"
		if random.IntN(3) == 0 {
			job.Event, job.Ref = "pull_request", fmt.Sprintf("refs/pull/%d/merge", number)
		}
		job.Finished = job.Started.Add(time.Duration(60+random.IntN(600)) * time.Second)
		switch random.IntN(8) {
		case 0:
			job.Result = "failed"
		case 1:
			job.Result = "canceled"
		case 2:
			job.Result, job.LostCause = "failed", "Evicted"
		}
		all = append(all, job)
	}
	return all
}

// expected is what a row must say of jobs: it knows each of them, and asks nothing of the ledger.
type expected struct {
	jobs, succeeded, failed, canceled, lost int64
	runs, waits                             []int64
}

func (e *expected) add(job *ledger.Job) {
	e.jobs++
	switch {
	case job.LostCause != "":
		e.lost++
	case job.Result == "succeeded":
		e.succeeded++
		e.runs = append(e.runs, int64(job.Finished.Sub(job.Started).Seconds()))
	case job.Result == "failed":
		e.failed++
	default:
		e.canceled++
	}
	e.waits = append(e.waits, int64(job.Started.Sub(job.Queued).Seconds()))
}

// near reports whether a percentile is that of the figures, or at most 5 % and a second more.
func near(told *int64, figures []int64, share float64) bool {
	if told == nil || len(figures) == 0 {
		return told == nil && len(figures) == 0
	}
	slices.Sort(figures)
	exact := figures[int(float64(len(figures))*share+0.999999)-1]
	return *told >= exact-1 && float64(*told) <= 1.05*float64(exact)+1
}

func (e *expected) check(t *testing.T, name string, got *ledger.Trend) {
	t.Helper()
	if got.Jobs != e.jobs || got.Succeeded != e.succeeded || got.Failed != e.failed || got.Canceled != e.canceled || got.Lost != e.lost {
		t.Errorf("%s: %+v, want %+v", name, got, e)
	}
	if !near(got.RunSecondsP50, e.runs, 0.5) || !near(got.RunSecondsP95, e.runs, 0.95) ||
		!near(got.WaitSecondsP50, e.waits, 0.5) || !near(got.WaitSecondsP95, e.waits, 0.95) {
		t.Errorf("%s: the percentiles of %+v are not those of its %d jobs", name, got, e.jobs)
	}
}

// branch says of a job of changing what its branch counts as.
func branch(job *ledger.Job) string {
	if job.Event == "pull_request" {
		return "(pull requests)"
	}
	return "main"
}

// keys name the group of a job, and told that of a row.
var (
	keys = map[ledger.By]func(*ledger.Job) string{
		ledger.ByAll: func(*ledger.Job) string { return "" }, ledger.BySet: func(j *ledger.Job) string { return j.Set },
		ledger.ByRepository: func(j *ledger.Job) string { return j.Repository },
		ledger.ByWorkflow:   func(j *ledger.Job) string { return j.Workflow },
		ledger.ByJob:        func(j *ledger.Job) string { return j.Workflow + j.Name },
		ledger.ByBranch:     func(j *ledger.Job) string { return j.Repository + branch(j) },
		ledger.ByEvent:      func(j *ledger.Job) string { return j.Event },
	}
	told = map[ledger.By]func(*ledger.Trend) string{
		ledger.ByAll: func(*ledger.Trend) string { return "" }, ledger.BySet: func(r *ledger.Trend) string { return r.Set },
		ledger.ByRepository: func(r *ledger.Trend) string { return r.Repository },
		ledger.ByWorkflow:   func(r *ledger.Trend) string { return r.Workflow },
		ledger.ByJob:        func(r *ledger.Trend) string { return r.Workflow + r.Name },
		ledger.ByBranch:     func(r *ledger.Trend) string { return r.Repository + r.Branch },
		ledger.ByEvent:      func(r *ledger.Trend) string { return r.Event },
	}
)

// begin is that of the day or week of a job, empty if all the time is asked for. Weeks begin on Thursdays.
func begin(every string, job *ledger.Job) string {
	long := map[string]int64{rows.EveryDay: 86400, rows.EveryWeek: 7 * 86400}[every]
	if long == 0 {
		return ""
	}
	return time.Unix(job.Finished.Unix()-job.Finished.Unix()%long, 0).UTC().Format(time.DateOnly)
}

// checkTrends fails the test unless the rows of an answer are those of the jobs.
func checkTrends(t *testing.T, name string, by ledger.By, every string, jobs []ledger.Job, got []ledger.Trend) {
	t.Helper()
	want := map[string]*expected{}
	for i := range jobs {
		at := []string{keys[by](&jobs[i]) + " all"}
		if begin := begin(every, &jobs[i]); begin != "" {
			at = append(at, keys[by](&jobs[i])+" "+begin)
		}
		for _, name := range at {
			if want[name] == nil {
				want[name] = &expected{}
			}
			want[name].add(&jobs[i])
		}
	}
	for i := range got {
		row := &got[i]
		at := told[by](row) + " all"
		if row.Every != rows.EveryAll {
			at = told[by](row) + " " + row.From.Format(time.DateOnly)
		}
		if want[at] == nil {
			t.Fatalf("%s: there is a row %q: %+v", name, at, row)
		}
		want[at].check(t, name+": "+at, row)
		delete(want, at)
	}
	if len(want) > 0 {
		t.Errorf("%s: these rows are missing: %v", name, want)
	}
}

// TestTrendsAreThoseOfTheJobs compares every way to ask with the jobs themselves.
func TestTrendsAreThoseOfTheJobs(t *testing.T) {
	filters := map[string]struct {
		ledger.Filter
		has func(*ledger.Job) bool
	}{
		"all":          {ledger.Filter{}, func(*ledger.Job) bool { return true }},
		"a set":        {ledger.Filter{Set: "large"}, func(j *ledger.Job) bool { return j.Set == "large" }},
		"a repository": {ledger.Filter{Repository: "acme/api"}, func(j *ledger.Job) bool { return j.Repository == "acme/api" }},
		"a branch":     {ledger.Filter{Branch: "main"}, func(j *ledger.Job) bool { return branch(j) == "main" }},
		"an event of a job": {ledger.Filter{Event: "push", Name: "lint"},
			func(j *ledger.Job) bool { return j.Event == "push" && j.Name == "lint" }},
	}
	each(t, func(t *testing.T, l *ledger.Ledger) {
		all := changing(20, 60)
		put(t, l, all...)
		put(t, l, all[:100]...) // again
		addUp(t, l)
		for _, every := range []string{rows.EveryDay, rows.EveryWeek, rows.EveryAll} {
			for by := range keys {
				for name, filter := range filters {
					got, err := l.Trends(t.Context(), by, every, filter.Filter)
					both := filter.Branch != "" && by == ledger.ByEvent || filter.Event != "" && by == ledger.ByBranch
					if both != (err != nil) {
						t.Fatalf("%s by %s: %v", name, by, err)
					}
					if both {
						continue
					}
					var some []ledger.Job
					for i := range all {
						if filter.has(&all[i]) {
							some = append(some, all[i])
						}
					}
					checkTrends(t, fmt.Sprintf("%s by %s, every %s", name, by, every), by, every, some, got.Rows)
				}
			}
		}
	})
}

// TestBranchesAreFoldedAndEventsAreNot: a branch for each job, as of people who name branches after tickets.
func TestBranchesAreFoldedAndEventsAreNot(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var all []ledger.Job
		for number := range 3000 {
			job := finished(number, number%50)
			job.Name = fmt.Sprint("job ", number%5)
			if job.Ref = fmt.Sprintf("refs/heads/ticket-%d", number); number%3 == 0 {
				job.Ref = "refs/heads/main"
			}
			all = append(all, job)
		}
		put(t, l, all...)
		addUp(t, l)
		total := func(by ledger.By, filter ledger.Filter, has func(*ledger.Trend) bool) (jobs int64) {
			found, err := l.Trends(t.Context(), by, rows.EveryAll, filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Rows) > ledger.MaxKinds/2 {
				t.Errorf("by %s there are %d rows", by, len(found.Rows))
			}
			for i := range found.Rows {
				if has(&found.Rows[i]) {
					jobs += found.Rows[i].Jobs
				}
			}
			return jobs
		}
		anything := func(*ledger.Trend) bool { return true }
		if got := total(ledger.ByBranch, ledger.Filter{}, anything); got != 3000 {
			t.Errorf("all branches have %d jobs", got)
		}
		if got := total(ledger.ByBranch, ledger.Filter{}, func(r *ledger.Trend) bool { return r.Branch == "main" }); got != 1000 {
			t.Errorf("main has %d jobs", got)
		}
		if got := total(ledger.ByBranch, ledger.Filter{}, (*ledger.Trend).Folded); got < 1700 {
			t.Errorf("the row of branches that are not kept has %d jobs", got)
		}
		if got := total(ledger.ByJob, ledger.Filter{Branch: "main", Name: "job 3"}, anything); got != 200 {
			t.Errorf("a job has %d on main", got)
		}
		if got := total(ledger.ByEvent, ledger.Filter{Name: "job 3"}, anything); got != 600 {
			t.Errorf("a job has %d of all events", got)
		}
		if got := len(jobs(t, l, ledger.Filter{Branch: "main"})); got != 1000 {
			t.Errorf("%d jobs are listed of main", got)
		}
	})
}

// TestAnEndThatIsToldLateIsInTheTrends, and one that is told when the hours are gone changes nothing, unless nothing was known of
// its hour.
func TestAnEndThatIsToldLateIsInTheTrends(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		put(t, l, finished(1, 0), finished(2, 60), finished(3, 60))
		addUp(t, l)
		count := func() (counted []int64) {
			found, err := l.Trends(t.Context(), ledger.ByAll, rows.EveryWeek, ledger.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range found.Rows {
				counted = append(counted, found.Rows[i].Jobs)
			}
			return counted
		}
		put(t, l, finished(4, 60), finished(5, 120))
		addUp(t, l)
		if got := count(); !slices.Equal(got, []int64{5, 5}) {
			t.Errorf("there are %v jobs", got)
		}
		for _, at := range []time.Duration{9, 95} {
			if _, err := l.Expire(t.Context(), "c", noon.Add(at*24*time.Hour), 90*24*time.Hour); err != nil {
				t.Fatal(err)
			}
			if at == 9 {
				for number, want := range []int64{5, 6} {
					put(t, l, finished(10+number, 180*number))
					addUp(t, l)
					if got := count(); !slices.Equal(got, []int64{want, want}) {
						t.Errorf("after nine days there are %v jobs, want %d", got, want)
					}
				}
			}
		}
		if got := count(); len(got) > 0 {
			t.Errorf("when the retention is over there are %v jobs", got)
		}
	})
}

func TestTrendsComeInPagesAndRefuseWhatThereIsNot(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		put(t, l, changing(3, 60)...)
		addUp(t, l)
		first, err := l.Trends(t.Context(), ledger.ByJob, rows.EveryAll, ledger.Filter{Limit: 3})
		if err != nil || len(first.Rows) != 3 || first.Total != 4 || first.Next == "" {
			t.Fatalf("the first page is %+v, %v", first, err)
		}
		second, err := l.Trends(t.Context(), ledger.ByJob, rows.EveryAll, ledger.Filter{Limit: 3, After: first.Next})
		if err != nil || len(second.Rows) != 1 || second.Next != "" {
			t.Fatalf("the second page is %+v, %v", second, err)
		}
		if empty, err := l.Trends(t.Context(), ledger.ByAll, rows.EveryDay, ledger.Filter{Set: "none"}); err != nil || len(empty.Rows) > 0 {
			t.Errorf("of no job there are %+v, %v", empty, err)
		}
		for field, ask := range map[string]func() error{
			"by":    func() error { _, err := l.Trends(t.Context(), "day", rows.EveryDay, ledger.Filter{}); return err },
			"every": func() error { _, err := l.Trends(t.Context(), ledger.BySet, "hour", ledger.Filter{}); return err },
			"branch": func() error {
				_, err := l.Trends(t.Context(), "", rows.EveryDay, ledger.Filter{Branch: "main", Event: "push"})
				return err
			},
		} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// slowing returns 28 days before noon's of two jobs, of which one took twice as long in the last seven, and a set in which
// jobs waited for five minutes then.
func slowing() (all []ledger.Job) {
	for day := range 28 {
		for number := range 24 {
			job := finished(len(all), -24*60*(day+1)+number)
			job.Name = []string{"steady", "slowing"}[number%2]
			took := time.Duration(300+7*(number%5)+day%3) * time.Second
			if job.Name == "slowing" && day < 7 {
				took *= 2
			}
			if day < 7 {
				job.Queued = job.Created.Add(-5 * time.Minute)
			}
			job.Finished = job.Started.Add(took)
			all = append(all, job)
		}
	}
	return all
}

func between(value, least, most float64) bool { return least <= value && value <= most }

func TestWhatGotWorseIsNamed(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		all := slowing()
		for number := range 2000 { // names that never repeat are no kinds that could change
			job := finished(100_000+number, -number)
			job.Name, job.Set = fmt.Sprint("test ", number), "other"
			all = append(all, job)
		}
		put(t, l, all...)
		addUp(t, l)
		changes, err := l.Changes(t.Context(), ledger.Filter{Now: noon})
		if err != nil || len(changes) != 2 {
			t.Fatalf("what changed is %+v, %v", changes, err)
		}
		slower, longer := changes[0], changes[1]
		said := fmt.Sprint(slower.What, " ", slower.Name, " ", slower.Event, " ", slower.JobsBefore, " ", slower.JobsAfter)
		want := fmt.Sprint(rows.Slower, " slowing push ", 21*12, " ", 7*12)
		if said != want || !between(slower.Before, 290, 340) || !between(slower.After, 580, 680) {
			t.Errorf("what got slower is %+v, want %s", slower, want)
		}
		if said := longer.What + " " + longer.Set; said != rows.WaitsLonger+" linux" ||
			!between(longer.Before, 0, 60) || !between(longer.After, 300, 600) {
			t.Errorf("what waits longer is %+v", longer)
		}
		if of := slower.From.UTC().Format(time.DateOnly) + " to " + slower.To.UTC().Format(time.DateOnly); of != "2026-02-25 to 2026-03-04" {
			t.Errorf("it is of %s", of)
		}
		for _, filter := range []ledger.Filter{{Now: noon, Namespace: "team-b"}, {Now: noon.AddDate(0, 0, 30)},
			{Now: noon, To: noon.AddDate(0, 0, -7)}, {Now: noon, Repository: fold.Others}} {
			if changes, err := l.Changes(t.Context(), filter); err != nil || len(changes) > 0 {
				t.Errorf("%+v: %+v, %v", filter, changes, err)
			}
		}
	})
}
