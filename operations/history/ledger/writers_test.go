package ledger_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/databasetest"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

func beat(t *testing.T, l *ledger.Ledger, at time.Time) {
	t.Helper()
	if err := l.Beat(t.Context(), "c", at); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, l *ledger.Ledger, at time.Time, uid string) {
	t.Helper()
	if err := l.Gone(t.Context(), []string{uid}, at); err != nil {
		t.Fatal(err)
	}
}

// started returns a job that runs since noon.
func started(number int) ledger.Job {
	job := finished(number, 0)
	job.Finished, job.Result = time.Time{}, ""
	job.PeakMemoryBytes, job.CPUMicroseconds, job.CPUPeriods, job.ThrottledPeriods = nil, nil, nil, nil
	return job
}

// TestAnEndThatNobodySawHasNoRunTime: the ledger was off from Friday to Monday.
func TestAnEndThatNobodySawHasNoRunTime(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		friday := open(t, at)
		put(t, friday, started(1), finished(2, 0))
		beat(t, friday, noon.Add(time.Minute))
		monday, now := open(t, at), noon.Add(63*time.Hour)
		beat(t, monday, now)
		gone(t, monday, now, "uid-0001")
		addUp(t, monday)
		got, err := monday.Job(t.Context(), "uid-0001")
		if err != nil || !got.Finished.Equal(noon.Add(time.Minute)) || got.Ending != ledger.EndingUnseen || got.RunTime() != 0 {
			t.Errorf("it ended at %s, %q, after %s; %v", got.Finished, got.Ending, got.RunTime(), err)
		}
		used := func() ledger.Usage {
			t.Helper()
			usage, err := monday.UsageBy(t.Context(), ledger.BySet, ledger.Filter{}, ledger.Prices{{CPUHour: 6}})
			if err != nil || len(usage) != 1 {
				t.Fatalf("usage is %v, %v", usage, err)
			}
			return usage[0]
		}
		if usage := used(); usage.Jobs != 2 || usage.RunHours != 1.0/6 || usage.Cost != 2 {
			t.Errorf("two jobs, of which one took ten minutes, come to %+v", usage)
		}
		// GitHub's word comes late, from anybody, and for another hour than was thought.
		job := started(1)
		job.Finished, job.Result = noon.Add(90*time.Minute), "succeeded"
		put(t, open(t, at), job)
		addUp(t, monday)
		if usage := used(); usage.Jobs != 2 || usage.Succeeded != 2 || usage.RunHours != 1.0/6+1.5 {
			t.Errorf("after GitHub's word they come to %+v", usage)
		}
	})
}

// TestWhoWroteARowEndsIt: of two ledgers of one cluster's name, one sees nothing, or another cluster.
func TestWhoWroteARowEndsIt(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		sees, blind := open(t, at), open(t, at)
		beat(t, blind, noon)
		put(t, sees, started(1), started(2))
		beat(t, sees, noon.Add(time.Minute))
		runs := func(after time.Duration, uid string, want bool) {
			t.Helper()
			if job, err := sees.Job(t.Context(), uid); err != nil || job.Finished.IsZero() != want {
				t.Errorf("after %s job %s ended at %s, %v", after, uid, job.Finished, err)
			}
		}
		seen := started(1)
		seen.Finished, seen.Ending, seen.Result = noon.Add(11*time.Minute), ledger.EndingRunnerGone, ledger.ResultUnknown
		put(t, blind, seen)
		gone(t, blind, noon.Add(11*time.Minute), "uid-0001")
		runs(11*time.Minute, "uid-0001", true)
		put(t, sees, seen)
		runs(11*time.Minute, "uid-0001", false)
		// The one that sees stops without a word; the other one has its rows 15 minutes later.
		gone(t, blind, noon.Add(15*time.Minute), "uid-0002")
		runs(15*time.Minute, "uid-0002", true)
		gone(t, blind, noon.Add(16*time.Minute), "uid-0002")
		runs(16*time.Minute, "uid-0002", false)
		if job, _ := sees.Job(t.Context(), "uid-0002"); !job.Finished.Equal(noon.Add(time.Minute)) {
			t.Errorf("its end is %s, not the last sign of life", job.Finished)
		}
	})
}

// TestASuccessorNeedNotWait for the silence of one that has stopped as it should, unlike one that has run beside it.
func TestASuccessorNeedNotWait(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, at string) {
		beside, former := open(t, at), open(t, at)
		beat(t, beside, noon)
		put(t, former, started(1), started(2))
		if err := former.Stop(t.Context(), "c", noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		now := noon.Add(2 * time.Minute)
		gone(t, beside, now, "uid-0001")
		if job, _ := former.Job(t.Context(), "uid-0001"); !job.Finished.IsZero() {
			t.Error("one that ran beside it has ended its job")
		}
		successor := open(t, at)
		beat(t, successor, now)
		orphans, err := successor.Orphans(t.Context(), "c", now)
		if err != nil || len(orphans) != 2 {
			t.Fatalf("orphans are %v, %v", orphans, err)
		}
		if err := successor.Adopt(t.Context(), []string{"uid-0002"}); err != nil {
			t.Fatal(err)
		}
		gone(t, successor, now, "uid-0001")
		if job, _ := former.Job(t.Context(), "uid-0001"); !job.Finished.Equal(noon.Add(time.Minute)) {
			t.Errorf("the successor has its end at %s", job.Finished)
		}
		beat(t, successor, noon.Add(time.Hour))
		gone(t, beside, noon.Add(time.Hour), "uid-0002")
		if job, _ := former.Job(t.Context(), "uid-0002"); !job.Finished.IsZero() {
			t.Error("one that ran beside them has ended the successor's job")
		}
	})
}
