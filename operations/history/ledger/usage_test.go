package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

var closeTo = cmpopts.EquateApprox(1e-9, 1e-9)

// TestUsageIsWhatItsJobsComeTo adds up by hand, over times that begin and end anywhere in 100 days, the last of whose
// periods is not over.
func TestUsageIsWhatItsJobsComeTo(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		random := rand.New(rand.NewPCG(5, 6))
		var all []ledger.Job
		for i := range 300 {
			job := finished(i, random.IntN(100*24*60))
			job.Repository = fmt.Sprintf("acme/%d", random.IntN(3))
			job.Finished = job.Started.Add(time.Duration(random.IntN(7200)) * time.Second)
			job.Result = []string{"succeeded", "failed", "canceled"}[random.IntN(3)]
			if random.IntN(5) == 0 {
				job.LostCause = "Evicted"
			}
			all = append(all, job)
		}
		put(t, l, all[:200]...)
		addUp(t, l)
		put(t, l, all[200:]...) // some into periods that were added up
		addUp(t, l)
		late := all[0]
		late.PeakMemoryBytes = new(int64(8 << 30))
		put(t, l, late) // its periods are stale, and have their former sums
		for range 40 {
			from := noon.Add(time.Duration(random.IntN(101*24)-12) * time.Hour)
			to := from.Add(time.Duration(random.IntN(100*24)) * time.Hour)
			filter := ledger.Filter{From: from, To: to}
			if random.IntN(2) == 0 {
				filter.Repository = "acme/1"
			}
			want := byHand(all, filter)
			if to.After(noon.Add(101 * 24 * time.Hour)) {
				filter.To = time.Time{}
			}
			got, err := l.UsageBy(t.Context(), ledger.ByRepository, filter, ledger.Prices{{CPUHour: 0.5, GiBHour: 0.25}})
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got, func(a, b ledger.Usage) int { return int(a.Repository[5]) - int(b.Repository[5]) })
			if diff := cmp.Diff(want, got, closeTo); diff != "" {
				t.Fatalf("usage from %s to %s (-want +got):\n%s", from, to, diff)
			}
			days, err := l.UsageBy(t.Context(), ledger.ByDay, filter, ledger.Prices{})
			if err != nil {
				t.Fatal(err)
			}
			filter.To = to
			if diff := cmp.Diff(jobsByDay(all, filter), days, closeTo,
				cmpopts.IgnoreFields(ledger.Usage{}, "Cost", "Waits")); diff != "" {
				t.Fatalf("usage by day from %s to %s (-want +got):\n%s", from, to, diff)
			}
		}
	})
}

// jobsByDay is the usage by day without costs and waits.
func jobsByDay(jobs []ledger.Job, filter ledger.Filter) []ledger.Usage {
	days := map[time.Time]ledger.Usage{}
	for number := range 3 {
		repository := fmt.Sprintf("acme/%d", number)
		if filter.Repository != "" && filter.Repository != repository {
			continue
		}
		for _, job := range jobs {
			one := byHand([]ledger.Job{job}, ledger.Filter{From: filter.From, To: filter.To, Repository: repository})
			if len(one) == 0 {
				continue
			}
			u, day := one[0], job.Finished.UTC().Truncate(24*time.Hour)
			sum := days[day]
			sum.Day = day
			sum.Jobs, sum.Succeeded, sum.Failed = sum.Jobs+u.Jobs, sum.Succeeded+u.Succeeded, sum.Failed+u.Failed
			sum.Canceled, sum.Lost = sum.Canceled+u.Canceled, sum.Lost+u.Lost
			sum.RunHours, sum.CPUHoursRequested = sum.RunHours+u.RunHours, sum.CPUHoursRequested+u.CPUHoursRequested
			sum.GiBHoursRequested += u.GiBHoursRequested
			sum.UnpricedHours += u.RunHours // there are no prices
			sum.CPUHoursUsed += u.CPUHoursUsed
			sum.JobsWithKnownUsage += u.JobsWithKnownUsage
			sum.JobsWithKnownWait += u.JobsWithKnownWait
			days[day] = sum
		}
	}
	all := []ledger.Usage{}
	for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		all = append(all, days[day])
	}
	return all
}

// byHand is the usage by repository, with prices of 0.5 and 0.25. Each job requests 2 CPUs and 4 GiB, uses 600 s of a
// CPU, and has waited 50 s of which nothing else is left than in fixture_test.go.
func byHand(jobs []ledger.Job, filter ledger.Filter) []ledger.Usage {
	usage := []ledger.Usage{}
	for number := range 3 {
		u := ledger.Usage{Group: ledger.Group{Repository: fmt.Sprintf("acme/%d", number)}}
		for _, job := range jobs {
			if job.Repository != u.Repository || job.Finished.Before(filter.From) || !job.Finished.Before(filter.To) ||
				(filter.Repository != "" && filter.Repository != job.Repository) {
				continue
			}
			u.Jobs++
			u.Succeeded += count(job.Result == "succeeded")
			u.Failed += count(job.Result == "failed")
			u.Canceled += count(job.Result == "canceled")
			u.Lost += count(job.LostCause != "")
			u.RunHours += job.Finished.Sub(job.Started).Hours()
		}
		if u.Jobs == 0 {
			continue
		}
		u.JobsWithKnownUsage, u.JobsWithKnownWait = u.Jobs, u.Jobs
		u.CPUHoursRequested, u.GiBHoursRequested, u.CPUHoursUsed = 2*u.RunHours, 4*u.RunHours, float64(u.Jobs)/6
		u.Cost = u.CPUHoursRequested/2 + u.GiBHoursRequested/4
		u.Waits = map[string]float64{"assigned": 1, "created": 4, "registered": 1, "placed": 4, "imagePulled": 30,
			"containerUp": 1, "started": 9, "limited": 0}
		usage = append(usage, u)
	}
	return usage
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func addUp(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	if err := l.AddUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNoJobIsForgottenThatIsWrittenWhilePeriodsAreAddedUp: on PostgreSQL both happen at a time.
func TestNoJobIsForgottenThatIsWrittenWhilePeriodsAreAddedUp(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		const writers, batches = 4, 60
		var writing, adding sync.WaitGroup
		written := make(chan struct{})
		for writer := range writers {
			writing.Go(func() {
				for batch := range batches {
					put(t, l, finished(writer*batches+batch, 60*batch)) // all write into the same hour
				}
			})
		}
		adding.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					addUp(t, l)
				}
			}
		})
		writing.Wait()
		close(written)
		adding.Wait()
		addUp(t, l)
		for _, by := range []ledger.By{ledger.ByRepository, ledger.ByDay} { // from four weeks, and from days
			usage, err := l.UsageBy(t.Context(), by, ledger.Filter{}, ledger.Prices{})
			if err != nil {
				t.Fatal(err)
			}
			all := int64(0)
			for _, u := range usage {
				all += u.Jobs
			}
			if all != writers*batches {
				t.Errorf("by %s there are %d jobs, want %d", by, all, writers*batches)
			}
		}
	})
}

func TestUsageIsAddedUpByWhatIsAskedFor(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		first, second := finished(1, 0), finished(2, 24*60)
		second.Set, second.Workflow, second.Name = "gpu", "acme/app/.github/workflows/nightly.yaml", "train"
		put(t, l, first, second)
		addUp(t, l)
		for by, want := range map[ledger.By][]string{
			ledger.BySet: {"gpu", "linux"}, ledger.ByRepository: {"acme/app"},
			ledger.ByWorkflow: {first.Workflow, second.Workflow},
			ledger.ByJob:      {"test", "train"}, ledger.ByDay: {"2026-03-04", "2026-03-05"},
		} {
			usage, err := l.UsageBy(t.Context(), by, ledger.Filter{}, ledger.Prices{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range usage {
				got = append(got, map[ledger.By]string{
					ledger.BySet: u.Set, ledger.ByRepository: u.Repository, ledger.ByWorkflow: u.Workflow, ledger.ByJob: u.Name,
					ledger.ByDay: u.Day.Format(time.DateOnly),
				}[by])
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("by %s there are %v, want %v", by, got, want)
			}
		}
		var wrong *ledger.FilterError
		if _, err := l.UsageBy(t.Context(), "colour", ledger.Filter{}, ledger.Prices{}); !errors.As(err, &wrong) {
			t.Errorf("by colour gives %v", err)
		}
	})
}

func TestSumsOfImpossibleJobsDoNotOverflow(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range 50 {
			job := finished(i, 0)
			job.Started = time.Unix(1, 0)
			job.CPURequestMillis, job.MemoryRequestBytes, job.CPUMicroseconds = new(int64(1)<<62), new(int64(1)<<62),
				new(int64(1)<<62)
			many = append(many, job)
		}
		put(t, l, many...)
		addUp(t, l)
		usage, err := l.UsageBy(t.Context(), ledger.BySet, ledger.Filter{}, ledger.Prices{})
		if err != nil || len(usage) != 1 || usage[0].CPUHoursRequested <= 0 || usage[0].GiBHoursRequested <= 0 ||
			usage[0].RunHours <= 0 {
			t.Errorf("usage is %+v, %v", usage, err)
		}
	})
}

func TestSizesAreThePercentilesOfADaysAndHours(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range 100 {
			job := finished(i, i*60) // over five days
			job.PeakMemoryBytes = new(int64(1+i) << 24)
			job.CPUMicroseconds = new(int64(1+i) * 6_000_000) // 10 to 1000 thousandths of a CPU in ten minutes
			many = append(many, job)
		}
		unknown := finished(1000, 0)
		unknown.PeakMemoryBytes, unknown.CPUMicroseconds, unknown.CPUPeriods = nil, nil, nil
		put(t, l, append(many, unknown)...)
		addUp(t, l)
		sizes, err := rowsOfPage(l.Sizes(t.Context(), ledger.Filter{From: noon.Add(-time.Hour)}, ledger.Prices{{CPUHour: 1}}))
		if err != nil || len(sizes) != 1 {
			t.Fatalf("sizes are %+v, %v", sizes, err)
		}
		got := sizes[0]
		if got.Jobs != 101 || got.Measured != 100 || got.CPURequestMillis != 2000 || got.MemoryRequestBytes != 4<<30 ||
			got.ThrottledPercent == nil || *got.ThrottledPercent != 1 {
			t.Errorf("the size is %+v", got)
		}
		within := func(what string, got *int64, exact int64) {
			if got == nil || *got < exact || float64(*got) > 1.05*float64(exact)+1 {
				t.Errorf("%s is %v, exactly %d", what, got, exact)
			}
		}
		within("peak memory", got.PeakMemoryBytes, 95<<24)
		within("CPU average", got.CPUAverageMillis, 950)
		// 101 jobs of ten minutes requested 2 CPUs and need at most 0.9975.
		if got.Saving < 101.0/6*1.0025 || got.Saving > 101.0/6*1.05 {
			t.Errorf("the saving is %g", got.Saving)
		}
	})
}

// TestWaitsArePercentilesByPhase: the figures of days and hours, by hand. Of 100 jobs that began an hour after each
// other number N waited N seconds longer for its node than those of the fixture.
func TestWaitsArePercentilesByPhase(t *testing.T) {
	each(t, func(t *testing.T, l *ledger.Ledger) {
		var many []ledger.Job
		for i := range 100 {
			job := finished(i, i*60)
			later := time.Duration(i) * time.Second
			for _, moment := range []*time.Time{&job.Placed, &job.ImagePulled, &job.ContainerUp, &job.Started, &job.Finished} {
				*moment = moment.Add(later)
			}
			many = append(many, job)
		}
		nobodyKnows := finished(1000, 0)
		nobodyKnows.Queued, nobodyKnows.Assigned, nobodyKnows.Set = time.Time{}, time.Time{}, "other"
		nobodyKnows.Started = time.Time{}
		put(t, l, append(many, nobodyKnows)...)
		addUp(t, l)
		for by, groups := range map[ledger.By]int{"": 1, ledger.BySet: 1, ledger.ByRepository: 1, ledger.ByDay: 5} {
			waits, err := rowsOfPage(l.WaitsBy(t.Context(), by, ledger.Filter{Set: "linux"}))
			if err != nil || len(waits) != 8*groups {
				t.Fatalf("%d waits by %q: %+v, %v", len(waits), by, waits, err)
			}
		}
		waits, err := rowsOfPage(l.WaitsBy(t.Context(), "", ledger.Filter{Set: "linux"}))
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range waits {
			half := map[string]int64{"assigned": 1, "created": 4, "registered": 1, "placed": 4 + 49, "imagePulled": 30,
				"containerUp": 1, "started": 9, ledger.WholeWait: 50 + 49}[wait.Phase]
			most := half
			if wait.Phase == "placed" || wait.Phase == ledger.WholeWait {
				most += 45
			}
			near := func(got, exact int64) bool { return got >= exact && float64(got) <= 1.05*float64(exact)+1 }
			if wait.Jobs != 100 || !near(wait.P50Seconds, half) || !near(wait.P95Seconds, most) {
				t.Errorf("%+v, exactly %d and %d", wait, half, most)
			}
		}
		if _, err := l.WaitsBy(t.Context(), "color", ledger.Filter{}); err == nil {
			t.Error("waits are added up by color")
		}
	})
}
