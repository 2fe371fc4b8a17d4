package ledger_test

import (
	"math"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// The limits of scale sets have rows of their own, with name and number; what phases and limits took on average adds up
// to the whole wait, by hours, days and longer.
func TestWaitsAtLimitsHaveRowsAndAddUp(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		put(t, l, limitedJobs()...)
		if err := l.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		waits, err := rowsOfPage(l.WaitsBy(t.Context(), ledger.ByAll, ledger.Filter{}))
		if err != nil {
			t.Fatal(err)
		}
		sum, found := parts(waits)
		most, quota := found["limitedMaxRunnersReached"], found["limitedQuotaExceeded"]
		if most.Jobs != 20 || most.LimitNumber == nil || *most.LimitNumber != 3 || most.MeanSeconds != 18 || most.P50Seconds < 54 ||
			quota.Jobs != 20 || quota.LimitNumber != nil || math.Abs(quota.MeanSeconds-4.0/3) > 1e-9 {
			t.Errorf("at limits: %+v, %+v", most, quota)
		}
		if whole := found["all"].MeanSeconds; whole != 109 || math.Abs(sum-whole) > 1e-9 {
			t.Errorf("the parts add up to %f, the whole is %f", sum, whole)
		}
		checkUseAtLimits(t, l)
	})
}

// parts adds up what is not the whole wait, and returns the rows by phase and limit.
func parts(waits []ledger.Wait) (sum float64, found map[string]ledger.Wait) {
	found = map[string]ledger.Wait{}
	for _, wait := range waits {
		found[wait.Phase+wait.LimitedReason] = wait
		if wait.Phase != ledger.WholeWait {
			sum += wait.MeanSeconds
		}
	}
	return sum, found
}

// checkUseAtLimits fails the test unless the use of limitedJobs has what they waited at limits.
func checkUseAtLimits(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	usage, err := l.UsageBy(t.Context(), ledger.BySet, ledger.Filter{}, ledger.Prices{})
	if err != nil || len(usage) != 1 || math.Abs(usage[0].Waits["limited"]-18-4.0/3) > 1e-9 {
		t.Errorf("usage: %+v, %v", usage, err)
	}
}

// limitedJobs are sixty within three days; each waited 50 s, for GitHub 1 s and for a runner 4 s. A third was at
// maxRunners, another at a quota for more than it waited.
func limitedJobs() (all []ledger.Job) {
	for i := range 60 {
		job := finished(i, 60*i)
		job.Queued, job.Assigned = job.Created.Add(-64*time.Second), job.Created.Add(-4*time.Second)
		switch i % 3 {
		case 0:
			job.LimitedReason, job.LimitNumber, job.LimitedAssigned = "MaxRunnersReached", new(int64(3)), new(int64(50))
			job.LimitedCreated = new(int64(4))
		case 1:
			job.LimitedReason, job.LimitedPlaced = "QuotaExceeded", new(int64(900))
		}
		all = append(all, job)
	}
	return all
}

// What a limit is called is written by whoever may write a status: it bounds and separates nothing.
func TestNamesOfLimitsAreForeign(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var all []ledger.Job
		for i := range 100 {
			job := finished(i, i%50)
			job.LimitedReason, job.LimitNumber, job.LimitedAssigned = "Limit", new(int64(i)), new(int64(1))
			if i == 7 {
				job.LimitedReason = "a/b=c;d"
			}
			all = append(all, job)
		}
		put(t, l, all...)
		if err := l.AddUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		waits, err := rowsOfPage(l.WaitsBy(t.Context(), ledger.BySet, ledger.Filter{}))
		limits, jobs := 0, int64(0)
		for _, wait := range waits {
			if wait.Phase == "limited" {
				limits, jobs = limits+1, jobs+wait.Jobs
			}
		}
		if err != nil || limits > 8 || jobs != 100 {
			t.Errorf("%d limits of %d jobs, %v", limits, jobs, err)
		}
	})
}

// A ledger that has just begun knows a part of the limit only: the longest known stays, with its name.
func TestTheLongestKnownLimitStays(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		job := finished(1, 0)
		job.LimitedReason, job.LimitNumber, job.LimitedAssigned = "MaxRunnersReached", new(int64(3)), new(int64(40))
		later := job
		later.LimitedReason, later.LimitNumber, later.LimitedAssigned = "QuotaExceeded", nil, new(int64(2))
		unknown := finished(1, 0)
		for _, order := range [][]ledger.Job{{job, later, unknown}, {unknown, later, job}} {
			put(t, l, order...)
			got := jobs(t, l, ledger.Filter{})[0]
			if got.LimitedReason != "MaxRunnersReached" || *got.LimitNumber != 3 || *got.LimitedAssigned != 40 {
				t.Errorf("the limit is %s, %v", got.LimitedReason, got.LimitedAssigned)
			}
		}
		if filled := ledger.Fill(unknown, job); filled.LimitedReason != "MaxRunnersReached" {
			t.Errorf("in memory it is %q", filled.LimitedReason)
		}
	})
}
