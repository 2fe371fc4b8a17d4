package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// use is a generator of peaks of memory in MiB by the number of a run; 0 stands for a run that leaves no figure.
type use func(random *rand.Rand, run, runs int) int64

// uses are histories as companies have them. What they are is not known to the ledger.
var uses = map[string]use{
	"steady":  func(r *rand.Rand, _, _ int) int64 { return 900 + r.Int64N(200) },
	"growing": func(r *rand.Rand, run, runs int) int64 { return 500 + int64(1500*run/runs) + r.Int64N(50) },
	"one outlier in a hundred": func(r *rand.Rand, run, _ int) int64 {
		if run%100 == 73 {
			return 7000 + r.Int64N(500)
		}
		return 400 + r.Int64N(100)
	},
	"two sorts of runs": func(r *rand.Rand, _, _ int) int64 { return []int64{300, 6000}[r.IntN(2)] + r.Int64N(100) },
	"the last is the largest": func(r *rand.Rand, run, runs int) int64 {
		if run == runs-1 {
			return 9000
		}
		return 1000 + r.Int64N(10)
	},
	"long tail": func(r *rand.Rand, _, _ int) int64 { return 200 + int64(150*r.ExpFloat64()*r.ExpFloat64()) },
	"unmeasured now and then": func(r *rand.Rand, run, _ int) int64 {
		if run%50 == 7 {
			return 0
		}
		return 800 + r.Int64N(20)
	},
}

// history returns the runs of a workflow's job in the last 14 days, and the memory that each truly needed. A run that
// needs more than its limit is killed, and shows only what it got.
func history(random *rand.Rand, name string, of use, runs int, limitMiB int64, change func(*ledger.Job)) (jobs []ledger.Job,
	needed []int64) {
	for run := range runs {
		job := finished(0, 0)
		start := noon.Add(-14 * 24 * time.Hour).Add(time.Duration(run) * 14 * 24 * time.Hour / time.Duration(runs))
		moved := start.Sub(job.Started)
		for _, at := range []*time.Time{&job.At, &job.Queued, &job.Assigned, &job.Created, &job.Registered, &job.Placed,
			&job.ImagePulled, &job.ContainerUp, &job.Started, &job.Finished} {
			*at = at.Add(moved)
		}
		job.RunnerUID, job.Name = fmt.Sprintf("%s-%d", name, run), name
		peak := of(random, run, runs) << 20
		needed = append(needed, max(peak, 800<<20*min(1, 1-min(peak, 1))))
		job.PeakMemoryBytes, job.OOMKills = &peak, new(int64(0))
		switch {
		case peak == 0:
			job.PeakMemoryBytes, job.OOMKills = nil, nil
		case peak > limitMiB<<20:
			job.PeakMemoryBytes, job.OOMKills, job.Result = new(limitMiB<<20), new(int64(1)), "failed"
		}
		change(&job)
		jobs = append(jobs, job)
	}
	return jobs, needed
}

// Whoever follows an advice about memory loses none of the jobs of the last 14 days; where nothing can be known, nothing
// is advised, and where it can, something is.
func TestWhoFollowsAnAdviceLosesNoJob(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		random := rand.New(rand.NewPCG(14, 1))
		needed, silent := map[string][]int64{}, map[string]bool{}
		add := func(name string, of use, runs int, limitMiB int64, change func(*ledger.Job)) {
			jobs, its := history(random, name, of, runs, limitMiB, change)
			needed[name] = its
			put(t, l, jobs...)
		}
		plain := func(*ledger.Job) {}
		for name, of := range uses {
			add(name, of, 200, 1<<20, plain)
			add(name+", short", of, 12, 1<<20, plain)
			add(name+", killed", of, 200, 450, plain)
			add(name+", in dind", of, 200, 1<<20, func(j *ledger.Job) { j.Elsewhere = ledger.ElsewhereDocker })
			add(name+", in job pods", of, 200, 1<<20, func(j *ledger.Job) { j.Elsewhere = ledger.ElsewherePods })
			add(name+", lost", of, 200, 1<<20, func(j *ledger.Job) {
				if j.RunnerUID[len(j.RunnerUID)-2:] == "77" {
					j.PeakMemoryBytes, j.OOMKills, j.Result, j.LostCause = nil, nil, ledger.ResultUnknown, "OOMKilled"
				}
			})
			for _, end := range []string{", short", ", in dind", ", in job pods", ", lost"} {
				silent[name+end] = true
			}
			silent["unmeasured now and then"] = true
		}
		if err := l.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		sizes, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{From: noon.Add(-14 * 24 * time.Hour), Now: noon}, ledger.Prices{}))
		if err != nil || len(sizes) != len(needed) {
			t.Fatalf("%d sizes, %v", len(sizes), err)
		}
		advised := 0
		for i := range sizes {
			size := &sizes[i]
			if size.MemoryFitBytes == nil {
				continue
			}
			advised++
			if silent[size.Name] {
				t.Errorf("%s: %d MiB are advised, which can't be known", size.Name, *size.MemoryFitBytes>>20)
			}
			for run, peak := range needed[size.Name] {
				if peak > *size.MemoryFitBytes {
					t.Errorf("%s: run %d needed %d MiB, advised are %d", size.Name, run, peak>>20, *size.MemoryFitBytes>>20)
				}
			}
		}
		if advised < 6 {
			t.Errorf("%d of %d histories have an advice", advised, len(sizes))
		}
		checkSilentWeek(t, l)
	})
}

// checkSilentWeek fails the test if a week is enough for an advice.
func checkSilentWeek(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	week, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{From: noon.Add(-7 * 24 * time.Hour), Now: noon}, ledger.Prices{}))
	for i := range week {
		if week[i].MemoryFitBytes != nil {
			t.Errorf("a week is enough for %s", week[i].Name)
		}
	}
	if err != nil || len(week) == 0 {
		t.Errorf("%d sizes of a week, %v", len(week), err)
	}
}
